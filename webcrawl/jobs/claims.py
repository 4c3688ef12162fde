"""Which scheduler runs which iteration: a lock on each row, with a fencing token.

A scheduler that takes an iteration raises its `fence`, and names that number in every later change. So one that lost an
iteration without knowing, because it was stopped for a minute or cut off, changes nothing more. It shows that it is
alive by counting `beat` up. Another one takes the iteration when it has seen the same beat for SILENCE on its own
clock: clocks of different machines are never compared.
"""

from __future__ import annotations

import socket
import uuid
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, select

from webcrawl.errors import ClaimLost
from webcrawl.jobs.records import ACTIVE, Counts, Iteration, State
from webcrawl.jobs.store import JobStore, lock, read_iteration
from webcrawl.jobs.tables import iterations

SILENCE = timedelta(seconds=30)
"""A scheduler that shows no sign of life for so long has lost its iterations."""


@dataclass(slots=True)
class Claims:
    """The iterations that one scheduler may take, and those that it has."""

    store: JobStore
    shared_engine: bool
    """Whether the engine and so the crawls can be reached from other machines."""
    scheduler: str = field(default_factory=lambda: f"{socket.gethostname()}:{uuid.uuid4().hex[:8]}")
    machine: str = field(default_factory=socket.gethostname)
    _seen: dict[int, tuple[tuple[int, int], datetime]] = field(default_factory=dict, init=False)
    """Iteration that this scheduler does not hold -> its fence and beat, and when they were seen first."""

    def open(self, now: datetime, held: Container[int] = ()) -> list[Iteration]:
        """Iterations that this scheduler may try to take, the oldest first; it holds those with the ids `held`."""
        query = select(iterations).where(iterations.c.state.in_(ACTIVE)).order_by(iterations.c.id)
        with self.store.database.reading() as connection:
            found = [read_iteration(row) for row in connection.execute(query)]
        # not by their holder: the answer to the statement that took one may have been lost
        others = [one for one in found if one.id not in held]
        before = self._seen
        self._seen = {}
        for one in others:
            sign, since = before.get(one.id, ((-1, -1), now))
            known = sign == (one.fence, one.beat) and since <= now
            self._seen[one.id] = ((one.fence, one.beat), since if known else now)
        return [one for one in others if self._is_open(one, found, now)]

    def _is_open(self, one: Iteration, found: list[Iteration], now: datetime) -> bool:
        if one.state == State.WAITING:
            return not any(other.job == one.job and other.state == State.RUNNING for other in found)
        reachable = self.shared_engine or is_here(one, self.machine) or one.stop is not None
        silent = now - self._seen[one.id][1] >= SILENCE
        return reachable and (one.holder is None or silent)

    def take(self, one: Iteration, data_dir: str | None, now: datetime) -> Iteration | None:
        """Takes an iteration that `open` has returned; None if another scheduler was faster."""

        def work(connection: Connection) -> Iteration | None:
            # another scheduler may start another iteration of the job
            lock(connection, one.job)
            running = (iterations.c.job == one.job, iterations.c.state == State.RUNNING)
            if connection.execute(select(iterations.c.id).where(*running, iterations.c.id != one.id)).first():
                return None
            same = (iterations.c.id == one.id, iterations.c.state == one.state)
            unchanged = (iterations.c.fence == one.fence, iterations.c.beat == one.beat)
            values = {
                "state": State.RUNNING,
                "holder": self.scheduler,
                "machine": self.machine,
                "fence": one.fence + 1,
                "started": one.started or now,
                "data_dir": one.data_dir or data_dir,
            }
            change = iterations.update().where(*same, *unchanged).values(values).returning(*iterations.c)
            row = connection.execute(change).first()
            return None if row is None else read_iteration(row)

        return self.store.database.write(work)

    def beat(self, one: Iteration, counts: Counts | None = None) -> str | None:
        """Shows that the holder is alive, and stores counts; returns why the iteration is to be stopped, if it is.

        Raises ClaimLost.
        """
        values = {} if counts is None else counts._asdict()
        return self._change(one, {"beat": iterations.c.beat + 1, **values}).stop

    def end(
        self, one: Iteration, state: State, reason: str, counts: Counts | None, now: datetime
    ) -> Iteration:
        """Ends an iteration; raises ClaimLost."""
        values = {"state": state, "reason": reason, "ended": now, "holder": None}
        return self._change(one, values if counts is None else values | counts._asdict())

    def release(self, one: Iteration) -> None:
        """Gives an iteration up, so that any scheduler may go on with it at once; raises ClaimLost."""
        self._change(one, {"holder": None})

    def _change(self, one: Iteration, values: Mapping[str, Any]) -> Iteration:
        mine = (iterations.c.id == one.id, iterations.c.fence == one.fence)
        change = iterations.update().where(*mine, iterations.c.state == State.RUNNING).values(values)

        def work(connection: Connection) -> Iteration:
            row = connection.execute(change.returning(*iterations.c)).first()
            if row is None:
                raise ClaimLost(f"iteration {one.number} of job {one.job!r} was taken by another scheduler")
            return read_iteration(row)

        return self.store.database.write(work)


def is_here(one: Iteration, machine: str) -> bool:
    """Whether the files of an iteration are on this machine, also if it had another name, as containers have."""
    return one.data_dir is None or one.machine in (None, machine) or Path(one.data_dir).exists()
