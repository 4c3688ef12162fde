"""The Scrapy scheduler over the frontier; it replaces scrapy-redis's.

`next_request` never waits for the network: the worker leases hosts ahead and wakes Scrapy's engine. The work on a
request is done, and its URL acknowledged, when Scrapy removes it from its set of requests in progress: after download,
callback and item pipelines.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Self

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider
from scrapy.utils.defer import deferred_from_coro
from scrapy_redis.scheduler import Scheduler as RedisScheduler
from twisted.internet.defer import Deferred

from webcrawl.crawler.components import FailureJudge, Pacer, enabled_pipelines
from webcrawl.crawler.joining import note_run
from webcrawl.crawler.pages.hung_pages import HungPages
from webcrawl.crawler.scheduling.meta import KeyWarnings
from webcrawl.crawler.scheduling.requests import STORED_REQUEST, level_of, to_candidate, to_request
from webcrawl.crawler.scheduling.start_urls import StartURLFeeding, is_fed
from webcrawl.crawler.scheduling.tasks import InProgress, Tasks
from webcrawl.crawler.scheduling.unserializable import LOST, HeldRequests, ticket_of
from webcrawl.crawler.scheduling.worth import intake_of, mined_of, planner_of
from webcrawl.crawler.session import Session
from webcrawl.crawler.signals import crawl_abandoned
from webcrawl.documents.page import NOT_REPEATABLE
from webcrawl.errors import CrawlError, InvalidURL, StoreError, Unserializable
from webcrawl.frontier import LeasedURL
from webcrawl.worker.reporter import Tally
from webcrawl.worker.worker import Worker

logger = logging.getLogger(__name__)

_MOST_BACKLOG = 50_000
"""Above this number of URLs that wait to be sent to the engine, no further request is handed out."""
_BACKLOG_SECONDS = 0.1
"""Seconds until the engine asks again."""


class EarliestTimer:
    """Calls a function once, at the earliest of the times for which it was set."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._handle: asyncio.TimerHandle | None = None
        self._at = math.inf

    def set(self, seconds: float) -> None:
        """Calls the function in `seconds`, unless an earlier call is set. Infinite seconds set nothing."""
        if math.isinf(seconds):
            return
        at = time.monotonic() + seconds
        if self._handle is not None:
            if self._at <= at:
                return
            self._handle.cancel()
        self._at = at
        self._handle = asyncio.get_running_loop().call_later(seconds, self._ring)

    def cancel(self) -> None:
        """Calls the function no more."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _ring(self) -> None:
        self._handle = None
        self._call()


class FrontierScheduler(RedisScheduler):
    """`SCHEDULER = "webcrawl.scheduler.FrontierScheduler"`.

    Middlewares report what becomes of a request to `tasks`.
    """

    def __init__(self, crawler: Crawler, session: Session) -> None:
        config = session.config
        super().__init__(server=None, persist=config.persist, flush_on_start=config.flush_on_start)
        self.crawler = crawler
        self.session = session
        self.stats = crawler.stats
        self._tasks: Tasks | None = None
        self._held = HeldRequests(session.connection.worker, self._want)
        self._without_host: deque[Request] = deque()
        """Requests that wait for no host, and are handed out at once; the frontier has hosts only."""
        self._key_warnings = KeyWarnings()
        self._timer = EarliestTimer(self._wake_engine)
        self._ending = False
        self._feeding: StartURLFeeding | None = None
        self._hung: HungPages | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler, Session.of(crawler))

    @property
    def tasks(self) -> Tasks:
        """The requests that Scrapy works on. They exist from `open` on."""
        assert self._tasks is not None, "the scheduler is not open"
        return self._tasks

    @property
    def worker(self) -> Worker:
        """The worker of this process. It exists from `open` on."""
        return self.tasks.worker

    # --- what Scrapy's engine calls ----------------------------------------------------------------------------------

    def open(self, spider: Spider) -> Deferred[None]:
        self.spider = spider
        return deferred_from_coro(self._open())

    def close(self, reason: str) -> Deferred[None]:
        return deferred_from_coro(self._close())

    def enqueue_request(self, request: Request) -> bool:
        """Adds a request to the frontier; returns False if it was added recently or cannot be crawled.

        A request that cannot be crawled and has an errback goes to the downloader, which refuses it.
        """
        if self.tasks.comes_again(request):
            return True
        try:
            level = level_of(request, self.session.scope.prioritizer)
            candidate = to_candidate(request, self.spider, self.session.canonicalizer, level)
            if candidate.extra is not None:
                self._key_warnings.check(request)
        except InvalidURL as error:
            return self._skip(request, error)
        except Unserializable as error:
            self.stats.inc_value("frontier/unserializable")
            candidate = self._held.hold(request, self.spider, self.session.canonicalizer, error, level)
        self.session.scope.starts.queued(request)
        added = self.worker.add(candidate)
        if not added:
            self._held.forget(candidate.extra)
        return added

    def next_request(self) -> Request | None:
        """Returns a request whose host may be asked now; None if there is none, or too many URLs wait to be sent."""
        if self._without_host:
            return self._without_host.popleft()
        tasks = self.tasks
        worker = tasks.worker
        if len(worker.intake) > _MOST_BACKLOG:
            # nothing tells when they have been sent
            self._timer.set(_BACKLOG_SECONDS)
            return None
        while (url := worker.next()) is not None:
            token = worker.hosts.token(url.host)
            request = self._request_of(url, token)
            if request is not None:
                tasks.begin(request, url, token)
                return request
        self._timer.set(worker.due_in())
        return None

    def has_pending_requests(self) -> bool:
        # Scrapy asks this only when the spider has no start requests left
        self.worker.seeding = False
        self.session.scope.starts.end_of_start()
        return self.worker.finished is None or bool(self.worker.intake) or bool(self._without_host)

    def __len__(self) -> int:
        return len(self.tasks) + len(self.worker.intake) + len(self._without_host)

    # --- inside ------------------------------------------------------------------------------------------------------

    def _skip(self, request: Request, error: InvalidURL) -> bool:
        """Logs a request that the frontier does not take; returns whether its errback will be called."""
        logger.warning("Skipping a request: %s", error)
        self.session.scope.starts.refused(request.url, str(error))
        self.stats.inc_value("frontier/invalid_urls")
        if request.errback is None:
            return False
        self._without_host.append(request)
        return True

    async def _open(self) -> None:
        session = self.session
        try:
            session.components.collect_reads(self.spider, enabled_pipelines(self.crawler))
            session.components.read_link_texts = session.scope.prioritizer.needs_text
            await session.open()
        except CrawlError as error:
            logger.critical("%s", error)
            # only when all components are open can Scrapy close them in order
            self.crawler.signals.connect(_refuse, signals.spider_opened)
            await session.close()
            return
        worker = self._make_worker()
        self._tasks = Tasks(
            worker,
            session.turns,
            session.scope.starts,
            session.config.max_attempts,
            paced=session.components.get(Pacer) is not None,
            judged=session.components.get(FailureJudge) is not None,
        )
        self._engine_slot.inprogress = InProgress(self._done)
        self.crawler.signals.connect(self._tasks.item_failed, signals.item_error)
        self.crawler.signals.connect(self._tasks.callback_failed, signals.spider_error)
        self.crawler.signals.connect(self._tasks.abandon, crawl_abandoned)
        session.scope.starts.watch(self.crawler)
        await note_run(session.connection, self.spider.name, self.crawler.settings)
        worker.start()
        timeout = session.config.processing_timeout
        self._hung = HungPages(self._tasks, lambda: worker.waits, self.crawler.engine.scraper, timeout)
        if is_fed(self.spider):
            self._feeding = self._feed()

    def _feed(self) -> StartURLFeeding | None:
        """Begins to read the start URLs of a fed spider."""
        return StartURLFeeding(self.crawler, self.session, self.worker)

    def _make_worker(self) -> Worker:
        session, connection = self.session, self.session.connection
        tally = Tally(session.observed)
        return Worker(
            connection.frontier,
            connection.crawl,
            session.turns,
            session.config,
            intake_of(session, tally.counters),
            tally,
            self._on_worker_change,
            backpressure=session.backpressure,
            tails=connection.tails,
            costs=session.costs,
            mined=mined_of(session),
            plan=planner_of(session),
            observed=session.observed,
            processing=lambda before: self.tasks.urls_processed_since(before),
        )

    @property
    def _engine_slot(self) -> Any:
        """The engine's slot. It is private to Scrapy, but nothing public tells when the work on a request is done."""
        return self.crawler.engine._slot

    async def _close(self) -> None:
        self._ending = True
        self._timer.cancel()
        if self._tasks is None:
            return
        if self._hung:
            self._hung.stop()
        if self._feeding:
            await self._feeding.end()
        await self.worker.close()
        # if it is finished, the frontier knew the URLs of the requests that are still held
        if self.worker.finished != "finished":
            for callback, number in self._held.by_callback().items():
                self.stats.set_value(f"{LOST}{callback}", number)
        if self._feeding:
            await self._feeding.conclude()

    def _done(self, request: Request) -> None:
        """Reports a request when all work on it is done."""
        if (url := self.tasks.end(request)) is not None:
            self._held.forget(url.extra)

    def _want(self, host: str, more: int) -> None:
        self.worker.membership.want(self.session.connection.keys.shard(host), more)

    def _request_of(self, url: LeasedURL, token: int) -> Request | None:
        """Returns the request of a leased URL; None if this worker cannot make it: the URL is settled or given back."""
        worker, this = self.worker, self.session.connection.worker
        try:
            ticket = ticket_of(url.extra)
            if ticket is None:
                request = to_request(url, self.spider)
                if url.extra is not None and self.session.config.recrawl:
                    request.meta[STORED_REQUEST] = url.extra
                return request
            if held := self._held.take_up(ticket, url):
                if self.session.config.recrawl:
                    held.meta[STORED_REQUEST] = NOT_REPEATABLE
                return held
            if ticket.worker == this or worker.membership.is_dead(ticket.worker):
                raise StoreError(ticket.lost(url.url))
        except StoreError as error:
            logger.error("%s", error)
            self.tasks.bury_lost(url, token, str(error))
        else:
            worker.finish_fetch(url, token)
            worker.decline(url, token)
        return None

    def _on_worker_change(self) -> None:
        """Wakes the engine when the worker has a URL to hand out, and closes the spider when the worker has ended."""
        worker = self.worker
        if self._ending:
            return
        if worker.finished in ("max_pages", "max_bytes", "stopped", "frontier_error"):
            self._ending = True
            closing = self.crawler.engine.close_spider_async(reason=worker.finished)
            self._closing = asyncio.ensure_future(closing)
        elif worker.finished or (due := worker.due_in()) <= 0:
            self._wake_engine()
        else:
            self._timer.set(due)

    def _wake_engine(self) -> None:
        if not self._ending:
            self._engine_slot.nextcall.schedule()


def _refuse() -> None:
    raise CloseSpider("cannot_start")
