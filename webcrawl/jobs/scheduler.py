"""The scheduler: fires due jobs, runs their iterations, and continues iterations of dead schedulers.

Any number of schedulers may run on one database, which has their shared state; see `firing` and `claims`. A step can
be repeated safely. It is repeated every second, also after the database was unavailable.
"""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol

from webcrawl.errors import ClaimLost, StoreError, StoreUnavailable, WrongJob
from webcrawl.jobs.claims import SILENCE, IterationClaims
from webcrawl.jobs.definition import Definition
from webcrawl.jobs.firing import MOST_AHEAD, correct_decided, fire
from webcrawl.jobs.records import Iteration, IterationState, Job, JobState
from webcrawl.jobs.running import IterationRun, Launcher, RunReport
from webcrawl.jobs.store import JobStore

logger = logging.getLogger(__name__)

STEP_SECONDS = 1.0
_LOOK_SECONDS = 2.0
"""How long a step waits for looks at iterations; longer looks continue during further steps."""
_BEAT_EVERY = timedelta(seconds=3)
_SWEEP_EVERY = timedelta(minutes=1)


class Clock(ABC):
    """The clock of a scheduler, which tests can set."""

    @abstractmethod
    def now(self) -> datetime:
        """Returns the time in UTC, by which jobs are due. It jumps when the clock is set."""

    def steady(self) -> datetime:
        """Returns a time for measuring durations, which does not jump when the clock is set.

        By default the time of `now`, for clocks that nobody sets.
        """
        return self.now()

    @abstractmethod
    async def wait(self, seconds: float, event: asyncio.Event) -> None:
        """Waits for `seconds`, or until the event is set."""


class SystemClock(Clock):
    """The clock of this machine."""

    def __init__(self) -> None:
        self._begin = datetime.now(UTC) - timedelta(seconds=time.monotonic())

    def now(self) -> datetime:
        return datetime.now(UTC)

    def steady(self) -> datetime:
        return self._begin + timedelta(seconds=time.monotonic())

    async def wait(self, seconds: float, event: asyncio.Event) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await event.wait()


class Upkeep(Protocol):
    """The work that is due once a minute; `webcrawl.jobs.sweeper.Sweeper` in production."""

    async def sweep(self, running: Sequence[tuple[Definition, Iteration]], now: datetime) -> None:
        """Does the work for iterations that run here and for ended iterations; raises no exception."""


class _Due(NamedTuple):
    """The next due time of a job, valid until its definition changes or further firings are decided."""

    applied: datetime
    decided: datetime
    next: datetime


