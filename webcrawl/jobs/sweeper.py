"""The sweeper: the work of schedulers once a minute. Any scheduler may repeat each part.

The sweeper writes checkpoints of running iterations on a schedule, and keeps the latest:

<to>/<crawl>/20260327T053000Z/     a checkpoint, as `scrapy checkpoint` writes it; `scrapy restore` reads it
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from contextlib import nullcontext
from datetime import datetime, timedelta

from redis.exceptions import RedisError

from webcrawl.errors import CrawlError
from webcrawl.frontier.checkpoint.export import Exporter
from webcrawl.frontier.checkpoint.periodic import STAMP, complete, prune, time_of
from webcrawl.frontier.checkpoint.save import save
from webcrawl.jobs.crawls import JobCrawls
from webcrawl.jobs.definition import Definition
from webcrawl.jobs.records import Iteration
from webcrawl.jobs.retention import Retention
from webcrawl.jobs.telling import Telling
from webcrawl.stores.objects.store import location, open_store

logger = logging.getLogger(__name__)


class CheckpointKeeper:
    """Writes and deletes the checkpoints of iterations."""

    def __init__(self, crawls: JobCrawls) -> None:
        self._crawls = crawls
        self._next: dict[int, datetime] = {}
        """The known due times of the next checkpoints, by iteration."""

    async def look_after(self, definition: Definition, iteration: Iteration, now: datetime) -> str | None:
        """Writes a checkpoint if it is due, and returns its URI; raises StoreError or EngineError."""
        plan = definition.checkpoints
        if plan is None or iteration.started is None:
            return None
        if now < self._next.get(iteration.id, iteration.started + timedelta(hours=plan.hours)):
            return None
        async with self._crawls.opened(definition, iteration) as opened:
            connection = opened.connection
            classes = opened.stores.object_stores
            uri = location(f"{plan.to.rstrip('/')}/{iteration.crawl}")
            store = open_store(uri, "checkpoints", classes)
            done = await asyncio.to_thread(complete, store)
            self._next[iteration.id] = (time_of(done[-1]) if done else iteration.started) + timedelta(
                hours=plan.hours
            )
            if now < self._next[iteration.id]:
                return None
            await connection.tails.check()
            target = f"{uri}/{now:{STAMP}}"
            exporter = Exporter(connection.engine, connection.keys, connection.worker, connection.tails)
            with await opened.due_pages() or nullcontext() as exporter.due_pages:
                await save(exporter, open_store(target, "checkpoints", classes), force=True)
            self._next[iteration.id] = now + timedelta(hours=plan.hours)
            await asyncio.to_thread(prune, store, plan.keep)
            return target


class Sweeper:
    """Writes checkpoints of running iterations, deletes iterations that jobs no longer keep, and reports failures."""

    def __init__(self, crawls: JobCrawls, retention: Retention, telling: Telling) -> None:
        self._crawls = crawls
        self._retention = retention
        self._telling = telling
        self._checkpoints = CheckpointKeeper(crawls)

    async def sweep(self, running: Sequence[tuple[Definition, Iteration]], now: datetime) -> None:
        """Does the work for the iterations that this scheduler runs, and for ended iterations."""
        for definition, iteration in running:
            await self._try(f"checkpoint of {iteration.crawl}", self._checkpoint(definition, iteration, now))
        await self._try("retention", self._retain(now))
        await self._try("retention of shared pages", self._trim(now))
        await self._try("notifications", self._telling.tell(now))

    async def _checkpoint(self, definition: Definition, iteration: Iteration, now: datetime) -> None:
        if uri := await self._checkpoints.look_after(definition, iteration, now):
            logger.info("Checkpoint of %s in %s", iteration.crawl, uri)

    async def _retain(self, now: datetime) -> None:
        for definition, iteration in self._retention.due(now):
            await self._try(f"retention of {iteration.crawl}", self._delete(definition, iteration, now))

    async def _trim(self, now: datetime) -> None:
        for definition, crawls in self._retention.untrimmed(now):
            await self._try(f"retention of pages of {definition.name}", self._trim_job(definition, crawls))

    async def _trim_job(self, definition: Definition, crawls: set[str]) -> None:
        if number := await self._retention.trim(definition, crawls):
            logger.info("Deleted %d rows of pages that job %s no longer fetches", number, definition.name)

    async def _delete(self, definition: Definition, iteration: Iteration, now: datetime) -> None:
        await self._retention.delete(definition, iteration, now)
        logger.info("Deleted iteration %d of job %s", iteration.number, iteration.job)

    async def _try(self, what: str, work: Awaitable[None]) -> None:
        """Does a part of the sweep. If it fails, the other parts go on, and the next sweep repeats it."""
        try:
            await work
        except (CrawlError, RedisError, OSError) as error:
            logger.warning("Cannot do now: %s: %s", what, error)
