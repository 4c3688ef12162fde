"""A job and an iteration as the metadata database has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple


class JobState(StrEnum):
    """What a job does when it is due."""

    ON = "ON"
    """It fires."""
    PAUSED = "PAUSED"
    """It does not fire; iterations that run go on."""
    OFF = "OFF"
    """It does not fire; iterations that run are stopped."""


class IterationState(StrEnum):
    """The state of an iteration."""

    WAITING = "WAITING"
    """It is due, and waits for its predecessor or for room."""
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    """Its crawl ended by itself."""
    FAILED = "FAILED"
    """Its crawl could not be run to its end."""
    SKIPPED = "SKIPPED"
    """It was not run, because of `missed` or `overlap` of its job."""
    STOPPED = "STOPPED"
    """It was stopped by an operator, or replaced."""


ACTIVE = (IterationState.WAITING, IterationState.RUNNING)
"""States of an iteration that has not ended."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job; times are UTC. `definition` has the values of `webcrawl.jobs.definition.Definition`."""

    name: str
    definition: Mapping[str, Any]
    state: JobState
    owner: str | None
    applied: datetime
    decided: datetime
    """Firings that were due until then are decided."""


class IterationCounts(NamedTuple):
    """The URLs of an iteration. Each discovered URL is queued, crawled or stuck, unless filters or limits drop it.

    `crawled`: answers, with redirects and errors. `processed`: pages that have passed the pipelines.
    `stuck`: dead letters, and pages that schema or reader refused.
    """

    found: int = 0
    queued: int = 0
    crawled: int = 0
    processed: int = 0
    stuck: int = 0


class IterationStatus(NamedTuple):
    """The counts of an iteration and its live workers, as a look at its crawl has shown."""

    counts: IterationCounts
    working: int
    """Workers that the engine has heard of lately."""


@dataclass(frozen=True, slots=True)
class Iteration:
    """One firing of a job, with a crawl of its own; times are UTC. For the numbers see `IterationCounts`."""

    id: int
    job: str
    number: int
    """Counts the iterations of the job, from 1."""
    crawl: str
    """Its CRAWL_ID."""
    due: datetime
    """When the schedule called for it, or an operator."""
    started: datetime | None
    ended: datetime | None
    state: IterationState
    reason: str | None
    """How the iteration ended, or why it was not run."""
    found: int
    queued: int
    crawled: int
    processed: int
    stuck: int
    data_dir: str | None
    """The folder of its crawl; None before it starts, and on scrapyd nodes."""
    stop: str | None
    """Why it is to be stopped; None if it is not."""
    holder: str | None
    """The scheduler that runs it; None if any may take it."""
    machine: str | None
    """The machine of the scheduler that had it last."""
    fence: int
    """The number of schedulers that took it, which each change by its holder must name."""
    beat: int
    """Counts the signs of life of its holder."""
    deleted: datetime | None
    """When retention deleted what its crawl had stored."""
    fired: datetime | None
    """When a scheduler or an operator made it: later than `due` if no scheduler ran by then."""

    @property
    def counts(self) -> IterationCounts:
        return IterationCounts(self.found, self.queued, self.crawled, self.processed, self.stuck)
