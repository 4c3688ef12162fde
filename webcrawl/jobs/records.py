"""Jobs and iterations as the metadata database stores them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from webcrawl.errors import brief


class JobState(StrEnum):
    """What a job does when it is due."""

    ON = "ON"
    """The job fires."""
    PAUSED = "PAUSED"
    """The job does not fire; running iterations continue."""
    OFF = "OFF"
    """The job does not fire; running iterations are stopped."""


class IterationState(StrEnum):
    """The state of an iteration."""

    WAITING = "WAITING"
    """The iteration is due, and waits for its predecessor or for room."""
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    """The crawl ended by itself."""
    FAILED = "FAILED"
    """The crawl could not be run to its end."""
    SKIPPED = "SKIPPED"
    """The iteration was not run, because of `missed` or `overlap` of its job."""
    STOPPED = "STOPPED"
    """An operator stopped the iteration, or another iteration replaced it."""


ACTIVE = (IterationState.WAITING, IterationState.RUNNING)
"""The states of an iteration that has not ended."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job. Times are UTC. `definition`: the values of `webcrawl.jobs.definition.Definition`."""

    name: str
    definition: Mapping[str, Any]
    state: JobState
    owner: str | None
    applied: datetime
    decided: datetime
    """The time up to which firings are decided."""


_WITH_FINDINGS = " with findings: "


def finish_reason(reason: str, findings: str | None) -> str:
    """Returns the reason of a finished iteration; `findings` is what its crawl found wrong, or None."""
    return reason if findings is None else brief(f"{reason}{_WITH_FINDINGS}{findings}")


class IterationCounts(NamedTuple):
    """The URLs of an iteration. Each discovered URL is queued, crawled or stuck, unless filters or limits drop it.

    `crawled`: responses, including redirects and errors. `processed`: pages that have passed the pipelines.
    `stuck`: dead letters, and pages that a schema or a reader refused.
    """

    found: int = 0
    queued: int = 0
    crawled: int = 0
    processed: int = 0
    stuck: int = 0


class IterationStatus(NamedTuple):
    """The counts and the live workers of an iteration."""

    counts: IterationCounts
    working: int
    """The workers from which the engine has heard recently."""


@dataclass(frozen=True, slots=True)
class Iteration:
    """A firing of a job, with its own crawl. Times are UTC; `IterationCounts` describes the counts."""

    id: int
    job: str
    number: int
    """The number of the iteration in its job, from 1."""
    crawl: str
    """Its CRAWL_ID."""
    due: datetime
    """When the iteration was due by the schedule, or an operator requested it."""
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
    """The folder of the crawl; None before the start, and on scrapyd nodes."""
    stop: str | None
    """Why the iteration must be stopped, or None."""
    holder: str | None
    """The scheduler that runs the iteration; None if any scheduler may take it."""
    machine: str | None
    """The machine of the scheduler that ran the iteration last."""
    fence: int
    """The number of times that a scheduler took the iteration, which each change by its holder must name."""
    beat: int
    """The number of signs of life of the holder."""
    deleted: datetime | None
    """When retention deleted the stored data of the crawl."""
    fired: datetime | None
    """When a scheduler or an operator created the iteration: later than `due` if no scheduler ran at `due`."""

    @property
    def is_complete(self) -> bool:
        """Whether the crawl had nothing left to do at its end: no limit, and nobody, stopped it."""
        reason, _, _ = (self.reason or "").partition(_WITH_FINDINGS)
        return self.state == IterationState.FINISHED and reason == "finished"

    @property
    def findings(self) -> str | None:
        """What the crawl of a finished iteration found wrong, such as broken links; None if it is nothing."""
        _, mark, findings = (self.reason or "").partition(_WITH_FINDINGS)
        return findings if mark and self.state == IterationState.FINISHED else None

    @property
    def counts(self) -> IterationCounts:
        return IterationCounts(self.found, self.queued, self.crawled, self.processed, self.stuck)
