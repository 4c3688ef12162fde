"""The chain of downloader middlewares, run as Scrapy documents it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from types import CoroutineType
from typing import Any

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import CannotResolveHostError
from scrapy.http import Response
from scrapy.utils.defer import ensure_awaitable

from webcrawl.crawler.components import fill_spider
from webcrawl.crawler.signals import in_downloader

Judge = Callable[[Request, Exception], Request | None]
"""Handles an exception that a middleware raised for a response; returns a request to schedule, or None."""


class MiddlewareChain:
    """Passes requests, responses and exceptions through downloader middlewares.

    It differs from Scrapy's DownloaderMiddlewareManager in three ways. A method that returns at once is not wrapped in
    a coroutine. An exception from `process_response` goes to `judge`. Scrapy gives it to no middleware, so the page
    would count as done. If a download is cancelled, `process_cancellation(request)` of each middleware that has it is
    called, so that it gives back what it holds for the request. `translate` returns the exception to handle instead of
    a raised exception.
    """

    def __init__(
        self,
        middlewares: Iterable[Any],
        crawler: Crawler,
        judge: Judge | None = None,
        translate: Callable[[Exception], Exception] = lambda error: error,
    ) -> None:
        chain = list(middlewares)
        self._crawler = crawler
        self._requests = _methods(chain, "process_request", crawler)
        self._responses = _methods(chain[::-1], "process_response", crawler)
        self._exceptions = _methods(chain[::-1], "process_exception", crawler)
        self._cancellations = _methods(chain[::-1], "process_cancellation", crawler)
        self._judge = judge
        self._translate = translate

    async def download(
        self, request: Request, fetch: Callable[[Request], Coroutine[Any, Any, Response]]
    ) -> Response | Request:
        """Returns the response, or a request to schedule; `fetch` downloads requests that no middleware answers.

        Raises exceptions of `fetch` and middlewares that no middleware handled, and TypeError for a wrong return value.
        """
        try:
            try:
                result = await self._process_request(request, fetch)
            except Exception as error:
                result = await self._process_exception(request, self._translate(error))
            try:
                return await self._process_response(request, result)
            except Exception as error:
                error = self._translate(error)
                if self._judge is not None and (again := self._judge(request, error)) is not None:
                    return again
                raise error
        except asyncio.CancelledError:
            for method in self._cancellations:
                method(request=request)
            raise

    async def _process_request(
        self, request: Request, fetch: Callable[[Request], Coroutine[Any, Any, Response]]
    ) -> Response | Request:
        try:
            for method in self._requests:
                result = method(request=request)
                if result is not None and (answer := await _answer(method, result)) is not None:
                    return answer
        except CannotResolveHostError:
            # in Scrapy the downloader resolves names, here middlewares do
            with in_downloader(self._crawler, request):
                raise
        return await fetch(request)

    async def _process_response(self, request: Request, response: Response | Request) -> Response | Request:
        for method in self._responses:
            if isinstance(response, Request):
                break
            result = method(request=request, response=response)
            answer = result if isinstance(result, Response) else await _answer(method, result)
            if answer is None:
                raise TypeError(f"{method.__qualname__} must return a Response or a Request, not None")
            response = answer
        return response

    async def _process_exception(self, request: Request, error: Exception) -> Response | Request:
        # as in Scrapy: callbacks of ready sockets run first
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        for method in self._exceptions:
            result = method(request=request, exception=error)
            if result is not None and (answer := await _answer(method, result)) is not None:
                return answer
        raise error


def _methods(middlewares: list[Any], name: str, crawler: Crawler) -> list[Callable[..., Any]]:
    return [
        fill_spider(getattr(middleware, name), crawler)
        for middleware in middlewares
        if hasattr(middleware, name)
    ]


async def _answer(method: Callable[..., Any], result: Any) -> Response | Request | None:
    """Awaits and checks the result of a method; raises TypeError unless it is a Response, a Request or None."""
    # most results are coroutines, for which Scrapy's function would check many cases
    answer = (
        await result if type(result) is CoroutineType else await ensure_awaitable(result, method.__qualname__)
    )
    if answer is None or isinstance(answer, Response | Request):
        return answer
    raise TypeError(f"{method.__qualname__} must return a Response or a Request, not {type(answer).__name__}")
