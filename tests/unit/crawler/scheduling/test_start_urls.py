"""Start URLs popped from a spider's list exist nowhere else, so they are crawled even if the spider ends."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

from scrapy import Request, Spider
from scrapy.crawler import Crawler

from webcrawl.crawler.scheduling.start_urls import StartURLFeeding
from webcrawl.crawler.session import Session
from webcrawl.worker.worker import Worker


class Listed(Spider):
    """A spider with an in-process list; reading it blocks until `free` is set."""

    name = "listed"
    redis_key = "listed:start_urls"

    def __init__(self) -> None:
        super().__init__()
        self.list = [f"http://a.test/{n}" for n in range(4)]
        self.reading, self.free = threading.Event(), threading.Event()

    def make_request_from_data(self, data: str) -> Request:
        return Request(data)

    def next_requests(self) -> Any:
        data, self.list = self.list, []
        self.reading.set()
        assert self.free.wait(60)
        for one in data:
            yield from cast("list[Request]", self.make_request_from_data(one))


class Backlog:
    """Stands for the worker's discovered URLs, of which `backlog` are unsent."""

    total = sent = 0

    def __init__(self, backlog: int) -> None:
        self._backlog = backlog

    def __len__(self) -> int:
        return self._backlog


def feeding_of(spider: Listed, crawled: list[str], *, backlog: int = 0) -> StartURLFeeding:
    engine = SimpleNamespace(crawl=lambda request: crawled.append(request.url))
    crawler = cast("Crawler", SimpleNamespace(spider=spider, engine=engine))
    keys = SimpleNamespace(crawl="listed")
    connection = SimpleNamespace(keys=keys, worker="w1")
    scope = SimpleNamespace(admit_seeds=AsyncMock())
    session = cast("Session", SimpleNamespace(connection=connection, scope=scope))
    worker = cast(
        "Worker", SimpleNamespace(heartbeat=SimpleNamespace(is_registered=True), intake=Backlog(backlog))
    )
    return StartURLFeeding(crawler, session, worker)


def test_batch_being_read_is_crawled_when_the_spider_ends() -> None:
    spider, crawled = Listed(), list[str]()
    urls = spider.list

    async def end_while_reading() -> None:
        feeding = feeding_of(spider, crawled)
        assert await asyncio.to_thread(spider.reading.wait, 10)
        end = asyncio.create_task(feeding.end())
        await asyncio.sleep(0)
        spider.free.set()
        await asyncio.wait_for(end, 60)

    asyncio.run(end_while_reading())
    assert crawled == urls


def test_nothing_is_read_while_the_backlog_is_full() -> None:
    spider, crawled = Listed(), list[str]()
    spider.free.set()

    async def end_at_once() -> None:
        feeding = feeding_of(spider, crawled, backlog=10_000)
        await asyncio.sleep(0)
        await asyncio.wait_for(feeding.end(), 60)

    asyncio.run(end_at_once())
    assert (len(spider.list), crawled) == (4, [])
