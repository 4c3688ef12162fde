"""Checkpoints of a crawl while it runs, outside of jobs."""

from __future__ import annotations

import asyncio
import logging
from contextlib import nullcontext

from scrapy import signals
from scrapy.crawler import Crawler

from webcrawl.config import read
from webcrawl.crawler.session import Session, SessionComponent
from webcrawl.documents.values import counted, size
from webcrawl.engine.backoff import ended
from webcrawl.engine.client import UNAVAILABLE
from webcrawl.errors import ConfigurationError, StoreError
from webcrawl.frontier.checkpoint.export import Exporter
from webcrawl.frontier.checkpoint.files import Manifest
from webcrawl.frontier.checkpoint.periodic import PeriodicCheckpoints
from webcrawl.frontier.checkpoint.save import save
from webcrawl.stores.objects.store import open_store

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 10.0
"""The longest time between two looks whether a checkpoint is due."""


class CrawlCheckpoints(SessionComponent):
    """Extension that writes checkpoints every CHECKPOINT_EVERY seconds, in one worker at a time.

    The copy is read in small pieces by the event loop, between the requests of the crawl.
    """

    needs = "CHECKPOINT_EVERY"

    def __init__(self, crawler: Crawler, session: Session) -> None:
        super().__init__(crawler, session)
        if session.config.bloom:
            raise ConfigurationError('CHECKPOINT_EVERY: a crawl with SEEN_SET = "bloom" has no checkpoints')
        self._every: float = read(crawler.settings, "CHECKPOINT_EVERY")
        self._uri = f"{session.stores.checkpoints}/{session.connection.keys.crawl}"
        self._classes = session.stores.object_stores
        # now, so that an unusable store stops the crawl before it starts
        self._store = open_store(self._uri, "STORE_URI", self._classes)
        self._periodic: PeriodicCheckpoints | None = None
        self._task: asyncio.Task[None] | None = None
        crawler.signals.connect(self.spider_opened, signals.spider_opened)
        crawler.signals.connect(self.spider_closed, signals.spider_closed)

    def spider_opened(self) -> None:
        if self._session.connection.is_open:
            connection = self._session.connection
            self._periodic = PeriodicCheckpoints(
                connection.engine, connection.keys, connection.worker, self._store, self._every, self._write
            )
            self._task = asyncio.create_task(self._run(self._periodic))

    async def spider_closed(self) -> None:
        """Ends the task; a checkpoint that is being written is left out."""
        if self._task is None or self._periodic is None:
            return
        await ended(self._task)
        try:
            await self._periodic.leave()
        except UNAVAILABLE as error:
            logger.info("The lock of checkpoints stays until it expires: %s", error)

    async def _run(self, periodic: PeriodicCheckpoints) -> None:
        while True:
            await self._look(periodic)
            await asyncio.sleep(min(_LOOK_SECONDS, self._every / 4))

    async def _look(self, periodic: PeriodicCheckpoints) -> None:
        try:
            if written := await periodic.look():
                logger.info(
                    "Checkpoint in %s: %s to crawl, %s, in %.1f s",
                    *(written.uri, counted(written.urls, "URL"), size(written.size), written.seconds),
                )
        except StoreError as error:
            logger.warning("Cannot write a checkpoint now: %s", error)
        except UNAVAILABLE as error:
            logger.info("Checkpoints wait for the engine: %s", error)

    async def _write(self, stamp: str) -> Manifest:
        connection = self._session.connection
        await connection.tails.check()
        exporter = Exporter(connection.engine, connection.keys, connection.worker, connection.tails)
        store = open_store(f"{self._uri}/{stamp}", "STORE_URI", self._classes)
        with await self._session.due_pages() or nullcontext() as exporter.due_pages:
            return await save(exporter, store, force=True)