class Scheduler:
    """A scheduler. `run` works until `stop`; tests call `step` instead."""

    def __init__(
        self, store: JobStore, claims: IterationClaims, launcher: Launcher, clock: Clock, upkeep: Upkeep
    ) -> None:
        self._store = store
        self._claims = claims
        self._launcher = launcher
        self._clock = clock
        self._upkeep = upkeep
        self._swept: datetime | None = None
        self._sweep: asyncio.Task[None] | None = None
        self._runs: dict[int, IterationRun] = {}
        self._due: dict[str, _Due] = {}
        self._ending = asyncio.Event()

    def stop(self) -> None:
        """Ends `run`: workers stop cleanly, and another scheduler may continue their iterations."""
        self._ending.set()

    async def run(self) -> None:
        logger.info("Scheduler %s: jobs are in %s", self._claims.scheduler, self._store.name)
        while not self._ending.is_set():
            try:
                await self.step()
            except StoreError as error:
                logger.error("The jobs cannot be read now, trying again: %s", error)
            await self._clock.wait(STEP_SECONDS, self._ending)
        await self.close()

    async def step(self) -> None:
        """Fires due jobs, looks at this scheduler's iterations, and takes further iterations; raises StoreError."""
        await self._watch(list(self._runs.values()))
        self._fire(self._clock.now())
        await self._take()
        self._start_sweep()

    async def close(self) -> None:
        """Stops the workers cleanly, and releases their iterations."""
        if self._sweep is not None and not self._sweep.done():
            self._sweep.cancel()
            await asyncio.wait([self._sweep])
        for run in self._runs.values():
            await run.abandon()
        while self._runs:
            for run in list(self._runs.values()):
                if await run.gone(self._clock.steady()):
                    del self._runs[run.iteration.id]
                    self._release(run)
            if self._runs:
                await asyncio.sleep(0.1)

    def _release(self, run: IterationRun) -> None:
        try:
            self._claims.release(run.iteration)
        except (StoreError, ClaimLost) as error:
            logger.warning("%s", error)

    def _start_sweep(self) -> None:
        """Begins a sweep if it is due and the last sweep, which may take long, is done."""
        if self._sweep is not None and not self._sweep.done():
            return
        steady = self._clock.steady()
        if self._swept is None or steady - self._swept >= _SWEEP_EVERY:
            self._swept = steady
            running = [(run.definition, run.iteration) for run in self._runs.values() if not run.stopping]
            self._sweep = asyncio.create_task(self._upkeep.sweep(running, self._clock.now()))

    # --- firing ---

    def _fire(self, now: datetime) -> None:
        jobs = self._store.jobs()
        self._due = {job.name: self._due[job.name] for job in jobs if job.name in self._due}
        for job in jobs:
            try:
                if job.decided > now + MOST_AHEAD and correct_decided(self._store, job.name, now):
                    logger.warning(
                        "The firings of job %s were decided until %s, which is in the future: it fires again from now",
                        job.name,
                        job.decided,
                    )
                elif job.state == JobState.ON and self._next(job) <= now:
                    for iteration in fire(self._store, job.name, now):
                        logger.info(
                            "Job %s is due: iteration %d is %s",
                            iteration.job,
                            iteration.number,
                            _state_of(iteration),
                        )
            except WrongJob as error:
                logger.error("Job %s cannot be read: %s", job.name, error)
            except StoreUnavailable:
                raise
            except StoreError as error:
                # the other jobs fire all the same
                logger.error("Job %s cannot fire now, trying again: %s", job.name, error)

    def _next(self, job: Job) -> datetime:
        known = self._due.get(job.name)
        if known is None or (known.applied, known.decided) != (job.applied, job.decided):
            schedule = Definition.of(job.definition).schedule
            known = self._due[job.name] = _Due(job.applied, job.decided, schedule.after(job.decided))
        return known.next

    # --- iterations of this scheduler ---

    async def _watch(self, runs: Sequence[IterationRun]) -> None:
        """Looks at all iterations at the same time, and stores the results."""
        steady = self._clock.steady()
        looks = [run.look(steady) for run in runs]
        if waiting := [look for look in looks if not look.done()]:
            await asyncio.wait(waiting, timeout=_LOOK_SECONDS)
        for run in runs:
            try:
                self._note(run, run.report(), steady)
            except ClaimLost as error:
                logger.warning("%s: its workers here are stopped", error)
                await self._abandon(run)
            except StoreError as error:
                logger.error("Iteration %d of job %s: %s", run.iteration.number, run.iteration.job, error)
                if steady - run.alive >= SILENCE:
                    # another scheduler may have taken the iteration; stopping loses no work
                    await self._abandon(run)

    def _note(self, run: IterationRun, report: RunReport, steady: datetime) -> None:
        if report.ended:
            iteration = self._claims.end(run.iteration, *report.ended, report.counts, self._clock.now())
            del self._runs[iteration.id]
            logger.info("Iteration %d of job %s: %s", iteration.number, iteration.job, _state_of(iteration))
            # makes the next sweep, which reports a failure, due now instead of in a minute
            self._swept = None
        elif report.counts or steady - run.alive >= _BEAT_EVERY:
            run.stopping = self._claims.beat(run.iteration, report.counts)
            run.alive = steady

    async def _abandon(self, run: IterationRun) -> None:
        del self._runs[run.iteration.id]
        await run.abandon()

    # --- iterations that wait, and iterations of schedulers that died ---

    async def _take(self) -> None:
        now = self._clock.now()
        open_iterations = self._claims.open(self._clock.steady(), self._runs)
        if not open_iterations:
            return
        jobs = {job.name: job for job in self._store.jobs()}
        for iteration in open_iterations:
            job = jobs.get(iteration.job)
            if job is None:
                self._end_deleted(iteration, now)
                continue
            try:
                definition = Definition.of(job.definition)
            except WrongJob as error:
                logger.error("Job %s cannot be read: %s", iteration.job, error)
                continue
            running = sum(run.local_workers for run in self._runs.values())
            try:
                if self._launcher.has_room(definition, running):
                    await self._take_iteration(definition, iteration, now)
            except StoreUnavailable:
                raise
            except (StoreError, ClaimLost) as error:
                # the other iterations are taken all the same
                logger.error("Iteration %d of job %s: %s", iteration.number, iteration.job, error)

    def _end_deleted(self, iteration: Iteration, now: datetime) -> None:
        """Ends an iteration whose job was deleted and whose scheduler has died."""
        if iteration.stop and (mine := self._claims.take(iteration, None, now)):
            self._claims.end(mine, IterationState.STOPPED, iteration.stop, None, now)
            if iteration.data_dir is None:
                logger.warning("Workers of %s may still run on their nodes", iteration.crawl)

    async def _take_iteration(self, definition: Definition, iteration: Iteration, now: datetime) -> None:
        folder = self._launcher.folder(definition, iteration)
        mine = self._claims.take(iteration, str(folder) if folder else None, now)
        if mine is None:
            return
        if mine.stop and not definition.nodes:
            # the workers have ended with their scheduler
            self._claims.end(mine, IterationState.STOPPED, mine.stop, None, now)
            return
        if iteration.state == IterationState.RUNNING:
            logger.warning("Going on with iteration %d of job %s", iteration.number, iteration.job)
        run = self._runs[mine.id] = IterationRun(
            mine, definition, self._launcher, self._clock.steady(), mine.stop
        )
        await self._watch([run])


def _state_of(iteration: Iteration) -> str:
    return f"{iteration.state}{f' ({iteration.reason})' if iteration.reason else ''}"
