"""Runs an iteration: starts its workers, looks at them, and reports how they ended.

A look may wait for servers with seeds, for nodes or for an engine. Each look is a separate task, so a long look
delays neither other iterations nor the signs of life of its iteration.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple, Protocol

from redis.exceptions import RedisError

from webcrawl.errors import CrawlError, EngineError, StoreError, brief
from webcrawl.jobs.definition import Definition
from webcrawl.jobs.records import Iteration, IterationCounts, IterationState, IterationStatus
from webcrawl.jobs.workers import Ended, IterationWorkers

logger = logging.getLogger(__name__)

HUNG = timedelta(minutes=3)
"""Workers are killed when the engine has not heard from them for this time; they beat every two seconds."""
_COUNT_EVERY = timedelta(seconds=10)
_COUNT_TIMEOUT = 20.0
_NOT_NOW = (EngineError, StoreError, RedisError, OSError)
"""Errors because of which counts cannot be read just now."""


class Launcher(Protocol):
    """Starts the workers of iterations; `webcrawl.jobs.daemon.Starting` in production."""

    def folder(self, definition: Definition, iteration: Iteration) -> Path | None:
        """Returns the folder of an iteration that starts here; None for workers on other machines."""

    def has_room(self, definition: Definition, running: int) -> bool:
        """Returns whether workers of a job may start beside the `running` workers of the scheduler."""

    async def start(self, definition: Definition, iteration: Iteration) -> IterationWorkers:
        """Starts the workers; raises CrawlError when they cannot run."""

    async def look(self, definition: Definition, iteration: Iteration, *, ended: bool) -> IterationStatus:
        """Returns the counts of an iteration and its workers; raises StoreError or EngineError."""


class RunReport(NamedTuple):
    """The result of a look: how the crawl ended, or None; the counts, if it was time to read them."""

    ended: Ended | None = None
    counts: IterationCounts | None = None


@dataclass(slots=True)
class IterationRun:
    """An iteration that this scheduler runs."""

    iteration: Iteration
    definition: Definition
    launcher: Launcher
    alive: datetime
    """The steady time when the last sign of life was stored."""
    stopping: str | None = None
    """Why the iteration must be stopped."""
    _workers: IterationWorkers | None = field(default=None, init=False)
    """The workers; None until they have started."""
    _asked_to_stop: bool = field(default=False, init=False)
    _counted: datetime | None = field(default=None, init=False)
    _heard: datetime = field(init=False)
    """When the engine last heard from a worker."""
    _looking: asyncio.Task[RunReport] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._heard = self.alive

    @property
    def local_workers(self) -> int:
        """The number of worker processes on this machine."""
        return 0 if self.definition.nodes else self.definition.workers

    def look(self, steady: datetime) -> asyncio.Task[RunReport]:
        """Begins a look, or returns the look in progress. `steady`: the steady time, as in `alive`."""
        if self._looking is None:
            self._looking = asyncio.create_task(self._look(steady))
        return self._looking

    def report(self) -> RunReport:
        """Returns the result of a finished look, or an empty report."""
        if self._looking is None or not self._looking.done():
            return RunReport()
        done, self._looking = self._looking, None
        return done.result()

    async def abandon(self) -> None:
        """Gives up the iteration: workers that cannot outlive this scheduler stop."""
        await self._end_look()
        if self._workers is not None:
            await self._workers.abandon()

    async def gone(self, now: datetime) -> bool:
        """Returns whether the workers that `abandon` stops have ended."""
        workers = self._workers
        return workers is None or workers.outlive_scheduler or await workers.poll(now) is not None

    async def _end_look(self) -> None:
        if self._looking is not None and not self._looking.done():
            self._looking.cancel()
            await asyncio.wait([self._looking])
        self._looking = None

    async def _look(self, now: datetime) -> RunReport:
        if self._workers is None:
            try:
                self._workers = await self.launcher.start(self.definition, self.iteration)
            except (CrawlError, OSError) as error:
                return RunReport(Ended(IterationState.FAILED, brief(error)))
        if self.stopping and not self._asked_to_stop:
            self._asked_to_stop = True
            await self._workers.stop()
        ended = await self._workers.poll(now)
        if ended and self.stopping:
            ended = Ended(IterationState.STOPPED, self.stopping)
        if ended is None and self._counted is not None and now - self._counted < _COUNT_EVERY:
            return RunReport()
        self._counted = now
        return RunReport(ended, await self._count(self._workers, now, ended=ended is not None))

    async def _count(
        self, workers: IterationWorkers, now: datetime, *, ended: bool
    ) -> IterationCounts | None:
        """Returns the counts, or None if they cannot be read now. Kills workers that hang."""
        try:
            async with asyncio.timeout(_COUNT_TIMEOUT):
                look = await self.launcher.look(self.definition, self.iteration, ended=ended)
        except _NOT_NOW as error:
            logger.debug("No counts of %s: %s", self.iteration.crawl, error)
            return None
        if look.working or ended:
            self._heard = now
        elif now - self._heard >= HUNG:
            self._heard = now
            logger.warning("The workers of %s hang, or have died: they are killed", self.iteration.crawl)
            await workers.kill()
        return look.counts
