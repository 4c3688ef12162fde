"""The jobs in the metadata database: their crawls that run on this machine, and what dashboard and API show of them."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from scrapy.settings import Settings
from sqlalchemy.engine import make_url

from webcrawl.config import StoreConfig
from webcrawl.errors import CrawlError, NoSuchPage
from webcrawl.jobs.claims import is_here
from webcrawl.jobs.definition import Definition
from webcrawl.jobs.records import ACTIVE, Iteration, IterationState, Job, JobState
from webcrawl.jobs.store import JobStore

_STRIP = 30
HISTORY = 200
"""The latest iterations of a job that are shown, of each in a list, and of one alone."""


@cache
def job_store(uri: str) -> JobStore:
    """Returns the jobs in a database, the same object for all requests."""
    return JobStore(uri)


def metadata_uri(settings: Settings) -> str | None:
    """Returns the URI of the metadata database; None if it is a file that does not exist."""
    uri = StoreConfig.from_settings(settings).metadata
    url = make_url(uri)
    missing = url.get_backend_name() == "sqlite" and not (url.database and Path(url.database).exists())
    return None if missing else uri


def with_job(settings: Settings, job: Job, iteration: Iteration) -> Settings:
    """Returns settings with those of a job and an iteration, which locate the stores of its crawl."""
    for name, value in dict(job.definition.get("settings") or {}).items():
        settings.set(name, value, priority="cmdline")
    settings.set("CRAWL_ID", iteration.crawl, priority="cmdline")
    if iteration.data_dir:
        settings.set("DATA_DIR", iteration.data_dir, priority="cmdline")
    return settings


def running(settings: Settings) -> list[tuple[Job, Iteration]]:
    """Returns the running iterations with their jobs, also those on other machines; raises StoreError."""
    if (uri := metadata_uri(settings)) is None:
        return []
    store = job_store(uri)
    return [
        (job, iteration)
        for job in store.jobs()
        # not among the latest iterations: firings that were skipped meanwhile come after the running one
        for iteration in store.active(job.name)
        if iteration.state == IterationState.RUNNING
    ]


def running_here(settings: Settings) -> dict[str, Settings]:
    """Returns the settings by crawl of running iterations with files on this machine; raises StoreError."""
    machine = socket.gethostname()
    return {
        iteration.crawl: with_job(settings.copy(), job, iteration)
        for job, iteration in running(settings)
        if iteration.data_dir and is_here(iteration, machine)
    }


@dataclass(frozen=True)
class Shown:
    """A job with its latest iterations, the newest first."""

    job: Job
    iterations: list[Iteration]
    following: datetime | None
    """When the job fires next; None if it is not on."""

    @property
    def current(self) -> Iteration | None:
        """The running iteration, or else the next waiting iteration."""
        active = [iteration for iteration in reversed(self.iterations) if iteration.state in ACTIVE]
        return next(
            (iteration for iteration in active if iteration.started is not None),
            active[0] if active else None,
        )

    @property
    def waiting(self) -> list[Iteration]:
        """The iterations that wait for `current`, the oldest first."""
        now = self.current
        return [
            iteration
            for iteration in reversed(self.iterations)
            if iteration.state in ACTIVE and iteration is not now
        ]

    @property
    def past(self) -> list[Iteration]:
        """The iterations that have ended, the oldest first."""
        return [iteration for iteration in reversed(self.iterations) if iteration.state not in ACTIVE]


def shown_jobs(uri: str | None) -> list[Shown]:
    """Returns the jobs of a database with their latest iterations, including all that have not ended."""
    if uri is None:
        return []
    store = job_store(uri)
    return [Shown(job, _latest(store, job.name, _STRIP), _following(job)) for job in store.jobs()]


def shown_job(uri: str | None, name: str) -> Shown:
    """Returns a job of a database with its history; raises NoSuchPage."""
    if uri is None:
        raise NoSuchPage(f"there is no job {name!r}")
    store = job_store(uri)
    if name not in (known := [job.name for job in store.jobs()]):
        raise NoSuchPage(f"there is no job {name!r}" + (f"; there are: {', '.join(known)}" if known else ""))
    job = store.job(name)
    return Shown(job, _latest(store, name, HISTORY), _following(job))


def _latest(store: JobStore, name: str, number: int) -> list[Iteration]:
    """Returns the latest iterations of a job, and older iterations that have not ended."""
    latest = store.iterations(name, number)
    known = {iteration.id for iteration in latest}
    return [*latest, *(iteration for iteration in store.active(name) if iteration.id not in known)]


def _following(job: Job) -> datetime | None:
    if job.state != JobState.ON:
        return None
    try:
        return Definition.of(job.definition).schedule.after(datetime.now(UTC))
    except CrawlError:  # a newer version may have stored the definition
        return None
