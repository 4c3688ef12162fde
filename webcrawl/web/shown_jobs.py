"""Jobs with their latest iterations, as the dashboard and the API show them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from webcrawl.errors import CrawlError, NoSuchPage
from webcrawl.jobs.definition import Definition
from webcrawl.jobs.records import ACTIVE, Iteration, Job, JobState
from webcrawl.jobs.store import JobStore
from webcrawl.web.job_store import job_store

_STRIP = 30
HISTORY = 200
"""The latest iterations of a job that are shown, of each in a list, and of one alone."""


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
