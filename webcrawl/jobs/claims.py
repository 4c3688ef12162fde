"""Assigns iterations to schedulers: a lock on each row with a fencing token.

A scheduler that takes an iteration increments its `fence`, and names this number in each later change. So a scheduler
that was suspended or cut off, and has lost the iteration unknowingly, cannot change it. A live holder increments
`beat`. Another scheduler takes the iteration after the beat has not changed for SILENCE on the clock of that scheduler:
clocks of different machines are never compared. This clock is steady (`Clock.steady`): setting the time of a machine
neither takes an iteration from a live scheduler nor keeps that of a dead one.
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
from webcrawl.jobs.records import ACTIVE, Iteration, IterationCounts, IterationState
from webcrawl.jobs.store import JobStore, lock, read_iteration
from webcrawl.jobs.tables import iterations

SILENCE = timedelta(seconds=30)
"""A scheduler without a sign of life for this time loses its iterations."""


@dataclass(slots=True)
class IterationClaims:
    """The iterations that a scheduler may take, and its claims to the iterations that it runs."""

    store: JobStore
    shared_engine: bool
    """Whether the engine, and so the crawls, can be reached from other machines."""
    scheduler: str = field(default_factory=lambda: f"{socket.gethostname()}:{uuid.uuid4().hex[:8]}")
    machine: str = field(default_factory=socket.gethostname)
    _seen: dict[int, tuple[tuple[int, int], datetime]] = field(default_factory=dict, init=False)
    """The fence and beat of other schedulers' iterations, and the steady time when this scheduler first saw them."""

    def open(self, steady: datetime, held: Container[int] = ()) -> list[Iteration]:
        """Returns iterations that this scheduler may try to take, the oldest first.

        steady  the steady time
        held    the ids of the iterations that it has
        """
        query = select(iterations).where(iterations.c.state.in_(ACTIVE)).order_by(iterations.c.id)
        with self.store.database.reading() as connection:
            active = [read_iteration(row) for row in connection.execute(query).mappings()]
        # by `held` instead of the holder, because the answer to the statement that took an iteration may have been lost
        others = [iteration for iteration in active if iteration.id not in held]
        before = self._seen
        self._seen = {}
        for iteration in others:
            sign, since = before.get(iteration.id, ((-1, -1), steady))
            known = sign == (iteration.fence, iteration.beat)
            self._seen[iteration.id] = ((iteration.fence, iteration.beat), since if known else steady)
        return [iteration for iteration in others if self._is_open(iteration, active, steady)]

    def _is_open(self, iteration: Iteration, active: list[Iteration], steady: datetime) -> bool:
        if iteration.state == IterationState.WAITING:
            return not any(
                other.job == iteration.job and other.state == IterationState.RUNNING for other in active
            )
        reachable = self.shared_engine or is_here(iteration, self.machine) or iteration.stop is not None
        silent = steady - self._seen[iteration.id][1] >= SILENCE
        return reachable and (iteration.holder is None or silent)

    def take(self, iteration: Iteration, data_dir: str | None, now: datetime) -> Iteration | None:
        """Takes an iteration that `open` has returned; None if another scheduler was faster."""

        def work(connection: Connection) -> Iteration | None:
            # another scheduler may start another iteration of the job
            lock(connection, iteration.job)
            running = (iterations.c.job == iteration.job, iterations.c.state == IterationState.RUNNING)
            if connection.execute(
                select(iterations.c.id).where(*running, iterations.c.id != iteration.id)
            ).first():
                return None
            same = (iterations.c.id == iteration.id, iterations.c.state == iteration.state)
            unchanged = (iterations.c.fence == iteration.fence, iterations.c.beat == iteration.beat)
            values = {
                "state": IterationState.RUNNING,
                "holder": self.scheduler,
                "machine": self.machine,
                "fence": iteration.fence + 1,
                "started": iteration.started or now,
                "data_dir": iteration.data_dir or data_dir,
            }
            change = iterations.update().where(*same, *unchanged).values(values).returning(*iterations.c)
            row = connection.execute(change).mappings().first()
            return None if row is None else read_iteration(row)

        return self.store.database.write(work)

    def beat(self, iteration: Iteration, counts: IterationCounts | None = None) -> str | None:
        """Records that the holder is alive, and stores counts; returns why the iteration must be stopped, or None.

        Raises ClaimLost.
        """
        values = {} if counts is None else counts._asdict()
        return self._change(iteration, {"beat": iterations.c.beat + 1, **values}).stop

    def end(
        self,
        iteration: Iteration,
        state: IterationState,
        reason: str,
        counts: IterationCounts | None,
        now: datetime,
    ) -> Iteration:
        """Ends an iteration; raises ClaimLost."""
        values = {"state": state, "reason": reason, "ended": now, "holder": None}
        return self._change(iteration, values if counts is None else values | counts._asdict())

    def release(self, iteration: Iteration) -> None:
        """Releases an iteration, so that any scheduler may continue it at once; raises ClaimLost."""
        self._change(iteration, {"holder": None})

    def _change(self, iteration: Iteration, values: Mapping[str, Any]) -> Iteration:
        mine = (iterations.c.id == iteration.id, iterations.c.fence == iteration.fence)
        change = iterations.update().where(*mine, iterations.c.state == IterationState.RUNNING).values(values)

        def work(connection: Connection) -> Iteration:
            row = connection.execute(change.returning(*iterations.c)).mappings().first()
            if row is None:
                raise ClaimLost(
                    f"iteration {iteration.number} of job {iteration.job!r} was taken by another scheduler"
                )
            return read_iteration(row)

        return self.store.database.write(work)


def is_here(iteration: Iteration, machine: str) -> bool:
    """Returns whether the files of an iteration are on this machine. Its name may change, as names of containers do."""
    return (
        iteration.data_dir is None
        or iteration.machine in (None, machine)
        or Path(iteration.data_dir).exists()
    )
