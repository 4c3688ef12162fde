"""When a page has gone through the pipelines: for those who have to know what became of it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.http import Response

from webcrawl.page import Page

_MOST_SECONDS = 60.0
"""A page that another component has taken out of its way never comes to the pipelines."""


class Judged:
    """Told of a response's page when the spider yields it; by Scrapy, when the pipelines have done with it."""

    def __init__(self, crawler: Crawler) -> None:
        self._done: WeakKeyDictionary[Response, asyncio.Event] = WeakKeyDictionary()
        for signal in (signals.item_scraped, signals.item_dropped, signals.item_error):
            crawler.signals.connect(self._leaves, signal)

    def expect(self, response: Response) -> None:
        """The page of this response is on its way."""
        self._done[response] = asyncio.Event()

    async def is_near_duplicate(self, page: Page, response: Response) -> bool:
        """Whether the page turned out to be one; False where nobody says so within a minute."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_MOST_SECONDS):
                await self._done[response].wait()
        return page.duplicate_kind == "near"

    def _leaves(self, item: Any, response: Response | None) -> None:
        done = self._done.get(response) if response is not None and isinstance(item, Page) else None
        if done is not None:
            done.set()
