"""Decides what happens to the firings of a job, and makes an iteration of each firing, exactly once.

One transaction reads which firings are decided, adds a row for each later firing and stores the time of the last. It
holds the lock of the job's row (the write lock of the file in SQLite), so one scheduler decides, and
other schedulers have nothing left to decide. A unique index over job and time guarantees that.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Connection

from webcrawl.jobs.definition import Definition, Missed, Overlap
from webcrawl.jobs.records import Iteration, IterationState, JobState
from webcrawl.jobs.store import JobStore, active, add_iteration, lock, stop_active
from webcrawl.jobs.tables import jobs

ON_TIME = timedelta(minutes=1)
"""A firing that is decided later than this was missed."""
MISSED = "missed: "
"""The beginning of the reason of a firing that was missed and not run."""
REPLACED = "replaced by "
"""The beginning of the reason of an iteration that was stopped when a later one was due."""


class Decision(NamedTuple):
    """What happens to a firing."""

    skipped: str | None = None
    """Why the firing is not run; None if it is run."""
    replaces: bool = False
    """Whether its predecessors are stopped."""


def decide(
    due: datetime, now: datetime, missed: Missed, overlap: Overlap, before: Sequence[Iteration]
) -> Decision:
    """What becomes of the latest firing; `before` has the iterations of its job that have not ended."""
    if missed == "skip" and now - due > ON_TIME:
        return Decision(f"{MISSED}no scheduler ran when it was due")
    if not before:
        return Decision()
    if overlap == "replace":
        return Decision(replaces=True)
    if overlap == "skip":
        return Decision(f"iteration {before[0].number} had not ended")
    if any(iteration.state == IterationState.WAITING for iteration in before):
        # a crawl that takes longer than its period would otherwise have an endless queue behind it
        return Decision("another iteration waited already")
    return Decision()


def fire(store: JobStore, name: str, now: datetime) -> list[Iteration]:
    """Makes iterations of the firings of a job that are due and not decided; returns them, the oldest first.

    Of several, only the latest may be run: each crawls the web as it is now. Raises StoreError, and WrongJob when the
    stored definition cannot be read.
    """

    def work(connection: Connection) -> list[Iteration]:
        job = lock(connection, name)
        if job is None or job.state != JobState.ON:
            return []
        definition = Definition.of(job.definition)
        dues = definition.schedule.between(job.decided, now)
        if not dues:
            return []
        later = f"{MISSED}a later firing was due as well"
        made = [add_iteration(connection, name, due, now, skipped=later) for due in dues[:-1]]
        made.append(_fire_latest(connection, definition, dues[-1], now))
        connection.execute(jobs.update().where(jobs.c.name == name).values(decided=dues[-1]))
        return made

    return store.database.write(work)


def _fire_latest(connection: Connection, definition: Definition, due: datetime, now: datetime) -> Iteration:
    name = definition.name
    decision = decide(due, now, definition.missed, definition.overlap, active(connection, name))
    if decision.replaces:
        stop_active(connection, name, f"{REPLACED}the firing of {due:%Y-%m-%d %H:%M} UTC", now)
    return add_iteration(connection, name, due, now, skipped=decision.skipped)
