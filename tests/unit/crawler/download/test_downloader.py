"""The chain of downloader middlewares keeps what Scrapy's own promises."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from scrapy import Request
from scrapy.http import Response
from scrapy.utils.test import get_crawler

from webcrawl.crawler.download.middleware_chain import MiddlewareChain

URL = "http://example.com/"


class Middleware:
    """Notes that it was asked; answers with what it was told to, at once or after a while."""

    def __init__(
        self, name: str, log: list[str], *, waits: bool, asked: Any = None, got: Any = "same"
    ) -> None:
        self.name, self.log, self.waits, self.asked, self.got = name, log, waits, asked, got

    def process_request(self, request: Request) -> Any:
        self.log.append(f"request {self.name}")
        return self._later(self.asked)

    def process_response(self, request: Request, response: Response) -> Any:
        self.log.append(f"response {self.name}")
        return self._later(response if self.got == "same" else self.got)

    def _later(self, answer: Any) -> Any:
        async def wait() -> Any:
            await asyncio.sleep(0)
            return answer

        return wait() if self.waits else answer


def download(*middlewares: Middleware) -> tuple[Response | Request, bool]:
    """What comes out of the chain, and whether anything was fetched."""
    fetched = []

    async def fetch(request: Request) -> Response:
        fetched.append(request)
        return Response(URL)

    result = asyncio.run(MiddlewareChain(middlewares, get_crawler()).download(Request(URL), fetch))
    return result, bool(fetched)


@pytest.mark.parametrize("waits", [False, True])
def test_all_are_asked_in_order_and_back(waits: bool) -> None:
    log: list[str] = []
    result, fetched = download(Middleware("a", log, waits=waits), Middleware("b", log, waits=not waits))
    assert log == ["request a", "request b", "response b", "response a"]
    assert isinstance(result, Response) and fetched


@pytest.mark.parametrize("waits", [False, True])
def test_an_answer_of_a_middleware_takes_the_place_of_the_download(waits: bool) -> None:
    log: list[str] = []
    answer = Response(URL, status=299)
    result, fetched = download(
        Middleware("a", log, waits=waits, asked=answer), Middleware("b", log, waits=waits)
    )
    assert result is answer and not fetched
    assert log == ["request a", "response b", "response a"]


@pytest.mark.parametrize("waits", [False, True])
def test_a_new_request_ends_the_way_back(waits: bool) -> None:
    log: list[str] = []
    other = Request(URL + "other")
    result, _ = download(Middleware("a", log, waits=waits), Middleware("b", log, waits=waits, got=other))
    assert result is other
    assert log == ["request a", "request b", "response b"]


@pytest.mark.parametrize("waits", [False, True])
def test_what_raises_on_the_way_back_is_told_to_who_judges(waits: bool) -> None:
    told: list[Exception] = []

    def judge(request: Request, error: Exception) -> Request | None:
        told.append(error)
        return request.replace(url=URL + "again") if len(told) == 1 else None

    async def check() -> None:
        chain = MiddlewareChain([Middleware("a", [], waits=waits, got=7)], get_crawler(), judge)
        again = await chain.download(Request(URL), fetch)
        assert again.url == URL + "again"
        with pytest.raises(TypeError):
            await chain.download(Request(URL), fetch)

    async def fetch(request: Request) -> Response:
        return Response(URL)

    asyncio.run(check())
    assert [type(error) for error in told] == [TypeError] * 2


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("wrong", [{"asked": 7}, {"got": 7}, {"got": None}])
def test_what_is_no_answer_is_named(wrong: dict[str, Any], waits: bool) -> None:
    with pytest.raises(TypeError, match=r"Middleware\.process_re"):
        download(Middleware("a", [], waits=waits, **wrong))


class Failing(Middleware):
    """Raises on the way out, and answers exceptions with what it was told to."""

    def process_request(self, request: Request) -> Any:
        self.log.append(f"request {self.name}")
        raise ValueError(self.name)

    def process_exception(self, request: Request, exception: Exception) -> Any:
        self.log.append(f"exception {self.name}: {exception}")
        return self._later(self.asked)


class Older:
    """A middleware as they were written for Scrapy before 2.14."""

    def process_response(self, request: Request, response: Response, spider: Any) -> Response:
        return response.replace(flags=[str(spider)])


@pytest.mark.parametrize("waits", [False, True])
def test_exceptions_on_the_way_out_are_offered_to_the_middlewares(waits: bool) -> None:
    log: list[str] = []
    answer = Response(URL, status=299)
    result, fetched = download(
        Failing("a", log, waits=waits, asked=answer),
        Failing("b", log, waits=waits),
        Failing("c", log, waits=waits),
    )
    assert result is answer and not fetched
    assert log[:2] == ["request a", "exception c: a"]
    assert log[2:4] == ["exception b: a", "exception a: a"]
    assert log[4:] == ["response c", "response b", "response a"]


def test_an_exception_that_nobody_handles_is_raised_and_not_judged() -> None:
    judged: list[Exception] = []

    async def fetch(request: Request) -> Response:
        raise AssertionError

    def judge(request: Request, error: Exception) -> None:
        judged.append(error)

    chain = MiddlewareChain([Failing("a", [], waits=False)], get_crawler(), judge)
    with pytest.raises(ValueError, match="a"):
        asyncio.run(chain.download(Request(URL), fetch))
    assert not judged


def test_middlewares_that_want_the_spider_get_it() -> None:
    result, _ = download(Older())  # type: ignore[arg-type]
    assert isinstance(result, Response) and result.flags == ["None"]
