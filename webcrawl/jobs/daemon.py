"""Builds a scheduler from the settings of a project, and runs it until a signal.

The scheduler starts the workers of iterations as child processes, or on scrapyd nodes.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from redis.exceptions import RedisError

from webcrawl.config import StoreConfig, read
from webcrawl.crawler.crawl_settings import completed
from webcrawl.errors import EngineError, StoreError
from webcrawl.frontier.crawl import last_end
from webcrawl.jobs.children import Children
from webcrawl.jobs.claims import IterationClaims
from webcrawl.jobs.crawls import JobCrawls, as_text
from webcrawl.jobs.definition import Definition
from webcrawl.jobs.nodes import NodeJobs, Nodes
from webcrawl.jobs.records import Iteration, IterationStatus
from webcrawl.jobs.retention import Retention
from webcrawl.jobs.scheduler import Clock, Scheduler, SystemClock
from webcrawl.jobs.seeds import seeds_argument, seeds_file
from webcrawl.jobs.shared_pages import link_pages
from webcrawl.jobs.store import JobStore
from webcrawl.jobs.sweeper import Sweeper
from webcrawl.jobs.telling import Telling
from webcrawl.jobs.watching import Watching
from webcrawl.jobs.workers import IterationWorkers

if TYPE_CHECKING:
    from scrapy.settings import Settings


def run(settings: Settings, given: Sequence[str], workers: int) -> None:
    """Runs a scheduler with its log, as `serve` does."""
    _begin_log(settings)
    asyncio.run(serve(settings, given, workers, SystemClock()))


def _begin_log(settings: Settings) -> None:
    """Sets up logging by the project's settings LOG_..., by default at level INFO.

    Scrapy's handler is not used, because it changes to the level of each crawl whose settings are read.
    """
    level = "LOG_LEVEL"
    if settings.getbool("LOG_ENABLED"):
        logging.basicConfig(
            level=read(settings, level) if settings.getpriority(level) else "INFO",
            filename=settings.get("LOG_FILE"),
            format=settings.get("LOG_FORMAT"),
            datefmt=settings.get("LOG_DATEFORMAT"),
        )


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


logger = logging.getLogger(__name__)


class Starting:
    """Runs at most `most` worker processes at a time, unless a single job has more workers.

    `lifeline` is the reading end of a pipe that closes when this process ends.
    """

    def __init__(self, crawls: JobCrawls, watching: Watching, lifeline: int, most: int) -> None:
        self._crawls = crawls
        self._watching = watching
        self._lifeline = lifeline
        self._most = most
        # prevents two iterations from taking the same slot of a node
        self._placing = asyncio.Lock()

    def folder(self, definition: Definition, iteration: Iteration) -> Path | None:
        return None if definition.nodes else self._crawls.folder(iteration)

    def has_room(self, definition: Definition, running: int) -> bool:
        return bool(definition.nodes) or not running or running + definition.workers <= self._most

    async def start(self, definition: Definition, iteration: Iteration) -> IterationWorkers:
        if definition.nodes:
            return await self._on_nodes(definition, iteration)
        assert iteration.data_dir is not None
        folder = Path(iteration.data_dir)
        if self._crawls.shares_pages(definition):
            link_pages(folder)
        seeds = await seeds_file(definition.seeds, folder) if definition.seeds else None
        commands = self._crawls.commands(definition, iteration, seeds)
        return Children(commands, folder, iteration.crawl, self._lifeline)

    async def look(self, definition: Definition, iteration: Iteration, *, ended: bool) -> IterationStatus:
        return await self._crawls.look(definition, iteration, self._watching, ended=ended)

    async def _on_nodes(self, definition: Definition, iteration: Iteration) -> IterationWorkers:
        self._crawls.check(definition)
        arguments = dict(definition.arguments)
        if definition.seeds:
            arguments["seeds"] = await seeds_argument(definition.seeds)
        own = [*definition.settings.items(), *self._crawls.of_iteration(definition, iteration)]
        form = [("spider", definition.spider), *arguments.items()]
        form += [("setting", f"{name}={as_text(value)}") for name, value in own]
        nodes = Nodes(definition.nodes, definition.project, self._placing)
        return NodeJobs(
            nodes, iteration.crawl, form, definition.workers, partial(self._outcome, definition, iteration)
        )

    async def _outcome(self, definition: Definition, iteration: Iteration) -> str | None:
        """Returns how the crawl ended according to the engine; None if work is left."""
        try:
            async with self._crawls.opened(definition, iteration) as opened:
                if await opened.connection.frontier.finished():
                    return "finished"
                reason = await last_end(opened.connection.crawl)
                return None if reason == "shutdown" else reason
        except (StoreError, EngineError, RedisError, OSError) as error:
            logger.warning("Cannot see how %s ended: %s", iteration.crawl, error)
            return None
