"""Scrapy's item pipelines, without a coroutine for a pipeline that returns its item at once."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from datetime import UTC, datetime
from types import CoroutineType
from typing import Any

from scrapy.crawler import Crawler
from scrapy.pipelines import ItemPipelineManager
from scrapy.utils.defer import ensure_awaitable
from scrapy.utils.python import global_object_name

from webcrawl.crawler.access import tasks_of
from webcrawl.crawler.components import fill_spider
from webcrawl.crawler.session import Session
from webcrawl.documents.page import Page
from webcrawl.errors import ConfigurationError


class ItemProcessor(ItemPipelineManager):
    """`ITEM_PROCESSOR = "webcrawl.crawler.pages.processor.ItemProcessor"`.

    Most pipelines return most pages unchanged. Scrapy makes a coroutine of each call, which takes 0.02 ms per page.
    Items that are not pages are counted by class, for the summary.
    """

    def __init__(self, *pipelines: Any, crawler: Crawler) -> None:
        super().__init__(*pipelines, crawler=crawler)
        self._crawler = crawler
        self._observed = Session.of(crawler).observed
        self._steps = [
            fill_spider(pipeline.process_item, crawler)
            for pipeline in pipelines
            if hasattr(pipeline, "process_item")
        ]

    async def open_spider_async(self) -> None:
        """Opens all pipelines, and then raises the exception of the first that failed.

        Scrapy stops at a function that raises. The coroutines of the pipelines before it would never be awaited.
        """
        opening = map(self._open, self.methods["open_spider"])
        for result in await asyncio.gather(*opening, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result

    async def _open(self, method: Any) -> None:
        await self.get_awaitable(method)

    async def process_item_async(self, item: Any) -> Any:
        began, url = None, ""
        if isinstance(item, Page):
            self._weigh(item)
            if self._observed is not None and item.archived.exchange is not None:
                # the response was complete at `fetched_at`
                parsed = datetime.now(UTC) - item.fetched_at
                began, url = time.monotonic(), item.url
                self._observed.stage("parse", url, began - parsed.total_seconds(), began)
        for step in self._steps:
            result = step(item)
            if type(result) is CoroutineType:
                result = await result
            elif result is not item:
                result = await ensure_awaitable(result, _warn=global_object_name(step))
            item = result
        if self._observed is not None and began is not None:
            self._observed.stage("pipelines", url, began)
        if not isinstance(item, Page):
            with suppress(ConfigurationError):  # another scheduler has no totals
                tasks_of(self._crawler).count(f"items.{type(item).__name__}")
        return item

    def _weigh(self, page: Page) -> None:
        """Sets the importance that a page had when its URL was handed out."""
        with suppress(ConfigurationError):  # another scheduler has no credit
            if (credit := tasks_of(self._crawler).worker.intake.credit) is not None:
                page.importance = credit.of(page.url)
