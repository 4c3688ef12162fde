"""What the operations of the API share: the opened crawl, the settings, stores, and tasks that run beside requests."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

from msgspec import UnsetType
from scrapy.settings import Settings

from webcrawl.config import read
from webcrawl.config.kinds import Seconds
from webcrawl.crawler.render.rules import RuleTable
from webcrawl.engine.client import UNAVAILABLE
from webcrawl.live.lane import LiveLane, add_callers
from webcrawl.opened import OpenedCrawl
from webcrawl.service.caller import Quota
from webcrawl.service.page_reader import PageReader
from webcrawl.service.tally import ServiceTally
from webcrawl.web.access import Access
from webcrawl.web.starter import CrawlStarter

_KEEP_SECONDS = 2.0
logger = logging.getLogger(__name__)


class MaxAges(RuleTable[float]):
    """The setting FETCH_MAX_AGE: how old a stored page may be in seconds, by host or URL pattern."""

    def wanted(self, url: str, age: float | str | UnsetType) -> float:
        """Returns the age that a request gives, or else that of the setting; raises ConfigurationError."""
        return self.of(url, 0.0) if isinstance(age, UnsetType) else float(Seconds().parse(age))


class Service:
    """`opened` is connected to the engine; `settings` are complete, `starter` starts crawls as processes.

    `fetches_per_hour`: the URLs that each caller may have fetched in an hour; None for any number.
    """

    def __init__(
        self,
        opened: OpenedCrawl,
        settings: Settings,
        access: Access,
        starter: CrawlStarter,
        *,
        fetches_per_hour: float | None = None,
    ) -> None:
        self.opened = opened
        self.settings = settings
        self.access = access
        self.starter = starter
        self.tally = ServiceTally()
        self.pages = PageReader(opened, self.tally)
        self.ages = MaxAges("FETCH_MAX_AGE", read(settings, "FETCH_MAX_AGE"))
        self.quota = Quota(opened.connection.engine, fetches_per_hour)
        self.lane = LiveLane(opened.connection.engine, stream=read(settings, "LIVE_STREAM"))
        self.closing = asyncio.Event()
        """Set when the service ends: answers that go on, such as events, end then."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closers: list[Callable[[], Awaitable[None]]] = [self.pages.close]

    def run(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Runs work beside requests, until the service ends; logs its failure."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._note)
        return task

    def on_close(self, close: Callable[[], Awaitable[None]]) -> None:
        """Registers what to call when the service ends, the latest first."""
        self._closers.append(close)

    async def keep_callers(self) -> None:
        """Adds what was done for each token to the figures in the engine, every few seconds until cancelled."""
        kept = Counter[tuple[str, str]]()
        while True:
            await asyncio.sleep(_KEEP_SECONDS)
            now = self.tally.by_caller()
            try:
                await add_callers(self.opened.connection.engine, now - kept)
                kept = now
            except UNAVAILABLE:
                continue

    async def close(self) -> None:
        """Ends tasks, and calls what was registered."""
        self.closing.set()
        for task in list(self._tasks):
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task
        while self._closers:
            await self._closers.pop()()

    def _note(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            logger.error("A task of the service failed", exc_info=error)
