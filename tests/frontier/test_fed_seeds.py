"""A start URL from a list may be at an inner address, whichever worker fetches it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from redis import Redis
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.settings import Settings
from scrapy.statscollectors import StatsCollector
from scrapy_redis.spiders import RedisSpider

from tests.crawls import NO_NAMES
from webcrawl.crawler.crawl_settings import completed
from webcrawl.crawler.errors import RequestRefused
from webcrawl.crawler.scheduling.start_urls import StartURLFeeding
from webcrawl.crawler.session import Session
from webcrawl.engine.client import UNAVAILABLE
from webcrawl.middlewares.dns import DnsMiddleware
from webcrawl.worker.worker import Worker

LIST = "fed:start_urls"
NAMED, INVALID, OTHER = "http://127.0.0.1:8001/", "http://[/", "http://127.0.0.1:8002/"


class Fed(RedisSpider):  # type: ignore[misc]  # scrapy-redis has no types
    name = "fed"


@pytest.fixture
def crawler_of(redis_url: str, tmp_path: Path, runner: asyncio.Runner) -> Iterator[Callable[[], Crawler]]:
    """Makes idle crawlers of one crawl, and closes their sessions."""
    crawlers: list[Crawler] = []

    def make() -> Crawler:
        project = Settings()
        project.setmodule("settings.base")
        project.update({"DNS_SERVERS": [NO_NAMES], "REDIS_URL": redis_url, "DATA_DIR": str(tmp_path)})
        crawlers.append(Crawler(Fed, completed(project)))
        return crawlers[-1]

    yield make
    for crawler in crawlers:
        runner.run(Session.of(crawler).close())


class Reading:
    """A worker that reads the list, with an engine that keeps what it should crawl."""

    def __init__(self, crawler: Crawler) -> None:
        self.urls: asyncio.Queue[str] = asyncio.Queue()
        crawler.stats = StatsCollector(crawler)
        crawler.spider = cast(Spider, Fed.from_crawler(crawler))
        crawler.engine = cast(Any, SimpleNamespace(crawl=lambda request: self.urls.put_nowait(request.url)))
        worker = SimpleNamespace(heartbeat=SimpleNamespace(is_registered=True), intake=Discovered())
        self.feeding = StartURLFeeding(crawler, Session.of(crawler), cast(Worker, worker))


class Discovered:
    """The discovered URLs of a worker that has sent all of them."""

    total = sent = 0

    def __len__(self) -> int:
        return 0


async def test_another_worker_may_fetch_a_start_url_at_an_inner_address(
    crawler_of: Callable[[], Crawler], valkey: Redis
) -> None:
    reader, other = crawler_of(), crawler_of()
    for each in (reader, other):
        await Session.of(each).open()
    valkey.rpush(LIST, INVALID, NAMED)
    reading = Reading(reader)
    assert await asyncio.wait_for(reading.urls.get(), 60) == NAMED
    middleware = DnsMiddleware.from_crawler(other)
    await middleware.process_request(Request(NAMED))
    with pytest.raises(RequestRefused):
        await middleware.process_request(Request(OTHER))
    await reading.feeding.end()


async def test_start_urls_stay_claimed_until_their_hosts_are_known(
    crawler_of: Callable[[], Crawler], valkey: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that is killed meanwhile must not lose them, and without the engine they are crawled later."""
    await Session.of(crawler := crawler_of()).open()
    named, free = asyncio.Event(), asyncio.Event()

    async def wait_for_engine(urls: Any) -> None:
        named.set()
        await free.wait()
        raise UNAVAILABLE[0]("gone")

    monkeypatch.setattr(Session.of(crawler).scope, "admit_seeds", wait_for_engine)
    valkey.rpush(LIST, NAMED)
    reading = Reading(crawler)
    await asyncio.wait_for(named.wait(), 60)
    await reading.feeding.settle()
    assert len(valkey.keys("*claimed*")) == 2
    free.set()
    assert await asyncio.wait_for(reading.urls.get(), 60) == NAMED
    await reading.feeding.end()
    await reading.feeding.settle()
    assert valkey.keys("*claimed*") == []


async def test_the_idle_handler_leaves_the_list_to_the_worker(
    crawler_of: Callable[[], Crawler], valkey: Redis
) -> None:
    await Session.of(crawler := crawler_of()).open()
    reading = Reading(crawler)
    valkey.rpush(LIST, NAMED)
    cast(Any, crawler.spider).schedule_next_requests()
    assert reading.urls.empty()
    assert await asyncio.wait_for(reading.urls.get(), 60) == NAMED
    await reading.feeding.end()
