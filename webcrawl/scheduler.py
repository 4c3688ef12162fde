"""The Scrapy scheduler over the frontier: a drop-in for scrapy-redis's.

`next_request` never waits for the network: webcrawl.worker.worker leases ahead and wakes the engine. A
request's work is done,
and its URL acknowledged, when Scrapy takes the request off its list of those in progress: after the download, the
callback and the item pipelines.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Self

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider
from scrapy.http import Response
from scrapy.utils.defer import deferred_from_coro
from scrapy_redis.scheduler import Scheduler as RedisScheduler
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from webcrawl.crawler.components import FailureJudge, Pacer
from webcrawl.crawler.errors import Postponed
from webcrawl.crawler.scheduling.requests import sitemap_extra, to_candidate, to_request
from webcrawl.crawler.scheduling.start_urls import Feeding, is_fed
from webcrawl.crawler.scheduling.tasks import Task
from webcrawl.crawler.scheduling.unserializable import HeldRequests, ticket_of
from webcrawl.crawler.session import Session
from webcrawl.engine.client import UNAVAILABLE
from webcrawl.errors import (
    CrawlError,
    EngineUnavailable,
    InvalidURL,
    StoreError,
    StoreUnavailable,
    Unserializable,
)
from webcrawl.frontier import Candidate, LeasedURL, Settlement
from webcrawl.hosts.politeness import Ok
from webcrawl.urls.canonical import split
from webcrawl.worker.worker import Worker

logger = logging.getLogger(__name__)

_STORE_RETRY_SECONDS = 10.0
_MOST_BACKLOG = 50_000


class _InProgress(set[Request]):
    """The engine's set of requests in progress, telling when one leaves it.

    It is the only place of Scrapy 2.19 that every request passes when all its work is done, however it ended.
    """

    def __init__(self, done: Callable[[Request], None]) -> None:
        super().__init__()
        self._done = done

    def remove(self, request: Request) -> None:
        super().remove(request)
        self._done(request)


class FrontierScheduler(RedisScheduler):
    """`SCHEDULER = "webcrawl.scheduler.FrontierScheduler"`: see the module.

    Middlewares tell it what becomes of a request through `landed`, `finish`, `retry` and `bury`; all of them ignore
    requests that did not come from the frontier.
    """

    def __init__(self, crawler: Crawler, session: Session) -> None:
        config = session.config
        super().__init__(server=None, persist=config.persist, flush_on_start=config.flush_on_start)
        self.crawler = crawler
        self.session = session
        self.stats = crawler.stats
        self._worker: Worker | None = None
        self._is_paced = session.components.get(Pacer) is not None
        self._is_judged = session.components.get(FailureJudge) is not None
        self._tasks: dict[Request, Task] = {}
        self._held = HeldRequests(session.connection.worker, self._want)
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf
        self._ending = False
        self._feeding: Feeding | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler, Session.of(crawler))

    # --- what Scrapy's engine calls ----------------------------------------------------------------------------------

    def open(self, spider: Spider) -> Deferred[None]:
        self.spider = spider
        return deferred_from_coro(self._open())

    def close(self, reason: str) -> Deferred[None]:
        return deferred_from_coro(self._close())

    def enqueue_request(self, request: Request) -> bool:
        """Give a request to the frontier; False when it was met lately or cannot be crawled."""
        if (task := self._tasks.get(request)) and task.comes_again:
            return True
        try:
            candidate = to_candidate(request, self.spider, self.session.canonicalizer)
        except InvalidURL as error:
            logger.warning("Request left out: %s", error)
            self.stats.inc_value("frontier/invalid_urls")
            return False
        except Unserializable as error:
            logger.warning("%s stays in this process, it cannot be stored: %s", request, error)
            self.stats.inc_value("frontier/unserializable")
            candidate = self._held.hold(request, self.spider, self.session.canonicalizer)
        added = self.worker.add(candidate)
        if not added:
            self._held.forget(candidate.extra)
        return added

    def add_links(
        self, links: Iterable[str], *, depth: int, referrer: str, level: int, sitemaps: bool = False
    ) -> None:
        """Give a page's links (normalised) that pass the filters to the frontier, no requests made of them.

        `sitemaps`: it names them as such.
        """
        extra = sitemap_extra(self.spider) if sitemaps else None
        worker, allowed = self.worker, self.session.scope.filters.apply
        fingerprint, recent = self.session.canonicalizer.fingerprint, worker.discovered.recent.links
        filtered = 0
        for link in links:
            # most links of a page are on the pages around it too
            if link in recent:
                continue
            url = allowed(link)
            if url is None:
                filtered += 1
                continue
            host, path = split(url)
            worker.add(Candidate(host, path, fingerprint(url), level, depth, referrer, extra))
            recent.add(link)
        self.count("filtered", filtered)

    def next_request(self) -> Request | None:
        """A request whose host may be asked now; None when there is none, or too much waits to be sent."""
        if len(self.worker.discovered) > _MOST_BACKLOG:
            return None
        while (url := self.worker.next()) is not None:
            token = self.worker.token(url)
            request = self._request_of(url, token)
            if request is not None:
                self._tasks[request] = Task(url, token)
                if not self._is_paced:
                    self.session.turns.turn(url.host).start(time.monotonic())
                return request
        self._set_timer()
        return None

    def has_pending_requests(self) -> bool:
        # Scrapy asks this only when the spider has no start requests left
        self.worker.seeding = False
        return self.worker.finished is None or bool(self.worker.discovered)

    def __len__(self) -> int:
        return len(self._tasks) + len(self.worker.discovered)

    # --- what our middlewares tell -----------------------------------------------------------------------------------

    @property
    def worker(self) -> Worker:
        """The worker of this process; it exists from `open` on."""
        assert self._worker is not None, "the scheduler is not open"
        return self._worker

    def leased(self, request: Request) -> LeasedURL | None:
        """The frontier's URL behind a request, if there is one."""
        task = self._tasks.get(request)
        return task.url if task else None

    def holds(self, request: Request) -> bool:
        """Whether a request may still go out: the lease of its host, if it came with one, has not been lost."""
        task = self._tasks.get(request)
        return task is None or self.worker.token(task.url) == task.token

    def is_last_attempt(self, request: Request) -> bool:
        """Whether a failure of this request is final. Requests that are not the frontier's are not retried."""
        task = self._tasks.get(request)
        return task is None or task.url.attempts + 1 >= self.session.config.max_attempts

    def landed(self, request: Request) -> None:
        """The transfer is over: the next URL of the host may be handed out while this one is worked on."""
        task = self._tasks.get(request)
        if task and not task.landed:
            task.landed = True
            if not self._is_paced and (turn := self.session.turns.turn(task.url.host)).in_flight:
                turn.finish(time.monotonic(), Ok(request.meta.get("download_latency", 0.0)))
            self.worker.finish_fetch(task.url, task.token)

    def answered(self, request: Request, host: str, size: int) -> None:
        """The host answered with a body of `size` bytes."""
        self.worker.answered_hosts.add(host)
        if task := self._tasks.get(request):
            task.answered = True
            task.size += size
            if task.url.returns:
                self.count("fetched_again")

    def learned_delay(self, host: str) -> None:
        """robots.txt told how long to wait between two requests to the host."""
        self.worker.delay_changed(host)

    def retry(self, request: Request, delay: float, reason: str) -> None:
        """When its work is done, the URL goes back to be fetched again after `delay` seconds, an attempt counted."""
        if task := self._tasks.get(request):
            task.settle("retry", delay, reason)

    def postpone(self, request: Request) -> None:
        """The URL stays leased, untried, until its host is given back: nothing is counted against it."""
        if task := self._tasks.get(request):
            task.postponed = True

    def bury(self, request: Request, reason: str) -> None:
        """When its work is done, the URL becomes a dead letter."""
        if task := self._tasks.get(request):
            task.settle("dead", reason=reason)

    def finish(self, request: Request, *, page: bool = False) -> None:
        """When its work is done, the URL is done for good. A `page` counts against CRAWL_MAX_PAGES."""
        if task := self._tasks.get(request):
            task.page = page
            task.settle("done")

    def count(self, name: str, amount: int = 1) -> None:
        """Add to one of the crawl's totals."""
        self.worker.counters[name] += amount

    # --- inside ------------------------------------------------------------------------------------------------------

    async def _open(self) -> None:
        pipelines = self.crawler.engine.scraper.itemproc.middlewares
        try:
            self.session.components.collect_reads(self.spider, pipelines)
            await self.session.open()
        except CrawlError as error:
            logger.critical("%s", error)
            # once all components are open they can be closed in good order, too
            self.crawler.signals.connect(self._refuse, signals.spider_opened)
            await self.session.close()
            return
        session = self.session
        self._worker = Worker(
            session.connection.frontier,
            session.connection.crawl,
            session.turns,
            session.config,
            self._wake,
            bloom=session.connection.bloom,
            tails=session.connection.tails,
            backpressure=session.backpressure,
        )
        self.engine_slot.inprogress = _InProgress(self._done)
        self.crawler.signals.connect(self._item_failed, signals.item_error)
        self.crawler.signals.connect(self._callback_failed, signals.spider_error)
        self._worker.start()
        if is_fed(self.spider):
            self._feeding = Feeding(self.crawler, session, self._worker)

    def _refuse(self) -> None:
        raise CloseSpider("cannot_start")

    @property
    def engine_slot(self) -> Any:
        """The engine's slot: private to Scrapy, but nothing public tells when a request's work is done."""
        return self.crawler.engine._slot

    async def _close(self) -> None:
        self._ending = True
        if self._timer:
            self._timer.cancel()
        if self._worker is None:
            return
        if self._feeding:
            await self._feeding.end()
        await self._worker.close()
        if self._feeding:
            with suppress(*UNAVAILABLE):  # then they go back to their list, as those of a worker that died
                await self._feeding.settle()

    def _done(self, request: Request) -> None:
        """Everything that Scrapy does with a request has been done."""
        self.landed(request)
        task = self._tasks.pop(request, None)
        if task is None:
            return
        if task.postponed:
            self.worker.decline(task.url, task.token)
            return
        settlement = task.outcome(request, judged=self._is_judged)
        page = task.page and settlement.verdict in ("done", "again")
        if settlement.verdict != "retry":
            self._held.forget(task.url.extra)
        self.worker.settle(task.url, task.token, settlement, page=page, size=task.size)

    def _want(self, host: str, more: int) -> None:
        self.worker.membership.want(self.session.connection.keys.shard(host), more)

    def _item_failed(self, response: Response | Failure | None, failure: Failure) -> None:
        """A page whose item did not get through the pipelines is not stored: it must not be acknowledged."""
        request = getattr(response, "request", None)
        if request is not None and request in self._tasks:
            reason = f"{type(failure.value).__name__}: {failure.value}"
            if isinstance(failure.value, EngineUnavailable | StoreUnavailable):
                self.postpone(request)
            elif self.is_last_attempt(request):
                self.bury(request, reason)
            else:
                self.retry(request, _STORE_RETRY_SECONDS, reason)

    def _callback_failed(self, response: Response | Failure | None, failure: Failure) -> None:
        """A callback that raised would raise again: the URL is kept as a dead letter, for when it has been mended."""
        request = getattr(response, "request", None)
        if request is not None and isinstance(failure.value, Postponed | EngineUnavailable):
            # a fetch of the callback's own had to wait too long, or the crawl is being stopped
            self.retry(request, 0.0, str(failure.value))
        elif request is not None:
            self.bury(request, f"{type(failure.value).__name__}: {failure.value}")

    def _request_of(self, url: LeasedURL, token: int) -> Request | None:
        """The request of a leased URL, or None when it cannot be made here: then the URL is cared for otherwise."""
        try:
            ticket = ticket_of(url.extra)
            if ticket is None:
                return to_request(url, self.spider)
            if request := self._held.take_up(ticket, url):
                return request
            if ticket.worker == self.session.connection.worker or self.worker.membership.is_dead(
                ticket.worker
            ):
                raise StoreError(f"the request for {url.url} was held by a worker that died")
        except StoreError as error:
            logger.error("%s", error)
            self.worker.finish_fetch(url, token)
            self.worker.settle(url, token, Settlement(url.index, "dead", reason=str(error)), page=False)
        else:
            self.worker.finish_fetch(url, token)
            self.worker.decline(url, token)
        return None

    def _wake(self) -> None:
        """The worker has something to hand out now or later, or ended."""
        if self.worker.finished in ("max_pages", "max_bytes", "frontier_error") and not self._ending:
            self._ending = True
            closing = self.crawler.engine.close_spider_async(reason=self.worker.finished)
            self._closing = asyncio.ensure_future(closing)
        elif self._ending:
            return
        elif self.worker.finished or self.worker.due_in() <= 0:
            self.engine_slot.nextcall.schedule()
        else:
            self._set_timer()

    def _set_timer(self) -> None:
        due = self.worker.due_in()
        if math.isinf(due):
            return
        at = time.monotonic() + due
        if self._timer is not None:
            if self._timer_at <= at:
                return
            self._timer.cancel()
        self._timer_at = at
        self._timer = asyncio.get_running_loop().call_later(due, self._ring)

    def _ring(self) -> None:
        self._timer = None
        if not self._ending:
            self.engine_slot.nextcall.schedule()
