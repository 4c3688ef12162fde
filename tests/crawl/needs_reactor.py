"""A downloader middleware that works only with Twisted's reactor, as some plugins for Scrapy do."""

from __future__ import annotations

from scrapy import Request
from twisted.internet.threads import deferToThread


class WaitingMiddleware:
    """Computes something in a thread of the reactor before each request for a page."""

    async def process_request(self, request: Request) -> None:
        if not request.url.endswith("/robots.txt"):
            await deferToThread(int)
