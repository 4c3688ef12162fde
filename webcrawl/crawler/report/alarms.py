"""Sends notifications about a crawl while it runs, and when it ends."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from scrapy import Spider, signals
from scrapy.crawler import Crawler

from webcrawl.config import read
from webcrawl.crawler.report.summary_text import result_locations, summary_text
from webcrawl.crawler.session import Session, SessionComponent
from webcrawl.engine.client import UNAVAILABLE
from webcrawl.errors import StoreError
from webcrawl.frontier.figures import figures

if TYPE_CHECKING:
    from webcrawl.alarms.watcher import About, Post, Watcher

logger = logging.getLogger(__name__)

_END_SECONDS = 15.0
"""Seconds that the last notifications may take; those that are not sent by then stay in the outbox."""
_POLL_SECONDS = 0.5
_NEVER_BEGAN = ("cannot_start", "no_seeds")


class Alarms(SessionComponent):
    """Extension that watches the crawl; off unless NOTIFY is set.

    The reading of figures is a task of the event loop; the database and the sending have threads of their own.
    """

    needs = "NOTIFY"

    def __init__(self, crawler: Crawler, session: Session) -> None:
        super().__init__(crawler, session)
        # imported here: SQLAlchemy and Apprise take 0.3 s
        from webcrawl.alarms.watcher import About, Post

        session.stores.data_dir.mkdir(parents=True, exist_ok=True)
        self._post: Post = Post(session.stores.metadata, read(crawler.settings, "NOTIFY"))
        self._about: About = About.of(session.connection.keys.crawl, read(crawler.settings, "DASHBOARD_URL"))
        self._watcher: Watcher | None = None
        self._task: asyncio.Task[None] | None = None
        crawler.signals.connect(self.spider_opened, signals.spider_opened)
        crawler.signals.connect(self.spider_closed, signals.spider_closed)

    def spider_opened(self) -> None:
        connection = self._session.connection
        if connection.is_open:
            from webcrawl.alarms.watcher import Watcher

            self._watcher = Watcher(connection.frontier, connection.crawl, self._post, self._about)
            self._task = asyncio.create_task(self._watch(self._watcher))

    async def spider_closed(self, spider: Spider, reason: str) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        try:
            if self._watcher is not None and self._session.connection.is_open and reason not in _NEVER_BEGAN:
                await self._finish(self._watcher, reason)
        except (*UNAVAILABLE, StoreError) as error:
            logger.warning("The end of the crawl could not be reported: %s", error)
        await self._post.close(_END_SECONDS)

    async def _watch(self, watcher: Watcher) -> None:
        from webcrawl.alarms.shortages import shortages
        from webcrawl.alarms.watcher import LOOK_SECONDS

        stores, machine, use = self._session.stores, socket.gethostname(), self._session.store_use
        while True:
            with suppress(*UNAVAILABLE):
                try:
                    await watcher.look()
                    for notice in await asyncio.to_thread(shortages, stores, machine, self._about, use):
                        await self._post.put(notice)
                except StoreError as error:
                    logger.warning("Notifications wait for the metadata database: %s", error)
            self._post.send_soon()
            await asyncio.sleep(LOOK_SECONDS)

    async def _finish(self, watcher: Watcher, reason: str) -> None:
        """Reports the end if no other worker of the crawl is left."""
        connection = self._session.connection
        await watcher.look()
        if await self._is_last(reason):
            now = await figures(connection.frontier, connection.crawl)
            locations = result_locations(self._session.stores, now)
            await watcher.finish(reason, summary_text(now, reason, locations, job=self._about.job))
        await watcher.leave()

    async def _is_last(self, reason: str) -> bool:
        """Whether no worker is left, after a while in which other workers end too or count as dead."""
        crawl = self._session.connection.crawl
        deadline = time.monotonic() + (0.0 if reason == "shutdown" else crawl.worker_seconds + 1.0)
        while await crawl.workers.count_alive():
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(_POLL_SECONDS)
        return True
