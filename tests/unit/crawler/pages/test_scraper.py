"""Scrapy's scraper with less around a page: whatever spiders and middlewares do, the same comes of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from hypothesis import example, given, strategies as st
from scrapy import Request, Spider
from scrapy.core.scraper import Scraper as ScrapyScraper
from scrapy.core.spidermw import SpiderMiddlewareManager
from scrapy.exceptions import DropItem
from scrapy.http import Response
from scrapy.spidermiddlewares.base import BaseSpiderMiddleware
from scrapy.spidermiddlewares.depth import DepthMiddleware
from scrapy.spidermiddlewares.httperror import HttpErrorMiddleware
from scrapy.spidermiddlewares.referer import RefererMiddleware
from scrapy.spidermiddlewares.start import StartSpiderMiddleware
from scrapy.utils.test import get_crawler

from webcrawl.crawler.pages.scraper import Scraper, merge_middlewares

URL = "http://example.com/"


class Plain(BaseSpiderMiddleware):
    """Marks what passes it, leaves out what ends in its own number, fails at what says so."""

    def __init__(self, number: int) -> None:
        self.number = number

    def get_processed_item(self, item: Any, response: Response | None) -> Any:
        if item["text"].endswith(f"drop {self.number}"):
            return None
        if item["text"].endswith(f"fail {self.number}"):
            raise ValueError(item["text"])
        return {**item, "seen": [*item.get("seen", []), self.number]}

    def get_processed_request(self, request: Request, response: Response | None) -> Request:
        return request.replace(url=f"{request.url}{self.number}")


class Rescuing(Plain):
    """Also has something to yield where another one failed."""

    def process_spider_exception(self, response: Response, exception: Exception) -> list[Any] | None:
        return [{"text": f"rescued by {self.number}"}] if isinstance(exception, ValueError) else None


class Own:
    """Goes through the output in a way of its own, which comes to the same."""

    def __init__(self, number: int) -> None:
        self.plain = Plain(number)

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        async for one in result:
            if (one := self.plain._get_processed(one, response)) is not None:
                yield one


class Watching:
    """Has nothing to do with the output."""

    def __init__(self, number: int) -> None:
        self.number = number

    def process_spider_exception(self, response: Response, exception: Exception) -> None:
        exception.add_note(f"watched by {self.number}")


NUMBERS = st.integers(0, 5)
KINDS = st.sampled_from([Plain, Plain, Plain, Rescuing, Own, Watching, "scrapy"])
TEXTS = st.one_of(
    st.just("item"),
    NUMBERS.map("drop {}".format),
    NUMBERS.map("fail {}".format),
    st.just("request"),
    st.just("fail"),
)


def middlewares(kinds: list[Any]) -> list[Any]:
    """One of each kind in turn; for "scrapy" one of Scrapy's own."""
    crawler = get_crawler(settings_dict={"DEPTH_LIMIT": 3})
    own = [StartSpiderMiddleware, HttpErrorMiddleware, RefererMiddleware, DepthMiddleware]
    made = []
    for number, kind in enumerate(kinds):
        made.append(own[number % 4].from_crawler(crawler) if kind == "scrapy" else kind(number))
    return made


def output(texts: list[str]) -> Iterator[Any]:
    for number, text in enumerate(texts):
        if text == "fail":
            raise ValueError("the spider fails")
        yield Request(f"{URL}{number}/") if text == "request" else {"text": f"{number} {text}"}


def passed(manager: SpiderMiddlewareManager, texts: list[str], depth: int | None) -> list[Any]:
    """What comes out of a chain, and what is raised at last."""

    async def run() -> list[Any]:
        request = Request(URL, meta={} if depth is None else {"depth": depth})
        response = Response(URL, request=request)

        async def scrape(*_: Any) -> Any:
            return output(texts)

        came: list[Any] = []
        try:
            async for one in await manager.scrape_response_async(scrape, response, request):
                if isinstance(one, Request):
                    came.append((one.url, one.meta, one.headers.get("Referer")))
                else:
                    came.append(one)
        except ValueError as error:
            came.append((str(error), getattr(error, "__notes__", [])))
        return [*came, response.meta]

    return asyncio.run(run())


