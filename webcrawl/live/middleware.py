"""Keeps the live lane from fetching again what a worker has stored that died before it could acknowledge it."""

from __future__ import annotations

from typing import Any

from scrapy import Request
from scrapy.exceptions import IgnoreRequest

from webcrawl.crawler.access import tasks_of
from webcrawl.crawler.session import SessionComponent
from webcrawl.live.answering import Answering
from webcrawl.urls.canonical import normalize


class LiveMiddleware(SessionComponent):
    """The downloader middleware of the spider `live`: refuses URLs that are leased again and need no fetch."""

    async def process_request(self, request: Request) -> None:
        url = tasks_of(self._crawler).leased(request)
        if url is None or not url.returns:
            return
        spider: Any = self._crawler.spider
        answering: Answering = spider.answering
        if await self._session.connection.retry_until_available(
            lambda: answering.from_store(normalize(request.url))
        ):
            # no page is stored for it
            request.errback = None
            raise IgnoreRequest("its page was stored before the last worker died")
