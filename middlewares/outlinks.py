"""The links of a page on their way into the frontier, without becoming requests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response

from webcrawl.access import frontier_scheduler
from webcrawl.config import DuplicatesConfig
from webcrawl.errors import InvalidURL
from webcrawl.frontier import DEFAULT_LEVEL
from webcrawl.judged import Judged
from webcrawl.links import PageLinks
from webcrawl.page import Page
from webcrawl.session import Session
from webcrawl.urls import normalize


class OutlinksMiddleware:
    """Takes the `PageLinks` that a spider yields: depth limit, URL filters, scope, then the frontier.

    With NEAR_DUPLICATES_FOLLOW off they wait for the page that was yielded before them to be judged.
    Start requests pass through it too: their hosts are the operator's choice, which the address guard respects.
    """

    def __init__(self, crawler: Crawler, session: Session) -> None:
        self._crawler = crawler
        self._session = session
        follows_all = DuplicatesConfig.from_settings(crawler.settings).follow
        self._judged = None if follows_all else Judged(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler, Session.of(crawler))

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for one in start:
            if isinstance(one, Request):
                with suppress(InvalidURL):  # the scheduler says so, once
                    await self._session.admit_seeds([one.url])
            yield one

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        page: Page | None = None
        async for one in result:
            if isinstance(one, PageLinks):
                if self._judged and page and await self._judged.is_near_duplicate(page, response):
                    continue
                # a page outside the scope was admitted by another worker
                await self._session.learn_scope(normalize(response.url))
                self._follow(response, one)
            else:
                if self._judged and isinstance(one, Page):
                    page = one
                    self._judged.expect(response)
                yield one

    def _follow(self, response: Response, links: PageLinks) -> None:
        scheduler = frontier_scheduler(self._crawler)
        depth = response.meta.get("depth", 0) + 1
        limit = self._session.config.depth_limit
        if limit and depth > limit:
            scheduler.count("too_deep", len(links.links))
            return
        scheduler.add_links(links.links, depth=depth, referrer=response.url, level=DEFAULT_LEVEL)
