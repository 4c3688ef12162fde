"""What is known of a spider before it is made: arguments that it needs, or does not take, and its seeds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import scrapy
from scrapy.crawler import Crawler

from tests.cases import cases
from webcrawl.errors import WrongJob
from webcrawl.jobs.definition import Definition
from webcrawl.jobs.spider_arguments import check_start
from webcrawl.spiders.broad import BroadSpider


class Shop(scrapy.Spider):
    """Needs one argument, and takes another."""

    name = "shop"

    def __init__(self, category: str, page: str = "1") -> None:
        super().__init__()


class Open(scrapy.Spider):
    """Takes everything."""

    name = "open"

    def __init__(self, *args: Any, language: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)


class Made(Shop):
    """Gets its argument elsewhere."""

    name = "made"

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Made:
        return super().from_crawler(crawler, "books")


class Starting(BroadSpider):
    """Begins without seeds."""

    name = "starting"

    async def start(self) -> AsyncIterator[Any]:
        yield scrapy.Request("https://a.example/")


class Seeded(BroadSpider):
    """Has seeds of its own."""

    name = "seeded"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(seeds="https://a.example/", **kwargs)


class Follower(BroadSpider):
    """Only reads pages in another way."""

    name = "follower"


def job(**more: Any) -> Definition:
    return Definition.of({"name": "news", "cron": "0 6 * * *", "spider": "x", **more})


@cases(
    ("spider", "more", "message"),
    [
        (Shop, {}, "arguments: category is missing: spider 'shop' requires it"),
        (
            Shop,
            {"arguments": {"category": "a", "pages": 2}},
            r"arguments\.pages: spider 'shop' does not take 'pages'; it takes category, page",
        ),
        (
            Shop,
            {"arguments": {"category": "a"}, "seeds": ["https://a.example/"]},
            "seeds: spider 'shop' does",
        ),
        (Open, {"arguments": {"x": 1}}, "arguments: language is missing"),
        (Follower, {}, "seeds: missing: spider 'follower'"),
        (Follower, {"arguments": {"scop": "host"}, "seeds": ["https://a.example/"]}, "did you mean 'scope'"),
    ],
)
def test_what_certainly_fails_is_refused(spider: type[scrapy.Spider], more: Any, message: str) -> None:
    with pytest.raises(WrongJob, match=message):
        check_start(spider, job(**more))


@cases(
    ("spider", "more"),
    [
        (Shop, {"arguments": {"category": "a", "page": 2}}),
        (Open, {"arguments": {"language": "en", "more": 1}, "seeds": ["https://a.example/"]}),
        (Made, {}),
        (Made, {"arguments": {"anything": 1}}),
        (Starting, {}),
        (Seeded, {}),
        (Follower, {"arguments": {"seeds": "https://a.example/"}}),
        (Follower, {"seeds": {"url": "https://a.example/seeds.txt"}}),
        (scrapy.Spider, {"arguments": {"start_urls": "x"}}),
    ],
)
def test_what_may_run_is_accepted(spider: type[scrapy.Spider], more: Any) -> None:
    check_start(spider, job(**more))
