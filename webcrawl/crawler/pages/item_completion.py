"""Waits until a page has left the item pipelines, if its links depend on the outcome."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.http import Response

from webcrawl.crawler.fetch import fetch_of
from webcrawl.documents.page import Page

_MOST_SECONDS = 60.0
"""Seconds to wait for a page: a page that a component drops before the pipelines never leaves them."""


class ItemCompletion:
    """Knows when the pipelines are done with a page; call `expect` before the spider yields the page."""

    def __init__(self, crawler: Crawler) -> None:
        for signal in (signals.item_scraped, signals.item_dropped, signals.item_error):
            crawler.signals.connect(self._leave, signal)

    def expect(self, response: Response) -> None:
        """Notes that the page of this response is about to enter the pipelines."""
        fetch_of(response).processed = asyncio.Event()

    async def is_near_duplicate(self, page: Page, response: Response) -> bool:
        """Returns whether the pipelines marked the page as a near-duplicate; False after a minute without a result."""
        processed = fetch_of(response).processed
        assert processed is not None, "expect() comes first"
        with suppress(TimeoutError):
            async with asyncio.timeout(_MOST_SECONDS):
                await processed.wait()
        return page.duplicate_kind == "near"

    def _leave(self, item: Any, response: Response | None) -> None:
        processed = fetch_of(response).processed if response is not None else None
        if processed is not None and isinstance(item, Page):
            processed.set()
