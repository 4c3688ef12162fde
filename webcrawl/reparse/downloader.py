"""The downloader of a reparse, which answers from the archive and cannot send a request."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

from scrapy import Request, Spider
from scrapy.core.downloader.middleware import DownloaderMiddlewareManager
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.misc import build_from_crawler
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from webcrawl.crawler.download.middleware_chain import MiddlewareChain
from webcrawl.crawler.errors import RedirectStored
from webcrawl.crawler.fetch import keep_exchange
from webcrawl.crawler.responses import flags_of, make_response, received_headers
from webcrawl.crawler.session import Session
from webcrawl.documents.html.outline_process import MAX_WAITING_BYTES
from webcrawl.reparse.archived import Archived
from webcrawl.reparse.scheduler import scheduler_of

_MOST_AT_ONCE = 16


class ArchiveDownloader:
    """Passes requests for archived pages through the downloader middlewares; refuses all others."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._outlines = Session.of(crawler).outlines
        self.active: set[Request] = set()
        self.middleware = build_from_crawler(DownloaderMiddlewareManager, crawler)
        self._chain = MiddlewareChain(self.middleware.middlewares, crawler)

    def fetch(self, request: Request, spider: Spider | None = None) -> Deferred[Response | Request]:
        """Returns the archived response of a request; fails with IgnoreRequest for any other request."""
        self.active.add(request)
        result: Deferred[Response | Request] = deferred_from_coro(self._chain.download(request, self._answer))
        return result.addBoth(self._leave, request)

    def needs_backout(self) -> bool:
        if self._outlines is not None and self._outlines.bytes > MAX_WAITING_BYTES:
            return True
        return len(self.active) >= _MOST_AT_ONCE

    def close(self) -> None:
        """Does nothing: no connection is open."""

    async def _answer(self, request: Request) -> Response:
        scheduler = scheduler_of(self._crawler)
        if (page := scheduler.requested(request)) is None:
            scheduler.tasks.count("requests")
            raise IgnoreRequest(f"scrapy reparse sends no request: {request.url}")
        keep_exchange(request, page.exchange)
        return _response(page)

    def _leave(self, result: Any, request: Request) -> Any:
        self.active.remove(request)
        if isinstance(result, Failure) and not isinstance(result.value, RedirectStored):
            scheduler_of(self._crawler).fail(request, f"{type(result.value).__name__}: {result.value}")
        return result


def _response(page: Archived) -> Response:
    row, exchange = page.row, page.exchange
    followed = 300 <= exchange.status < 400
    return make_response(
        exchange.payload,
        row["url"] if followed else row["final_url"],
        received_headers(page.fields),
        status=exchange.status,
        flags=flags_of(exchange.truncated),
        ip_address=ip_address(exchange.ip_address) if exchange.ip_address else None,
    )
