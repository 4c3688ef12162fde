"""The sweeper: what schedulers do once a minute beside running iterations. Any of them may repeat each part."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Sequence
from datetime import datetime

from redis.exceptions import RedisError

from webcrawl.errors import CrawlError
from webcrawl.jobs.checkpoints import CheckpointKeeper
from webcrawl.jobs.crawls import Crawls
from webcrawl.jobs.definition import Definition
from webcrawl.jobs.records import Iteration
from webcrawl.jobs.retention import Retention
from webcrawl.jobs.telling import Telling

logger = logging.getLogger(__name__)


class Sweeper:
    """Writes checkpoints of iterations that run, deletes what jobs no longer keep, and tells of failures."""

    def __init__(self, crawls: Crawls, retention: Retention, telling: Telling) -> None:
        self._crawls = crawls
        self._retention = retention
        self._telling = telling
        self._checkpoints = CheckpointKeeper(crawls)

    async def sweep(self, running: Sequence[tuple[Definition, Iteration]], now: datetime) -> None:
        """Looks after the iterations that this scheduler runs, and after those that have ended."""
        for definition, one in running:
            await self._try(f"checkpoint of {one.crawl}", self._checkpoint(definition, one, now))
        await self._try("retention", self._retain(now))
        await self._try("notifications", self._telling.tell(now))

    async def _checkpoint(self, definition: Definition, one: Iteration, now: datetime) -> None:
        if uri := await self._checkpoints.look_after(definition, one, now):
            logger.info("Checkpoint of %s in %s", one.crawl, uri)

    async def _retain(self, now: datetime) -> None:
        for definition, one in self._retention.due(now):
            await self._try(f"retention of {one.crawl}", self._delete(definition, one, now))

    async def _delete(self, definition: Definition, one: Iteration, now: datetime) -> None:
        await self._retention.delete(definition, one, now)
        logger.info("Deleted iteration %d of job %s", one.number, one.job)

    async def _try(self, what: str, work: Awaitable[None]) -> None:
        """What fails is tried again by the next sweep, and keeps nothing else from being done."""
        try:
            await work
        except (CrawlError, RedisError, OSError) as error:
            logger.warning("Cannot do now: %s: %s", what, error)
