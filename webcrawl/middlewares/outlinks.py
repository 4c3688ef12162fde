"""Adds the links of pages to the frontier without making requests of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response

from webcrawl.config import DuplicatesConfig
from webcrawl.crawler.pages.from_response import forget_tree, outline_of
from webcrawl.crawler.pages.item_completion import ItemCompletion
from webcrawl.crawler.pages.outlinks import Outlinks
from webcrawl.crawler.session import Session
from webcrawl.documents.html.links import PageLinks, PageResources
from webcrawl.errors import InvalidURL
from webcrawl.page import Page


class OutlinksMiddleware:
    """Handles the `PageLinks` that a spider yields; see `webcrawl.crawler.pages.outlinks`.

    With NEAR_DUPLICATES_FOLLOW off they wait until the page that was yielded before them has passed the pipelines.
    The hosts of start requests are admitted by the address guard, because the operator named them.
    """

    def __init__(self, crawler: Crawler, session: Session) -> None:
        self._session = session
        follows_all = DuplicatesConfig.from_settings(crawler.settings).follow
        self._judged = None if follows_all else ItemCompletion(crawler)
        self._outlinks = Outlinks(crawler, session)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler, Session.of(crawler))

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for one in start:
            if isinstance(one, Request):
                with suppress(InvalidURL):  # the scheduler logs it
                    await self._session.scope.admit_seeds([one.url])
            yield one

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        page: Page | None = None
        async for one in result:
            if isinstance(one, PageLinks):
                if self._judged and page and await self._judged.is_near_duplicate(page, response):
                    continue
                await self._outlinks.follow_from_spider(response, one)
            elif isinstance(one, PageResources):
                self._outlinks.load(response, one)
            else:
                if self._judged and isinstance(one, Page):
                    page = one
                    self._judged.expect(response)
                yield one
        # otherwise each page that waits for the pipelines would keep a tree in memory
        if outline_of(response) or not self._session.components.keep_trees:
            forget_tree(response)
