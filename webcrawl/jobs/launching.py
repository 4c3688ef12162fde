"""Starts the workers of iterations as child processes, or on scrapyd nodes."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from pathlib import Path

from redis.exceptions import RedisError

from webcrawl.errors import EngineError, StoreError
from webcrawl.frontier.runs import last_end
from webcrawl.jobs.children import Children
from webcrawl.jobs.crawls import JobCrawls, as_text
from webcrawl.jobs.definition import Definition
from webcrawl.jobs.nodes import NodeJobs, Nodes
from webcrawl.jobs.records import Iteration, IterationStatus
from webcrawl.jobs.seeds import seeds_argument, seeds_file
from webcrawl.jobs.shared_pages import link_pages
from webcrawl.jobs.watching import Watching
from webcrawl.jobs.workers import IterationWorkers

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
