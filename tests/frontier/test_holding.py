"""Backpressure: a worker whose stores are full leases nothing, reports it, and continues by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.frontier.consumer import Consumer, page_with
from webcrawl.crawler.report.displays import plain_line
from webcrawl.frontier import Crawl, Frontier
from webcrawl.frontier.figures import figures
from webcrawl.stores.backpressure import Backpressure
from webcrawl.worker.membership import Membership

PAGES = [f"http://h{n % 5}.test/{n}" for n in range(400)]
FULL = "0 MB are free"


async def test_a_worker_releases_its_hosts_and_continues_when_there_is_room(
    frontier: Frontier, caplog: pytest.LogCaptureFixture
) -> None:
    backpressure = Backpressure()
    consumer = Consumer(
        frontier, lambda url: page_with(PAGES[1:] if url.path == "/0" else ()), backpressure=backpressure
    )
    crawl = consumer.crawl
    consumer.start(PAGES[0])
    await consumer.until(lambda: len(consumer.fetched) > 20)
    backpressure.shortage = FULL
    async with asyncio.timeout(60):
        while not await crawl.workers.holding() or (await frontier.counts()).leased:
            await asyncio.sleep(0.02)
    assert await crawl.workers.holding() == {"w1": FULL}
    assert plain_line(await figures(frontier, crawl), 0.0).startswith(f"holding: {FULL}; ")
    before = len(consumer.fetched)
    await asyncio.sleep(0.5)
    assert len(consumer.fetched) == before < len(PAGES)
    assert consumer.worker.finished is None
    backpressure.shortage = ""
    assert await consumer.end() == "finished"
    assert set(consumer.fetched) == set(PAGES)
    assert max(consumer.fetched.values()) == 1
    assert await crawl.workers.holding() == {}
    messages = [record.message for record in caplog.records]
    assert [f"({FULL}): holding" in line or "again" in line for line in messages] == [True, True]


async def test_an_empty_crawl_ends_although_the_stores_are_full(frontier: Frontier) -> None:
    backpressure = Backpressure()
    backpressure.shortage = FULL
    consumer = Consumer(frontier, lambda url: page_with(), backpressure=backpressure)
    assert await consumer.run() == "finished"
    assert await consumer.crawl.workers.holding() == {}, "a worker that left is not listed"


async def test_workers_with_room_serve_the_hosts_meanwhile(frontier_of: Callable[..., Frontier]) -> None:
    backpressure = Backpressure()
    backpressure.shortage = FULL
    full = Consumer(
        frontier_of(worker="full", lease_seconds=3.0), lambda url: page_with(), backpressure=backpressure
    )
    full.start(*PAGES)
    async with asyncio.timeout(60):
        while not await full.crawl.workers.holding():
            await asyncio.sleep(0.02)
    other = Consumer(frontier_of(worker="other", lease_seconds=3.0), lambda url: page_with())
    await other.run()
    assert set(other.fetched) == set(PAGES)
    assert not full.fetched
    await full.stop()


async def test_each_worker_keeps_its_share_when_all_are_full(frontier: Frontier) -> None:
    crawls = [Crawl(frontier.engine, frontier.keys, name) for name in ("a", "b")]
    for crawl in crawls:
        await crawl.workers.beat()
        await crawl.workers.hold(FULL)
    members = [Membership(crawl, 64) for crawl in crawls]
    for member in members:
        await member.update()
    shares = [member.served() for member in members]
    assert all(shares)
    assert sorted(shares[0] + shares[1]) == list(range(64))
    # the next heartbeat of another worker drops a dead one
    await crawls[0].workers.leave()
    assert await crawls[1].workers.holding() == {"b": FULL}
