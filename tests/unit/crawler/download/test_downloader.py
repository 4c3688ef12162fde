"""The chain of downloader middlewares has the semantics of Scrapy's own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from scrapy import Request
from scrapy.http import Response
from scrapy.utils.test import get_crawler

from tests.cases import cases
from webcrawl.crawler.download.middleware_chain import MiddlewareChain

URL = "http://example.com/"


class Middleware:
    """Logs its calls and returns the given results, as coroutines if `waits`."""

    def __init__(
        self, name: str, log: list[str], *, waits: bool, for_request: Any = None, for_response: Any = "same"
    ) -> None:
        self.name, self.log, self.waits, self.for_request, self.for_response = (
            name,
            log,
            waits,
            for_request,
            for_response,
        )

    def process_request(self, request: Request) -> Any:
        self.log.append(f"request {self.name}")
        return self._later(self.for_request)

    def process_response(self, request: Request, response: Response) -> Any:
        self.log.append(f"response {self.name}")
        return self._later(response if self.for_response == "same" else self.for_response)

    def _later(self, answer: Any) -> Any:
        async def wait() -> Any:
            await asyncio.sleep(0)
            return answer

        return wait() if self.waits else answer


def download(*middlewares: Middleware) -> tuple[Response | Request, bool]:
    """Returns the result of the chain, and whether a request was sent."""
    fetched = []

    async def fetch(request: Request) -> Response:
        fetched.append(request)
        return Response(URL)

    result = asyncio.run(MiddlewareChain(middlewares, get_crawler()).download(Request(URL), fetch))
    return result, bool(fetched)


@pytest.mark.parametrize("waits", [False, True])
def test_middlewares_run_in_order_and_back(waits: bool) -> None:
    log: list[str] = []
    result, fetched = download(Middleware("a", log, waits=waits), Middleware("b", log, waits=not waits))
    assert log == ["request a", "request b", "response b", "response a"]
    assert isinstance(result, Response) and fetched


@pytest.mark.parametrize("waits", [False, True])
def test_response_of_a_middleware_replaces_the_download(waits: bool) -> None:
    log: list[str] = []
    answer = Response(URL, status=299)
    result, fetched = download(
        Middleware("a", log, waits=waits, for_request=answer), Middleware("b", log, waits=waits)
    )
    assert result is answer and not fetched
    assert log == ["request a", "response b", "response a"]


@pytest.mark.parametrize("waits", [False, True])
def test_new_request_ends_response_processing(waits: bool) -> None:
    log: list[str] = []
    other = Request(URL + "other")
    result, _ = download(
        Middleware("a", log, waits=waits), Middleware("b", log, waits=waits, for_response=other)
    )
    assert result is other
    assert log == ["request a", "request b", "response b"]


class Holding:
    """Holds something for each request until its response or cancellation, and may wait for ever with either."""

    def __init__(self, hangs_at: str) -> None:
        self.hangs_at = hangs_at
        self.held: set[Request] = set()
        self.hangs = asyncio.Event()

    async def hang(self, at: str) -> None:
        if at == self.hangs_at:
            self.hangs.set()
            await asyncio.Event().wait()

    async def process_request(self, request: Request) -> None:
        self.held.add(request)
        await self.hang("request")

    async def process_response(self, request: Request, response: Response) -> Response:
        await self.hang("response")
        return response

    async def process_exception(self, request: Request, exception: Exception) -> None:
        await self.hang("exception")

    def process_cancellation(self, request: Request) -> None:
        self.held.remove(request)


@pytest.mark.parametrize("at", ["request", "fetch", "response", "exception"])
def test_a_cancelled_download_is_known_to_middlewares(at: str) -> None:
    async def check() -> None:
        middleware = Holding(at)

        async def fetch(request: Request) -> Response:
            await middleware.hang("fetch")
            if at == "exception":
                raise OSError
            return Response(URL)

        chain = MiddlewareChain([Middleware("a", [], waits=True), middleware], get_crawler())
        download = asyncio.ensure_future(chain.download(Request(URL), fetch))
        await middleware.hangs.wait()
        assert middleware.held
        download.cancel()
        with pytest.raises(asyncio.CancelledError):
            await download
        assert not middleware.held

    asyncio.run(check())


@pytest.mark.parametrize("waits", [False, True])
def test_error_in_response_processing_goes_to_the_failure_judge(waits: bool) -> None:
    errors: list[Exception] = []

    def judge(request: Request, error: Exception) -> Request | None:
        errors.append(error)
        return request.replace(url=URL + "again") if len(errors) == 1 else None

    async def check() -> None:
        chain = MiddlewareChain([Middleware("a", [], waits=waits, for_response=7)], get_crawler(), judge)
        again = await chain.download(Request(URL), fetch)
        assert again.url == URL + "again"
        with pytest.raises(TypeError):
            await chain.download(Request(URL), fetch)

    async def fetch(request: Request) -> Response:
        return Response(URL)

    asyncio.run(check())
    assert [type(error) for error in errors] == [TypeError] * 2


@cases("waits", [False, True])
@cases("wrong", [{"for_request": 7}, {"for_response": 7}, {"for_response": None}])
def test_invalid_return_value_names_the_method(wrong: dict[str, Any], waits: bool) -> None:
    with pytest.raises(TypeError, match=r"Middleware\.process_re"):
        download(Middleware("a", [], waits=waits, **wrong))


class Failing(Middleware):
    """Raises in `process_request`, and returns the given result from `process_exception`."""

    def process_request(self, request: Request) -> Any:
        self.log.append(f"request {self.name}")
        raise ValueError(self.name)

    def process_exception(self, request: Request, exception: Exception) -> Any:
        self.log.append(f"exception {self.name}: {exception}")
        return self._later(self.for_request)


class Older:
    """A middleware in the style of Scrapy before 2.14."""

    def process_response(self, request: Request, response: Response, spider: Any) -> Response:
        return response.replace(flags=[str(spider)])


@pytest.mark.parametrize("waits", [False, True])
def test_request_exceptions_are_passed_to_the_middlewares(waits: bool) -> None:
    log: list[str] = []
    answer = Response(URL, status=299)
    result, fetched = download(
        Failing("a", log, waits=waits, for_request=answer),
        Failing("b", log, waits=waits),
        Failing("c", log, waits=waits),
    )
    assert result is answer and not fetched
    assert log[:2] == ["request a", "exception c: a"]
    assert log[2:4] == ["exception b: a", "exception a: a"]
    assert log[4:] == ["response c", "response b", "response a"]


def test_unhandled_request_exception_is_raised_without_the_judge() -> None:
    judged: list[Exception] = []

    async def fetch(request: Request) -> Response:
        raise AssertionError

    def judge(request: Request, error: Exception) -> None:
        judged.append(error)

    chain = MiddlewareChain([Failing("a", [], waits=False)], get_crawler(), judge)
    with pytest.raises(ValueError, match="a"):
        asyncio.run(chain.download(Request(URL), fetch))
    assert not judged


def test_middlewares_with_a_spider_argument_receive_it() -> None:
    result, _ = download(Older())  # type: ignore[arg-type]
    assert isinstance(result, Response) and result.flags == ["None"]
