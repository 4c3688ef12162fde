"""`scrapy crawl sitemap`: fetches the pages that the sitemaps of its seeds' hosts list."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from scrapy import Request
from scrapy.http import Response

from webcrawl.crawler.scheduling.requests import SITEMAP
from webcrawl.documents.html.facts import is_html
from webcrawl.spiders.base import BroadSpider
from webcrawl.urls.canonical import split


class Sitemap(BroadSpider):
    """Starts from /sitemap.xml of each seed's host and from the sitemaps that robots.txt names.

    A seed with a path is itself a sitemap. Arguments: those of BroadSpider, `follow` (yes: follow links of pages too).
    """

    name = "sitemap"
    custom_settings = {"SITEMAPS_FROM_ROBOTS": True, "DUST": False}

    def __init__(self, *args: Any, follow: str = "no", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.follow = follow.lower() in ("yes", "true", "1")

    async def start(self) -> AsyncIterator[Request]:
        async for request in super().start():
            request.meta[SITEMAP] = True
            yield request

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        page = self.page(response)
        yield page
        if self.follow or _may_be_a_sitemap(page.mime_type or ""):
            yield self.links(response)

    def seed_urls(self) -> Iterator[str]:
        for url in super().seed_urls():
            host, path = split(url)
            yield f"{host}/sitemap.xml" if path == "/" else url


def _may_be_a_sitemap(mime_type: str) -> bool:
    """Returns whether sitemaps may have the type: XML, feeds, gzip or plain text."""
    kinds = ("xml", "gzip", "text/plain")
    return not is_html(mime_type) and any(kind in mime_type for kind in kinds)
