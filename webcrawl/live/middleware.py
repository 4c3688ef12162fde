"""The requests of the live lane: failures are answered at once, and what a dead worker has stored is not fetched."""

from __future__ import annotations

from typing import Any

from scrapy import Request
from scrapy.exceptions import IgnoreRequest

from webcrawl.crawler.access import tasks_of
from webcrawl.crawler.session import SessionComponent
from webcrawl.live.answering import Answering
from webcrawl.urls.canonical import normalize


class LiveMiddleware(SessionComponent):
    """The downloader middleware of the spider `live`.

    A failed fetch is not tried again, because an answer is wanted soon. A URL that is leased again may have been stored
    by a worker that died before it could acknowledge it.
    """

    async def process_request(self, request: Request) -> None:
        url = tasks_of(self._crawler).leased(request)
        if url is None:
            return
        request.meta["dont_retry"] = True
        if not url.returns:
            return
        spider: Any = self._crawler.spider
        answering: Answering = spider.answering
        if await self._session.connection.retry_until_available(
            lambda: answering.from_store(normalize(request.url))
        ):
            # no page is stored for it
            request.errback = None
            raise IgnoreRequest("its page was stored before the last worker died")
