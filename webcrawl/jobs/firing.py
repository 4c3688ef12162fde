"""Decides what happens to the firings of a job, and makes exactly one iteration of each firing.

A transaction reads the time up to which firings are decided, adds a row for each later firing and stores the time of
the last. The transaction locks the job's row (in SQLite, the file), so that a single scheduler decides, and the others
find no firing left. A unique index over job and time guarantees this. A firing that has an iteration already, such as
one that an operator started at that second, gets no second one.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Connection, select

from webcrawl.jobs.definition import Definition, Missed, Overlap
from webcrawl.jobs.records import Iteration, IterationState, JobState
from webcrawl.jobs.store import JobStore, active, add_iteration, lock, stop_active
from webcrawl.jobs.tables import iterations, jobs

ON_TIME = timedelta(minutes=1)
"""A firing counts as missed if it is decided later than this."""
MOST_AHEAD = timedelta(minutes=1)
"""Clocks may differ by this. Firings that are decided further in the future were decided by a wrong clock."""
MISSED = "missed: "
"""The beginning of the reason of a missed firing that was not run."""
REPLACED = "replaced by "
"""The beginning of the reason of an iteration that was stopped when a later iteration was due."""


class Decision(NamedTuple):
    """What happens with a firing."""

    skipped: str | None = None
    """Why the firing is not run; None if it is run."""
    replaces: bool = False
    """Whether the predecessors of the firing are stopped."""


def decide(
    due: datetime, now: datetime, missed: Missed, overlap: Overlap, before: Sequence[Iteration]
) -> Decision:
    """Returns what happens with the latest firing. `before`: the iterations of the job that have not ended."""
    if missed == "skip" and now - due > ON_TIME:
        return Decision(f"{MISSED}no scheduler ran when it was due")
    if not before:
        return Decision()
    if overlap == "replace":
        return Decision(replaces=True)
    if overlap == "skip":
        return Decision(f"iteration {before[0].number} had not ended")
    if any(iteration.state == IterationState.WAITING for iteration in before):
        # otherwise a crawl that takes longer than its period would have a growing queue of iterations
        return Decision("another iteration waited already")
    return Decision()


def fire(store: JobStore, name: str, now: datetime) -> list[Iteration]:
    """Makes iterations of the undecided due firings of a job; returns the iterations, the oldest first.

    Of several firings, only the latest may be run: each would crawl the web as it is now. Raises StoreError, and
    WrongJob if the stored definition cannot be read.
    """

    def work(connection: Connection) -> list[Iteration]:
        job = lock(connection, name)
        if job is None or job.state != JobState.ON:
            return []
        definition = Definition.of(job.definition)
        dues = definition.schedule.between(job.decided, now)
        if not dues:
            return []
        existing = select(iterations.c.due).where(iterations.c.job == name, iterations.c.due.in_(dues))
        known = set(connection.execute(existing).scalars())
        later = f"{MISSED}a later firing was due as well"
        made = [
            add_iteration(connection, name, due, now, skipped=later) for due in dues[:-1] if due not in known
        ]
        if dues[-1] not in known:
            made.append(_fire_latest(connection, definition, dues[-1], now))
        connection.execute(jobs.update().where(jobs.c.name == name).values(decided=dues[-1]))
        return made

    return store.database.write(work)


def correct_decided(store: JobStore, name: str, now: datetime) -> bool:
    """Lets a job fire again whose firings a clock that was ahead has decided far beyond `now`.

    Without this, the job would not fire for the length of the jump. Returns whether there was such a time; raises
    StoreError.
    """
    is_ahead = (jobs.c.name == name, jobs.c.decided > now + MOST_AHEAD)
    return store.database.write(
        lambda connection: connection.execute(jobs.update().where(*is_ahead).values(decided=now)).rowcount > 0
    )


def _fire_latest(connection: Connection, definition: Definition, due: datetime, now: datetime) -> Iteration:
    name = definition.name
    decision = decide(due, now, definition.missed, definition.overlap, active(connection, name))
    if decision.replaces:
        stop_active(connection, name, f"{REPLACED}the firing of {due:%Y-%m-%d %H:%M} UTC", now)
    return add_iteration(connection, name, due, now, skipped=decision.skipped)
