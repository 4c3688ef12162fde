"""Gives back pages whose callback or pipelines hang, for example on a server that never answers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary

from scrapy import Request
from scrapy.utils.asyncgen import as_async_generator
from scrapy.utils.defer import iter_errback
from twisted.python.failure import Failure

from webcrawl.crawler.scheduling.tasks import Tasks

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 10.0

_Work = set[asyncio.Task[Any]]
"""The tasks that are in the callback or the pipelines of a page."""
_WORK: ContextVar[_Work] = ContextVar("_WORK")
"""The work to which a task belongs; a task inherits it from the task that creates it."""


class HungPages:
    """Ends the work on pages that takes longer than `timeout` seconds; their URLs are tried again, as after an error.

    The work is cancelled and its request ended, so that later results of the work do not count and the crawl can end.
    Time in which `waits` returns True does not count: the stores or the engine then accept nothing.
    """

    def __init__(self, tasks: Tasks, waits: Callable[[], bool], scraper: Any, timeout: float) -> None:
        self._tasks = tasks
        self._waits = waits
        self._scraper = scraper
        self._timeout = timeout
        self._working = WeakKeyDictionary[Request, _Work]()
        # no public API shows which tasks work on a page
        self._call = scraper.call_spider_async
        self._process_item = scraper.start_itemproc_async
        scraper.call_spider_async = self._called
        scraper.handle_spider_output_async = self._handled
        scraper.start_itemproc_async = self._processed
        self._held = 0.0
        """Monotonic time until which work may have waited for stores or engine."""
        self._looking = asyncio.create_task(self._look_often())

    def stop(self) -> None:
        """Stops looking for hung pages."""
        self._looking.cancel()

    async def _look_often(self) -> None:
        every = min(_LOOK_SECONDS, self._timeout / 4)
        while True:
            await asyncio.sleep(every)
            self._look(time.monotonic())

    def _look(self, now: float) -> None:
        if self._waits():
            self._held = now
        elif now - self._held > self._timeout:
            for request, _ in self._tasks.processing_since(now - self._timeout):
                self._give_back(request)

    def _give_back(self, request: Request) -> None:
        # a project that uses only this scheduler has Scrapy's own slot, which cannot end a request
        work, end = self._working.pop(request, None), getattr(self._scraper.slot, "end", None)
        if work is None or end is None:
            return
        reason = f"its callback or pipelines took longer than {self._timeout:,g} s (PROCESSING_TIMEOUT)"
        logger.warning("%s is given back: %s", request.url, reason)
        self._tasks.fail_processing(request, reason)
        for task in work:
            task.cancel()
        end(request)

    async def _called(self, result: Any, request: Request) -> Any:
        """Calls the callback or errback of a request."""
        work: _Work = set()
        _WORK.set(work)
        self._working[request] = work
        with _Entered():
            return await self._call(result, request)

    async def _handled(
        self, output: Iterable[Any] | AsyncIterator[Any], request: Request, response: Any
    ) -> None:
        """Handles all that a callback yields, with a task for each item and at most CONCURRENT_ITEMS at a time.

        Scrapy starts so many tasks and a queue for each response, most of which have one item.
        """
        scraper, tasks = self._scraper, set[asyncio.Task[None]]()
        if not isinstance(output, AsyncIterator):
            output = as_async_generator(iter_errback(output, scraper.handle_spider_error, request, response))
        try:
            with _Entered():
                while True:
                    try:
                        result = await anext(output)
                    except StopAsyncIteration:
                        break
                    except Exception:  # as in Scrapy: the callback may go on
                        scraper.handle_spider_error(Failure(), request, response)  # type: ignore[no-untyped-call]
                        continue
                    if isinstance(result, Request):
                        scraper.crawler.engine.crawl(result)
                    elif result is not None:
                        if len(tasks) >= scraper.concurrent_items:
                            _, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                        tasks.add(asyncio.create_task(self._processed(result, response=response)))
        except asyncio.CancelledError:  # the page is given back
            pass
        if tasks:
            await asyncio.wait(tasks)

    async def _processed(self, item: Any, *, response: Any) -> None:
        """Sends an item through the pipelines."""
        with _Entered():
            await self._process_item(item, response=response)


class _Entered:
    """Adds the current task to the work on its page, if it has a page, so that both are cancelled together."""

    __slots__ = ("_task", "_work")

    def __enter__(self) -> None:
        self._work, self._task = _WORK.get(None), asyncio.current_task()
        if self._work is None or self._task is None or self._task in self._work:
            self._work = None
        else:
            self._work.add(self._task)

    def __exit__(self, *exception: object) -> None:
        if self._work is not None and self._task is not None:
            self._work.discard(self._task)
