"""Scrapy's downloader without its per-host slots: the frontier and webcrawl.turns pace hosts, exactly."""

from __future__ import annotations

from typing import Any

from scrapy import Request, signals
from scrapy.core.downloader import Downloader as ScrapyDownloader
from scrapy.crawler import Crawler
from scrapy.http import Response

from webcrawl.session import Session


class Downloader(ScrapyDownloader):
    """`DOWNLOADER = "webcrawl.downloader.Downloader"`.

    CONCURRENT_REQUESTS counts requests that use a connection, not those that wait for their host's turn. When the
    spider begins to close, those that wait are abandoned.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._turns = Session.of(crawler).turns
        crawler.signals.connect(self._watch_closing, signals.spider_opened)

    def needs_backout(self) -> bool:
        return 0 < self.total_concurrency <= len(self.active) - self._turns.waiting

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
        send, spider = self.signals.send_catch_log, self.crawler.spider
        send(signal=signals.request_reached_downloader, request=request, spider=spider)
        try:
            response = await self.handlers.download_request_async(request)
            send(signal=signals.response_downloaded, response=response, request=request, spider=spider)
            return response
        finally:
            send(signal=signals.request_left_downloader, request=request, spider=spider)
