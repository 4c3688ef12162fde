"""A world for schedulers in which time and the ends of crawls are what a test says."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from webcrawl.errors import CrawlError
from webcrawl.jobs.claims import IterationClaims
from webcrawl.jobs.definition import Definition
from webcrawl.jobs.records import Iteration, IterationCounts, IterationState, IterationStatus
from webcrawl.jobs.scheduler import Clock, Scheduler
from webcrawl.jobs.store import JobStore
from webcrawl.jobs.workers import Ended, IterationWorkers


class MovedClock(Clock):
    """A clock that stands still until it is moved."""

    def __init__(self, now: datetime) -> None:
        self.time = self._steady = now

    def now(self) -> datetime:
        return self.time

    def steady(self) -> datetime:
        return self._steady

    async def wait(self, seconds: float, event: asyncio.Event) -> None:
        await asyncio.sleep(0)

    def move(self, **amount: float) -> datetime:
        self.time += timedelta(**amount)
        self._steady += timedelta(**amount)
        return self.time

    def set(self, now: datetime) -> None:
        """Sets the time, without that any time passes."""
        self.time = now


@dataclass
class WorldWorkers(IterationWorkers):
    """Workers of an iteration that run until the test or the scheduler ends them."""

    crawl: str
    ended: Ended | None = None
    alive: bool = True
    killed: int = 0

    async def poll(self, now: datetime) -> Ended | None:
        return self.ended

    async def stop(self) -> None:
        self.end(IterationState.STOPPED, "shutdown")

    async def kill(self) -> None:
        self.killed += 1

    async def abandon(self) -> None:
        self.end(IterationState.STOPPED, "shutdown")

    def end(self, state: IterationState = IterationState.FINISHED, reason: str = "finished") -> None:
        self.alive = False
        self.ended = self.ended or Ended(state, reason)


class NoUpkeep:
    """Sweeps nothing."""

    async def sweep(self, running: Sequence[tuple[Definition, Iteration]], now: datetime) -> None:
        pass


@dataclass
class World:
    """One database, any number of schedulers, and the workers that each of them has started."""

    store: JobStore
    clock: MovedClock
    room: int = 1000
    shared_engine: bool = True
    hanging: bool = False
    """No worker beats."""
    refused: str = ""
    """Why no crawl can start."""
    schedulers: dict[str, Scheduler] = field(default_factory=dict)
    started: list[tuple[str, WorldWorkers]] = field(default_factory=list)
    """Scheduler and workers, in the order in which they were started."""

    def scheduler(self, name: str, **more: Any) -> Scheduler:
        """A new scheduler, which steps with the others."""
        claims = IterationClaims(self.store, self.shared_engine, name, **{"machine": "here", **more})
        self.schedulers[name] = Scheduler(
            self.store, claims, WorldLauncher(self, name), self.clock, NoUpkeep()
        )
        return self.schedulers[name]

    def step(self, *names: str) -> None:
        """Some schedulers take a step, by default all."""
        for name in names or list(self.schedulers):
            asyncio.run(self.schedulers[name].step())

    def kill(self, name: str) -> None:
        """A scheduler dies, and its workers with it."""
        del self.schedulers[name]
        for owner, workers in self.started:
            if owner == name:
                workers.alive = False

    def running(self) -> list[tuple[str, str]]:
        """Scheduler and crawl of all workers that are alive."""
        return [(owner, workers.crawl) for owner, workers in self.started if workers.alive]

    def end(
        self, crawl: str, state: IterationState = IterationState.FINISHED, reason: str = "finished"
    ) -> None:
        """The workers of a crawl end."""
        for _, workers in self.started:
            if workers.crawl == crawl and workers.alive:
                workers.end(state, reason)

    def states(self, job: str = "news") -> list[IterationState]:
        """The states of the iterations, the oldest first."""
        return [one.state for one in reversed(self.store.iterations(job, 1000))]


@dataclass
class WorldLauncher:
    """Starts workers in the world."""

    world: World
    name: str

    def folder(self, definition: Definition, one: Iteration) -> Path | None:
        return None if definition.nodes else Path("/crawls") / one.crawl

    def has_room(self, definition: Definition, running: int) -> bool:
        return running + definition.workers <= self.world.room

    async def start(self, definition: Definition, one: Iteration) -> IterationWorkers:
        if self.world.refused:
            raise CrawlError(self.world.refused)
        self.world.started.append((self.name, WorldWorkers(one.crawl)))
        return self.world.started[-1][1]

    async def look(self, definition: Definition, one: Iteration, *, ended: bool) -> IterationStatus:
        counts = IterationCounts(found=10, queued=0 if ended else 4, crawled=5, processed=5, stuck=1)
        return IterationStatus(counts, 0 if self.world.hanging else 1)
