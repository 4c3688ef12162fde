"""Paused crawls, and the page limit of a host as a worker applies it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tests.frontier.consumer import Consumer, page_with
from webcrawl.frontier import Frontier, HostLimits

Frontiers = Callable[..., Frontier]

PAGES = [f"http://h{n % 5}.test/{n}" for n in range(400)]


async def test_a_paused_crawl_rests_and_then_continues(frontier: Frontier) -> None:
    consumer = Consumer(frontier, lambda url: page_with(PAGES[1:] if url.path == "/0" else ()))
    crawl = consumer.crawl
    await crawl.pause()
    consumer.start(PAGES[0])
    await asyncio.sleep(0.5)
    assert not consumer.fetched
    assert consumer.worker.finished is None, "a paused crawl is not finished"
    await crawl.resume()
    assert await consumer.end() == "finished"
    assert set(consumer.fetched) == set(PAGES)
    assert max(consumer.fetched.values()) == 1


async def test_a_paused_worker_releases_its_hosts(frontier: Frontier) -> None:
    consumer = Consumer(frontier, lambda url: page_with(PAGES[1:] if url.path == "/0" else ()))
    consumer.start(PAGES[0])
    await consumer.crawl.pause()
    async with asyncio.timeout(60):
        while not consumer.worker.heartbeat.paused or (await frontier.counts()).leased:
            await asyncio.sleep(0.05)
    await consumer.crawl.resume()
    assert await consumer.end() == "finished"
    assert set(consumer.fetched) == set(PAGES)


async def test_a_worker_respects_the_page_limit_of_a_host(frontier_of: Frontiers) -> None:
    frontier = frontier_of(host_limits=HostLimits(pages=7))
    consumer = Consumer(frontier, lambda url: page_with(PAGES[1:] if url.path == "/0" else ()))
    assert await consumer.run(PAGES[0]) == "finished"
    hosts = [url.rpartition("/")[0] for url in consumer.fetched]
    assert {host: hosts.count(host) for host in hosts} == {f"http://h{n}.test": 7 for n in range(5)}
    assert (await frontier.counts()).parked == 400 - 35
