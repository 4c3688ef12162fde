"""Builds a scheduler from the settings of a project, and runs it until a signal."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING

from webcrawl.config import StoreConfig
from webcrawl.crawler.crawl_settings import completed
from webcrawl.jobs.claims import IterationClaims
from webcrawl.jobs.crawls import JobCrawls
from webcrawl.jobs.launching import Starting
from webcrawl.jobs.retention import Retention
from webcrawl.jobs.scheduler import Clock, Scheduler
from webcrawl.jobs.store import JobStore
from webcrawl.jobs.sweeper import Sweeper
from webcrawl.jobs.telling import Telling
from webcrawl.jobs.watching import Watching

if TYPE_CHECKING:
    from scrapy.settings import Settings


async def serve(settings: Settings, given: Sequence[str], workers: int, clock: Clock) -> None:
    """Runs a scheduler until SIGINT or SIGTERM; raises ConfigurationError and StoreError when it cannot start.

    `given`: options for `scrapy crawl`. `workers`: the most processes at a time.
    """
    # each look at a crawl creates its settings, which would be logged
    logging.getLogger("scrapy.addons").setLevel(logging.WARNING)
    crawls = JobCrawls(settings.copy(), given)
    uri = StoreConfig.from_settings(completed(settings.copy())).metadata
    # no data is written to this pipe; it closes when this process ends in any way, and then the workers stop
    lifeline, ours = os.pipe()
    try:
        with JobStore(uri) as store:
            claims = IterationClaims(store, crawls.shared_engine)
            retention = Retention(store, crawls, claims.machine)
            sweeper = Sweeper(crawls, retention, Telling(store, uri, crawls, claims.machine))
            starting = Starting(crawls, Watching(claims.scheduler), lifeline, workers)
            scheduler = Scheduler(store, claims, starting, clock, sweeper)
            loop = asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, scheduler.stop)
            await scheduler.run()
    finally:
        os.close(lifeline)
        os.close(ours)
