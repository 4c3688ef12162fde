"""Opens the jobs in the metadata database, and finds their crawls that run on this machine."""

from __future__ import annotations

import socket
from functools import cache
from pathlib import Path

from scrapy.settings import Settings
from sqlalchemy.engine import make_url

from webcrawl.config import StoreConfig
from webcrawl.jobs.claims import is_here
from webcrawl.jobs.records import Iteration, IterationState, Job
from webcrawl.jobs.store import JobStore


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
