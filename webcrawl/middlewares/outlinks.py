"""Adds the links of pages to the frontier without a Scrapy request for each link."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import cached_property
from typing import Any

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.http import Response

from webcrawl.config import DuplicatesConfig, read
from webcrawl.crawler.fetch import fetch_of
from webcrawl.crawler.pages.from_response import forget_tree, outline_of
from webcrawl.crawler.pages.outlinks import Outlinks
from webcrawl.crawler.session import Session, SessionComponent
from webcrawl.documents.html.links import PageLinks, PageResources
from webcrawl.documents.page import Page
from webcrawl.errors import InvalidURL

_MOST_SECONDS = 60.0
"""Seconds to wait for a page: a page that a component drops before the pipelines never leaves them."""


class OutlinksMiddleware(SessionComponent):
    """Handles the `PageLinks` that a spider yields; see `webcrawl.crawler.pages.outlinks`.

    Links of soft 404s are not followed, nor those of near-duplicates if NEAR_DUPLICATES_FOLLOW is off. So the links of
    a page that may be marked wait until the page, which the spider yields first, has passed the pipelines.
    The address guard admits the hosts of start requests, because the operator named them.
    """

    def __init__(self, crawler: Crawler, session: Session) -> None:
        super().__init__(crawler, session)
        self._follows_near = DuplicatesConfig.from_settings(crawler.settings).follow
        self._knows_errors = read(crawler.settings, "SOFT_404")
        self._outlinks = Outlinks(crawler, session)

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for request in start:
            if isinstance(request, Request):
                with suppress(InvalidURL):  # the scheduler logs it
                    await self._session.scope.admit_seeds([request.url])
            yield request

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        page: Page | None = None
        async for output in result:
            if isinstance(output, PageLinks):
                if page and await self._is_left_out(page, response):
                    continue
                await self._outlinks.follow_from_spider(response, output)
            elif isinstance(output, PageResources):
                self._outlinks.load(response, output)
            else:
                if isinstance(output, Page) and self._may_be_left_out(output):
                    page = output
                    self._completion.expect(response)
                yield output
        # otherwise each page that waits for the pipelines would keep a tree in memory
        if outline_of(response) or not self._session.components.keep_trees:
            forget_tree(response)

    @cached_property
    def _completion(self) -> ItemCompletion:
        # created late: its signals cost time for each page, and most crawls have no page whose links must wait
        return ItemCompletion(self._crawler)

    def _may_be_left_out(self, page: Page) -> bool:
        return not self._follows_near or (self._knows_errors and self._session.soft_404s.is_awaited(page))

    async def _is_left_out(self, page: Page, response: Response) -> bool:
        """Returns whether the links of a page are not followed; waits until the page has passed the pipelines."""
        is_near = await self._completion.is_near_duplicate(page, response)
        return page.soft_404 or (is_near and not self._follows_near)


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
