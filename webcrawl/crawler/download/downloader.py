"""Scrapy's downloader without its per-host slots: the frontier and webcrawl.hosts.turns pace hosts, exactly."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, cast

from scrapy import Request, signals
from scrapy.core.downloader import Downloader as ScrapyDownloader
from scrapy.core.downloader.middleware import DownloaderMiddlewareManager
from scrapy.crawler import Crawler
from scrapy.exceptions import _InvalidOutput
from scrapy.http import Response
from scrapy.utils.defer import ensure_awaitable

from webcrawl.crawler.pages.scraper import Scraper
from webcrawl.crawler.session import Session
from webcrawl.crawler.signals import send
from webcrawl.documents.html.outline_process import MOST_BYTES


class Downloader(ScrapyDownloader):
    """`DOWNLOADER = "webcrawl.crawler.download.downloader.Downloader"`.

    CONCURRENT_REQUESTS counts requests that use a connection, not those that wait for their host's turn. When the
    spider begins to close, those that wait are abandoned.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        # made by Scrapy, which lets nobody choose the class
        self.middleware.__class__ = _Middlewares
        session = Session.of(crawler)
        self._turns = session.turns
        self._outlines = session.outlines
        cast("_Middlewares", self.middleware).judge = session.judge
        crawler.signals.connect(self._adopt_scraper, signals.spider_opened)
        crawler.signals.connect(self._watch_closing, signals.spider_opened)

    def needs_backout(self) -> bool:
        if self._outlines is not None and self._outlines.bytes > MOST_BYTES:
            return True
        return 0 < self.total_concurrency <= len(self.active) - self._turns.waiting

    def _adopt_scraper(self) -> None:
        Scraper.adopt(self.crawler.engine.scraper, self.settings.getint("SCRAPER_SLOT_MAX_ACTIVE_SIZE"))

    def _watch_closing(self) -> None:
        """No signal tells when a spider begins to close, and only this one call begins it."""
        slot: Any = self.crawler.engine._slot
        close = slot.close

        async def abandon_and_close() -> None:
            self._turns.abandon()
            await close()

        slot.close = abandon_and_close

    async def _enqueue_request(self, request: Request) -> Response:
        """Called by the middlewares' chain to transfer a request; sends the signals that Scrapy's own does."""
        crawler, spider = self.crawler, self.crawler.spider
        send(crawler, signals.request_reached_downloader, request=request, spider=spider)
        try:
            response = await self.handlers.download_request_async(request)
            send(crawler, signals.response_downloaded, response=response, request=request, spider=spider)
            return response
        finally:
            send(crawler, signals.request_left_downloader, request=request, spider=spider)


class _Middlewares(DownloaderMiddlewareManager):
    """Scrapy's chain, with less around a middleware that has nothing to say or nothing to wait for.

    A page passes some twenty methods, most of which return at once; to make a coroutine of each took 0.015 ms a page.
    What raises on an answer's way back, of which Scrapy tells no middleware, is told to the one that judges: a page
    that broke a middleware is not done.
    """

    judge: Callable[[Request, Exception], Request | None] | None = None

    async def _process_request(
        self, request: Request, download_func: Callable[[Request], Coroutine[Any, Any, Response]]
    ) -> Response | Request:
        for method in self.methods["process_request"]:
            assert method is not None
            result = self._handle_mw_method(method, request=request)
            if result is not None and (answer := await _answer(method, result)) is not None:
                return answer
        return await download_func(request)

    async def _process_response(self, response: Response | Request, request: Request) -> Response | Request:
        try:
            return await self._back(response, request)
        except Exception as error:
            if self.judge is not None and (again := self.judge(request, error)) is not None:
                return again
            raise

    async def _back(self, response: Response | Request, request: Request) -> Response | Request:
        for method in self.methods["process_response"]:
            if isinstance(response, Request):
                break
            assert method is not None
            result = self._handle_mw_method(method, request=request, response=response)
            answer = result if isinstance(result, Response) else await _answer(method, result)
            if answer is None:
                raise _InvalidOutput(f"{method.__qualname__} must return a Response or a Request, not None")
            response = answer
        return response


async def _answer(method: Callable[..., Any], result: Any) -> Response | Request | None:
    """What a middleware's method has returned, waited for."""
    answer = await ensure_awaitable(result, method.__qualname__)
    if answer is None or isinstance(answer, Response | Request):
        return answer
    raise _InvalidOutput(
        f"{method.__qualname__} must return a Response or a Request, not {type(answer).__name__}"
    )