@example([Plain, Own, Plain], ["item"], 1)
@example([Plain, Watching, Plain], ["fail 0", "fail 2"], 1)
@given(st.lists(KINDS, max_size=6), st.lists(TEXTS, max_size=6), st.sampled_from([None, 1, 3]))
def test_merged_middlewares_do_what_each_did(kinds: list[Any], texts: list[str], depth: int | None) -> None:
    scrapys, merged = (SpiderMiddlewareManager(*middlewares(kinds), crawler=get_crawler()) for _ in range(2))
    merge_middlewares(merged)
    assert passed(merged, texts, depth) == passed(scrapys, texts, depth)


def test_neighbours_become_one() -> None:
    """Depth and Referer, and what a project adds of the same kind; the mark of start requests is none of it."""
    manager = SpiderMiddlewareManager(*middlewares(["scrapy"] * 4 + [Plain, Plain]), crawler=get_crawler())
    merge_middlewares(manager)
    assert [method is not None for method in manager.methods["process_spider_output"]] == [
        *(False, False, False, True),
        *(False, False),
    ]


class Pipelines:
    """Notes how many items are in work at a time, and what became of them."""

    def __init__(self) -> None:
        self.in_work = self.most = 0
        self.done: list[str] = []

    async def process_item_async(self, item: Any) -> Any:
        self.in_work += 1
        self.most = max(self.most, self.in_work)
        await asyncio.sleep(0.001 * item.get("slow", 0))
        self.in_work -= 1
        self.done.append(item["text"])
        if "drop" in item["text"]:
            raise DropItem
        if "fail" in item["text"]:
            raise ValueError(item["text"])
        return item


def scraped(result: Any, at_once: int) -> tuple[Pipelines, list[str], dict[str, Any]]:
    """What became of a response's output: in the pipelines, of its requests, in the statistics."""
    crawled: list[str] = []

    async def run() -> tuple[Pipelines, list[str], dict[str, Any]]:
        crawler = get_crawler(Spider, {"CONCURRENT_ITEMS": at_once, "LOG_ENABLED": False})
        crawler.spider = crawler._create_spider("some")
        crawler.engine = type("Engine", (), {"crawl": lambda self, request: crawled.append(request.url)})()
        scraper = ScrapyScraper(crawler)
        Scraper.adopt(scraper, 1_000_000)
        pipelines = scraper.itemproc = Pipelines()  # type: ignore[assignment]
        request = Request(URL)
        await scraper.handle_spider_output_async(result, request, Response(URL, request=request))
        assert scraper.slot is not None
        assert scraper.slot.itemproc_size == 0
        return pipelines, crawled, crawler.stats.get_stats()

    return asyncio.run(run())


@pytest.mark.parametrize("at_once", [1, 3])
def test_items_are_in_work_together_and_all_waited_for(at_once: int) -> None:
    items = [{"text": str(number), "slow": 9 - number} for number in range(9)]
    pipelines, *_ = scraped(iter(items), at_once)
    assert pipelines.most == at_once
    assert sorted(pipelines.done) == [str(number) for number in range(9)]


async def asynchronous(texts: list[str]) -> AsyncIterator[Any]:
    for one in output(texts):
        yield one


@pytest.mark.parametrize("turned", [output, asynchronous])
def test_what_fails_ends_nothing_else(turned: Any) -> None:
    texts = ["item", "fail 1", "drop 2", "request", "item", "fail", "item"]
    pipelines, crawled, stats = scraped(turned(texts), 4)
    assert pipelines.done == ["0 item", "1 fail 1", "2 drop 2", "4 item"]
    assert crawled == [f"{URL}3/"]
    assert stats["spider_exceptions/ValueError"] == 1


def test_items_are_waited_for_when_a_request_is_refused() -> None:
    """Else their page would be done before it is stored."""
    done: list[str] = []

    def crawl(self: Any, request: Request) -> None:
        raise RuntimeError("no open spider")

    async def run() -> None:
        crawler = get_crawler(Spider, {"LOG_ENABLED": False})
        crawler.spider = crawler._create_spider("some")
        crawler.engine = type("Engine", (), {"crawl": crawl})()
        scraper = ScrapyScraper(crawler)
        Scraper.adopt(scraper, 1_000_000)
        pipelines = scraper.itemproc = Pipelines()  # type: ignore[assignment]
        request = Request(URL)
        made = iter([{"text": "slow", "slow": 5}, Request(URL)])
        with pytest.raises(RuntimeError, match="no open spider"):
            await scraper.handle_spider_output_async(made, request, Response(URL, request=request))
        done.extend(pipelines.done)

    asyncio.run(run())
    assert done == ["slow"]
