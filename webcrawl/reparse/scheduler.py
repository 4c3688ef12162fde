"""The scheduler of a reparse, which returns requests for the archived pages of a plan and accepts no other request."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from scrapy import Request, Spider, signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider
from scrapy.http import Response
from scrapy.utils.defer import deferred_from_coro
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from webcrawl.config import read
from webcrawl.crawler.components import enabled_pipelines
from webcrawl.crawler.joining import JoinedCrawl
from webcrawl.crawler.pages.scraper_slot import ScraperSlot
from webcrawl.crawler.scheduling.requests import QUEUED_AT, SITEMAP
from webcrawl.crawler.scheduling.start_urls import is_fed
from webcrawl.crawler.scheduling.tasks import InProgress
from webcrawl.crawler.session import Session
from webcrawl.errors import ConfigurationError, CrawlError, brief
from webcrawl.reparse.archived import Archived, ArchivedPages
from webcrawl.reparse.feeding import Feeding
from webcrawl.reparse.near_duplicates import ChangedTexts
from webcrawl.reparse.plan import Plan, Reading, Work, working
from webcrawl.reparse.settings import PLAN

logger = logging.getLogger(__name__)


class Figures:
    """Replaces the tasks of the frontier for the components of a crawl: they can count, but there are no URLs."""

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts

    @property
    def worker(self) -> Any:
        """A reparse has no worker: raises ConfigurationError."""
        raise ConfigurationError("scrapy reparse has no frontier, and so no worker")

    def count(self, name: str, amount: int = 1) -> None:
        """Adds `amount` to the total `name`."""
        self._counts[name] += amount


class ArchiveScheduler(BaseScheduler):
    """Makes a request of each page of the plan; the downloader answers it from the archive."""

    def __init__(self, crawler: Crawler, session: Session, plan: Plan) -> None:
        self._crawler = crawler
        self._session = session
        self.plan = plan
        self.changed = ChangedTexts(plan.path.parent, session.connection.keys.crawl)
        self._feeding = Feeding(plan, lambda: ArchivedPages(session.stores, session.fetch.spool), self._wake)
        self.tasks = Figures(self._feeding.counts)
        self._callback: Callable[..., Any] | None = None
        self._presence = ExitStack()
        self._closing: asyncio.Future[None] | None = None
        self._work: dict[Request, Work] = {}
        self._reasons: dict[Request, str] = {}
        self._pages: dict[str, Archived] = {}
        self.readings: dict[str, Reading] = {}
        """The readings of pages in progress that have been stored again."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler, Session.of(crawler), Plan(Path(crawler.settings[PLAN])))

    def page(self, url: str) -> Archived | None:
        """Returns the archived page of a URL that is being processed, or None."""
        return self._pages.get(url)

    def requested(self, request: Request) -> Archived | None:
        """Returns the archived page of a request; None if this scheduler did not make the request."""
        work = self._work.get(request)
        return None if work is None else self._pages.get(work.url)

    def fail(self, request: Request | None, reason: str) -> None:
        """Records why the page of a request could not be read."""
        if request is not None and request in self._work:
            self._reasons.setdefault(request, brief(reason))

    # --- what Scrapy's engine calls ----------------------------------------------------------------------------------

    def open(self, spider: Spider) -> Deferred[None]:
        return deferred_from_coro(self._open(spider))

    def close(self, reason: str) -> Deferred[None]:
        return deferred_from_coro(self._close())

    def enqueue_request(self, request: Request) -> bool:
        self.tasks.count("requests")
        return False

    def next_request(self) -> Request | None:
        ready = self._feeding.next()
        if ready is None:
            return None
        work, page = ready
        request = self._request(page)
        self._work[request] = work
        self._pages[work.url] = page
        return request

    def has_pending_requests(self) -> bool:
        return not self._feeding.is_empty

    # --- inside ------------------------------------------------------------------------------------------------------

    async def _open(self, spider: Spider) -> None:
        crawler, components = self._crawler, self._session.components
        try:
            components.collect_reads(spider, enabled_pipelines(crawler))
            if self.plan.callback:
                self._callback = getattr(spider, self.plan.callback)
        except (CrawlError, AttributeError) as error:
            logger.critical("%s", error)
            crawler.signals.connect(_refuse, signals.spider_opened)
            return
        if is_fed(spider):
            # its handler of the signal would read start URLs and wait for more
            crawler.signals.disconnect(spider.spider_idle, signals.spider_idle)  # type: ignore[attr-defined]
        # a resumed reparse also appends to its feeds
        self._session.joined = JoinedCrawl(has_urls=self.plan.is_resumed)
        self._slot.inprogress = InProgress(self._done)
        crawler.signals.connect(self._replace_scraper_slot, signals.spider_opened)
        crawler.signals.connect(self._item_failed, signals.item_error)
        crawler.signals.connect(self._callback_failed, signals.spider_error)
        self._presence.enter_context(working(self.plan.path))
        self._feeding.begin()

    async def _close(self) -> None:
        await self._feeding.end()
        self.changed.close()
        self._presence.close()

    def _request(self, page: Archived) -> Request:
        row = page.row
        meta: dict[str, Any] = {"depth": row["depth"], "download_latency": row["latency"]}
        optional = {"referrer": row["referrer"], "redirect_urls": row["redirects"]}
        optional |= {"retry_times": row["attempts"] - 1, "is_start_request": not row["depth"]}
        optional[QUEUED_AT] = row["queued_at"] and row["queued_at"].timestamp()
        # the row does not have the origin of a sitemap, but shows whether the page was read as a sitemap
        optional[SITEMAP] = "sitemap" in (row["details"] or {})
        meta |= {name: value for name, value in optional.items() if value}
        return Request(row["url"], callback=self._callback, meta=meta)

    def _done(self, request: Request) -> None:
        if (work := self._work.pop(request, None)) is not None:
            self._pages.pop(work.url, None)
            reading = self.readings.pop(work.url, None)
            self._feeding.finish(work, self._reasons.pop(request, ""), reading)

    def _item_failed(self, response: Response | None, failure: Failure) -> None:
        if response is not None:
            self.fail(response.request, f"{type(failure.value).__name__}: {failure.value}")

    def _callback_failed(self, response: Response | Failure, failure: Failure) -> None:
        if isinstance(response, Response):
            self.fail(response.request, f"{type(failure.value).__name__}: {failure.value}")

    def _replace_scraper_slot(self) -> None:
        limit = read(self._crawler.settings, "SCRAPER_SLOT_MAX_ACTIVE_SIZE")
        scraper: Any = self._crawler.engine.scraper
        scraper.slot = ScraperSlot(limit, self._session.readers, self._wake)

    @property
    def _slot(self) -> Any:
        """The engine's slot; see `webcrawl.scheduler`."""
        return self._crawler.engine._slot

    def _wake(self) -> None:
        if (error := self._feeding.error) is not None and self._closing is not None:
            return
        if error is not None:
            logger.critical("%s", error)
            closing = self._crawler.engine.close_spider_async(reason="cannot_start")
            self._closing = asyncio.ensure_future(closing)
        elif self._slot is not None and self._slot.closing is None:
            self._slot.nextcall.schedule()


def _refuse() -> None:
    raise CloseSpider("cannot_start")


def scheduler_of(crawler: Crawler) -> ArchiveScheduler:
    """Returns the scheduler of a running reparse."""
    scheduler = crawler.engine.scheduler
    assert isinstance(scheduler, ArchiveScheduler)
    return scheduler
