"""Gives back pages whose callback or pipelines hang, for example on a server that never answers.

Scrapy takes a CancelledError that a callback or a pipeline raises for the end of its own task, so that nothing tells of
it. Here it is an error like others, unless the work was given back or the crawl stops at once.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary

from scrapy import Request, signals
from scrapy.exceptions import CloseSpider
from scrapy.utils.asyncgen import as_async_generator
from scrapy.utils.defer import iter_errback
from scrapy.utils.log import logformatter_adapter
from twisted.python.failure import Failure

from webcrawl.crawler.scheduling.tasks import Tasks
from webcrawl.errors import WorkCancelled

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 10.0


class _Work(set[asyncio.Task[Any]]):
    """The tasks that are in the callback or the pipelines of a page."""

    is_given_back = False


_WORK: ContextVar[_Work] = ContextVar("_WORK")
"""The work to which a task belongs; a task inherits it from the task that creates it."""


class HungPages:
    """Ends the work on pages that takes longer than `timeout` seconds; their URLs are tried again, as after an error.

    The work is cancelled and its request ended, so that later results of the work do not count and the crawl can end.
    Time in which `waits` returns True does not count: the stores or the engine then accept nothing. With a
    `timeout` of 0, no work is ended.
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
        self._handle_error = scraper.handle_spider_error
        scraper.call_spider_async = self._called
        scraper.handle_spider_output_async = self._handled
        scraper.start_itemproc_async = self._processed
        scraper.handle_spider_error = self._raised
        self._held = 0.0
        """Monotonic time until which work may have waited for stores or engine."""
        self._looking = asyncio.create_task(self._look_often()) if timeout else None

    def stop(self) -> None:
        """Stops looking for hung pages."""
        if self._looking is not None:
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
        work.is_given_back = True
        for task in work:
            task.cancel()
        end(request)

    async def _called(self, result: Any, request: Request) -> Any:
        """Calls the callback or errback of a request."""
        work = _Work()
        _WORK.set(work)
        self._working[request] = work
        with _Entered():
            try:
                return await self._call(result, request)
            except asyncio.CancelledError as error:
                if self._is_given_up():
                    raise
                raise _cancelled("the callback") from error

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
                    except asyncio.CancelledError:
                        if self._is_given_up():
                            raise
                        self._callback_cancelled(request, response)
                        continue
                    if isinstance(result, Request):
                        self._add(result, request, response)
                    elif result is not None:
                        if len(tasks) >= scraper.concurrent_items:
                            _, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                        tasks.add(asyncio.create_task(self._processed(result, response=response)))
        except asyncio.CancelledError:
            if not self._is_given_up():
                self._callback_cancelled(request, response)
        if tasks:
            await asyncio.wait(tasks)

    def _raised(self, failure: Failure, request: Request, response: Any) -> None:
        """Handles an exception of a callback. CloseSpider gives the URL back: the next run calls the callback again."""
        if isinstance(failure.value, CloseSpider):
            self._tasks.postpone(request)
        self._handle_error(failure, request, response)

    def _add(self, added: Request, request: Request, response: Any) -> None:
        """Passes a request to the engine; one that cannot be queued does not keep the next from it."""
        try:
            self._scraper.crawler.engine.crawl(added)
        except Exception:  # for example, because a value of its meta raises when it is read
            self._scraper.handle_spider_error(Failure(), request, response)  # type: ignore[no-untyped-call]

    def _callback_cancelled(self, request: Request, response: Any) -> None:
        failure = Failure(_cancelled("the callback"))  # type: ignore[no-untyped-call]
        self._scraper.handle_spider_error(failure, request, response)

    async def _processed(self, item: Any, *, response: Any) -> None:
        """Sends an item through the pipelines."""
        with _Entered():
            try:
                await self._process_item(item, response=response)
            except asyncio.CancelledError as error:
                if self._is_given_up():
                    raise
                await self._failed(item, response, _cancelled("a pipeline"), error)

    async def _failed(self, item: Any, response: Any, failure: WorkCancelled, cause: BaseException) -> None:
        """Tells of an item that a pipeline failed to process, as Scrapy does for an Exception."""
        failure.__cause__ = cause
        crawler = self._scraper.crawler
        entry = self._scraper.logformatter.item_error(item, failure, response, crawler.spider)
        logger.log(*logformatter_adapter(entry), exc_info=failure)
        await crawler.signals.send_catch_log_async(
            signal=signals.item_error,
            item=item,
            response=response,
            spider=crawler.spider,
            failure=Failure(failure),  # type: ignore[no-untyped-call]
        )

    def _is_given_up(self) -> bool:
        """Whether the crawl itself cancelled the current work: its page is given back, or the crawl stops at once."""
        work = _WORK.get(None)
        return self._tasks.is_abandoned or (work is not None and work.is_given_back)


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


def _cancelled(who: str) -> WorkCancelled:
    return WorkCancelled(f"{who} was cancelled, or awaited a task that was cancelled (CancelledError)")
