"""Stores redirects as a crawl does: without the spider's callback."""

from __future__ import annotations

from typing import Any

from scrapy import Request
from scrapy.http import Response

from webcrawl.crawler.errors import RedirectStored
from webcrawl.crawler.session import SessionComponent
from webcrawl.documents.page import Page
from webcrawl.reparse.scheduler import scheduler_of


class RedirectsMiddleware(SessionComponent):
    """Sends a redirect that the crawl followed through the pipelines; the target of the redirect is a separate page.

    The spider gets the redirects that the crawl did not follow.
    """

    async def process_response(self, request: Request, response: Response) -> Response:
        archived = scheduler_of(self._crawler).requested(request)
        spider: Any = self._crawler.spider
        if archived is None or not 300 <= response.status < 400 or not hasattr(spider, "page"):
            return response
        if archived.row["final_url"] == archived.row["url"]:
            return response
        response.request = request
        page: Page = spider.page(response)
        page.final_url = archived.row["final_url"]
        await self._crawler.engine.scraper.start_itemproc_async(page, response=response)
        raise RedirectStored(f"{request.url} is a redirect")
