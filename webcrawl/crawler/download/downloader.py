"""Scrapy's downloader without its per-host slots: the frontier and `webcrawl.hosts.turns` limit hosts exactly."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from scrapy import Request, Spider, signals
from scrapy.core.downloader import Downloader as ScrapyDownloader
from scrapy.crawler import Crawler
from scrapy.exceptions import NotSupported
from scrapy.http import Response
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.python import global_object_name
from scrapy.utils.reactorless import (
    ReactorImportHook,
    install_reactor_import_hook,
    uninstall_reactor_import_hook,
)
from twisted.internet.defer import Deferred

from webcrawl.config import read
from webcrawl.crawler.access import tasks_of
from webcrawl.crawler.components import FailureJudge
from webcrawl.crawler.download.middleware_chain import MiddlewareChain
from webcrawl.crawler.download.reactor import reactor_is_missing, refusal, unusable_handler
from webcrawl.crawler.errors import Postponed
from webcrawl.crawler.pages.scraper_slot import ScraperSlot
from webcrawl.crawler.safeguards import check_addon, check_safeguards
from webcrawl.crawler.session import Session
from webcrawl.crawler.signals import in_downloader, send
from webcrawl.documents.html.outline_process import MAX_WAITING_BYTES
from webcrawl.errors import InvalidURL
from webcrawl.urls.canonical import DEFAULT_PORTS

logger = logging.getLogger(__name__)


class Downloader(ScrapyDownloader):
    """`DOWNLOADER = "webcrawl.crawler.download.downloader.Downloader"`.

    CONCURRENT_REQUESTS counts requests that use a connection. Requests that wait for their host's turn do not count,
    nor do slow requests (CONCURRENT_SLOW_REQUESTS). Requests that wait when the spider begins to close are abandoned.
    """

    def __init__(self, crawler: Crawler) -> None:
        check_addon(crawler)
        if crawler.crawling:
            check_safeguards(crawler.settings)
        super().__init__(crawler)
        self._check_handlers()
        session = Session.of(crawler)
        self._turns = session.turns
        self._turns.on_aside = self._go_on
        self._is_busy = False
        self._outlines = session.outlines
        self._readers = session.readers
        self._judge = judge = session.components.get(FailureJudge)
        self._chain = MiddlewareChain(
            self.middleware.middlewares, crawler, judge.judge if judge else None, self._translate
        )
        self._refusing: asyncio.Task[None] | None = None
        self._reactor_hook: ReactorImportHook | None = None
        crawler.signals.connect(self._replace_scraper_slot, signals.spider_opened)
        crawler.signals.connect(self._watch_closing, signals.spider_opened)
        if not crawler.settings.getbool("TWISTED_REACTOR_ENABLED"):
            crawler.signals.connect(self._forbid_reactor, signals.spider_opened)
            crawler.signals.connect(self._allow_reactor, signals.engine_stopped)

    def fetch(self, request: Request, spider: Spider | None = None) -> Deferred[Response | Request]:
        """Passes a request through the middlewares and downloads it; Scrapy's own method queues it by host first."""
        self.active.add(request)
        result: Deferred[Response | Request] = deferred_from_coro(
            self._chain.download(request, self._transfer)
        )
        return result.addBoth(self._leave, request)

    def needs_backout(self) -> bool:
        if self._outlines is not None and self._outlines.bytes > MAX_WAITING_BYTES:
            return True
        self._is_busy = 0 < self.total_concurrency <= self._turns.counted(len(self.active))
        return self._is_busy

    def _check_handlers(self) -> None:
        """Loads the handlers of the schemes that crawls fetch; raises ConfigurationError if a handler cannot be used.

        Otherwise Scrapy would raise at the first request, and each URL would be retried.
        """
        handlers = self.handlers
        for scheme, handler in self.settings.getwithbase("DOWNLOAD_HANDLERS").items():
            if handler is None or scheme not in DEFAULT_PORTS:
                continue
            name = handler if isinstance(handler, str) else global_object_name(handler)
            # handlers of the project are loaded when they are needed, to save their imports
            if scheme in handlers._notconfigured or not (
                name.startswith("webcrawl.") or handlers._get_handler(scheme)
            ):
                raise unusable_handler(scheme, name, handlers._notconfigured[scheme])

    def _go_on(self) -> None:
        """Wakes the engine when a request begins to wait; otherwise, only the end of a request would wake it."""
        if self._is_busy:
            self._is_busy = False
            self._wake()

    def _wake(self) -> None:
        tasks_of(self.crawler).worker.wake()

    def _leave(self, result: Any, request: Request) -> Any:
        self.active.remove(request)
        if isinstance(result, Request) and result is not request and self._judge is not None:
            self._judge.replaced(request)
        return result

    async def _transfer(self, request: Request) -> Response:
        """Downloads one request and sends the signals that Scrapy's downloader sends."""
        crawler = self.crawler
        with in_downloader(crawler, request):
            response = await self.handlers.download_request_async(request)
            send(
                crawler,
                signals.response_downloaded,
                response=response,
                request=request,
                spider=crawler.spider,
            )
            return response

    def _translate(self, error: Exception) -> Exception:
        """Returns the exception to handle instead of a raised exception: an invalid URL is none that Scrapy knows."""
        if isinstance(error, InvalidURL):
            unsupported = NotSupported(f"Unsupported URL: {error}")
            unsupported.__cause__ = error
            return unsupported
        return self._refuse(error)

    def _refuse(self, error: Exception) -> Exception:
        """Ends the crawl if an exception says that the reactor is missing; the URL then stays in the frontier.

        No other request would succeed, and the host is not to blame. Returns the exception to handle instead.
        """
        if isinstance(error, Postponed) or not reactor_is_missing(error):
            return error
        if self._refusing is None:
            logger.critical("%s", refusal(error))
            logger.debug("The component failed", exc_info=error)
            closing = self.crawler.engine.close_spider_async(reason="cannot_start")
            self._refusing = asyncio.ensure_future(closing)
        postponed = Postponed(f"the crawl ends: {error}")
        postponed.__cause__ = error
        return postponed

    def _forbid_reactor(self) -> None:
        """Makes the import of the reactor fail: an imported reactor would never run, and its users would wait forever.

        AsyncCrawlerProcess does the same, but AsyncCrawlerRunner does not.
        """
        self._reactor_hook = install_reactor_import_hook()

    def _allow_reactor(self) -> None:
        if self._reactor_hook is not None:
            uninstall_reactor_import_hook(self._reactor_hook)

    def _replace_scraper_slot(self) -> None:
        limit = read(self.settings, "SCRAPER_SLOT_MAX_ACTIVE_SIZE")
        self.crawler.engine.scraper.slot = ScraperSlot(limit, self._readers, self._wake)

    def _watch_closing(self) -> None:
        """Abandons waiting requests when the spider begins to close; Scrapy sends no signal then."""
        engine: Any = self.crawler.engine
        close = engine.close_spider_async

        async def abandon_and_close(*, reason: str = "cancelled") -> None:
            self._turns.abandon()
            await close(reason=reason)

        engine.close_spider_async = abandon_and_close
