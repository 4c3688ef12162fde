"""Scrapy's scraper, with less around a page that yields one item."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, cast

from scrapy import Request
from scrapy.core.scraper import Scraper as ScrapyScraper, Slot as ScrapySlot
from scrapy.core.spidermw import SpiderMiddlewareManager
from scrapy.http import Response, TextResponse
from scrapy.spidermiddlewares.base import BaseSpiderMiddleware
from scrapy.spidermiddlewares.depth import DepthMiddleware
from scrapy.spidermiddlewares.start import StartSpiderMiddleware
from scrapy.utils.asyncgen import as_async_generator
from scrapy.utils.defer import aiter_errback
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from webcrawl.crawler.responses import SpooledResponse, length_of

# What these do with each thing of a spider's output, one at a time, can be done one after the other.
_ONE_BY_ONE = (
    BaseSpiderMiddleware.process_spider_output_async,
    DepthMiddleware.process_spider_output_async,
)


class Slot(ScrapySlot):
    """Counts what of a response will be in memory; Scrapy's own would read its file to learn its length."""

    def add_response_request(self, result: Response | Failure, request: Request) -> Deferred[None]:
        done: Deferred[None] = Deferred()
        self.queue.append((result, request, done))
        self.active_size += self._size(result)
        return done

    def finish_response(self, result: Response | Failure, request: Request) -> None:
        self.active.remove(request)
        self.active_size -= self._size(result)

    def _size(self, result: Response | Failure) -> int:
        # a page is in memory while it is parsed, wherever its body is; a film is not
        is_in_memory = isinstance(result, TextResponse) or not isinstance(result, SpooledResponse)
        size = length_of(result) if isinstance(result, Response) and is_in_memory else 0
        return max(size, self.MIN_RESPONSE_SIZE)


class Scraper(ScrapyScraper):
    """A task for each item, at most CONCURRENT_ITEMS a response; Scrapy makes so many for every response, and a queue.

    Nobody lets a project choose the class: `adopt` makes Scrapy's own one of these.
    """

    @classmethod
    def adopt(cls, scraper: ScrapyScraper, max_active_size: int) -> None:
        """Before any response comes: `max_active_size` is in bytes, see SCRAPER_SLOT_MAX_ACTIVE_SIZE."""
        scraper.__class__ = cls
        scraper.slot = Slot(max_active_size)
        merge_middlewares(scraper.spidermw)

    async def handle_spider_output_async(
        self, result: Iterable[Any] | AsyncIterator[Any], request: Request, response: Response | Failure
    ) -> None:
        items: set[asyncio.Task[None]] = set()
        output = result if isinstance(result, AsyncIterator) else as_async_generator(result)
        try:
            async for one in aiter_errback(output, self.handle_spider_error, request, response):
                if isinstance(one, Request):
                    self.crawler.engine.crawl(one)
                elif one is not None:
                    if len(items) >= max(self.concurrent_items, 1):
                        await asyncio.wait(items, return_when=asyncio.FIRST_COMPLETED)
                    # logs by itself what a pipeline raises
                    item = asyncio.create_task(self.start_itemproc_async(one, response=response))
                    items.add(item)
                    item.add_done_callback(items.discard)
        finally:
            if items:
                await asyncio.wait(items)


def merge_middlewares(manager: SpiderMiddlewareManager) -> None:
    """Make one generator of spider middlewares that follow each other and look at one thing at a time.

    Scrapy makes two to four asynchronous generators of each, 0.03 ms a page. One that handles exceptions stays by
    itself, so that each exception is offered to those to whom Scrapy offers it.
    """
    methods = list(manager.methods["process_spider_output"])
    run: list[int] = []
    for place, handler in enumerate(manager.methods["process_spider_exception"]):
        middleware = getattr(methods[place], "__self__", None)
        # it marks start requests, which are not yielded for a response
        if type(middleware) is StartSpiderMiddleware:
            methods[place] = None
        elif handler is None and getattr(methods[place], "__func__", None) in _ONE_BY_ONE:
            run.append(place)
            continue
        if handler is not None or methods[place] is not None:
            _merge(methods, run)
            run = []
    _merge(methods, run)
    manager.methods["process_spider_output"] = deque(methods)


def _merge(methods: list[Callable[..., Any] | None], run: list[int]) -> None:
    """One generator instead of those at these places, at the last of them."""
    middlewares = [cast("Any", methods[place]).__self__ for place in run]
    for place in run[:-1]:
        methods[place] = None
    if len(run) > 1:
        methods[run[-1]] = _one_by_one(middlewares)


def _one_by_one(middlewares: list[BaseSpiderMiddleware]) -> Callable[..., AsyncIterator[Any]]:
    steps = [middleware._get_processed for middleware in middlewares]
    beginnings = [one._init_depth for one in middlewares if isinstance(one, DepthMiddleware)]

    async def process_spider_output(response: Response, result: AsyncIterator[Any]) -> AsyncIterator[Any]:
        for begin in beginnings:
            begin(response)
        async for one in result:
            for step in steps:
                one = step(one, response)
                if one is None:
                    break
            else:
                yield one

    return process_spider_output
