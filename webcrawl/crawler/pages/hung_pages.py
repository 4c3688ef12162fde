"""Gives back pages whose callback or pipelines hang, for example on a server that never answers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary

from scrapy import Request

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
        self._handle_output = scraper.handle_spider_output_async
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
        with _entered():
            return await self._call(result, request)

    async def _handled(self, output: Any, request: Request, response: Any) -> None:
        """Handles all that a callback yields. The tasks that Scrapy creates for this are cancelled one by one."""
        watched = _watched(output) if isinstance(output, AsyncIterator) else output
        await self._handle_output(watched, request, response)

    async def _processed(self, item: Any, *, response: Any) -> None:
        """Sends an item through the pipelines."""
        with _entered():
            await self._process_item(item, response=response)


async def _watched(output: AsyncIterator[Any]) -> AsyncIterator[Any]:
    """Yields what an asynchronous callback yields. Ends on cancellation, because other tasks wait for the end."""
    try:
        with _entered():
            async for item in output:
                yield item
    except asyncio.CancelledError:
        return


@contextmanager
def _entered() -> Iterator[None]:
    """Adds the current task to the work on its page, if it has a page, so that both are cancelled together."""
    work, task = _WORK.get(None), asyncio.current_task()
    if work is None or task is None or task in work:
        yield
        return
    work.add(task)
    try:
        yield
    finally:
        work.discard(task)
