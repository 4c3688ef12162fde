"""The frontier on a primary that sentinels watch: a failover loses nothing."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.crawls import scrapy
from tests.frontier.consumer import Consumer, page_with
from tests.frontier.pages import page, tree
from tests.ports import free_ports
from tests.sentinel import NAME, PASSWORD, LocalSentinels
from tests.terminator import terminating
from tests.unit.crawler.download.test_http_ways import Authority
from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.errors import ConfigurationError, EngineUnavailable
from webcrawl.frontier import Crawl, Frontier

HOST = "http://a.test"

Frontiers = Callable[..., Awaitable[Frontier]]


@pytest.fixture(scope="module")
def started() -> Iterator[LocalSentinels]:
    with LocalSentinels() as sentinels:
        yield sentinels


@pytest.fixture
def sentinels(started: LocalSentinels) -> LocalSentinels:
    """An empty primary with a replica, and three sentinels that agree."""
    started.settle()
    started.flush()
    return started


@pytest.fixture
def frontier_on(engine_at: Callable[..., Engine], sentinels: LocalSentinels) -> Frontiers:
    async def make(worker: str = "w1", **options: float) -> Frontier:
        engine = engine_at(sentinels.url)
        await engine.check()
        return Frontier(engine, Keys("crawl", 4), worker, **options)

    return make


async def test_a_crawl_survives_a_failover(
    frontier_on: Frontiers, sentinels: LocalSentinels, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the old primary is dead, so nothing needs to be waited for
    monkeypatch.setattr("webcrawl.engine.sentinel._FAILOVER_SECONDS", 0.5)
    urls, links = tree(hosts=100, pages=1500)
    frontier = await frontier_on(lease_seconds=8.0)
    consumer = Consumer(frontier, lambda url: page_with(links[url.url]))
    consumer.start(urls[0])
    await consumer.until(lambda: consumer.fetched.total() >= len(urls) // 3, 60.0)
    await asyncio.to_thread(sentinels.kill_primary)
    await consumer.until(lambda: consumer.worker.finished is not None, 60.0)
    await consumer.stop()
    assert set(consumer.fetched) == set(urls)
    counts = await frontier.counts()
    assert (counts.done, counts.open, counts.dead, counts.seen) == (len(urls), 0, 0, len(urls))
    again = consumer.fetched.total() - len(urls)
    assert again <= (await Crawl(frontier.engine, frontier.keys, "w1").totals()).get("settled_too_late", 0)


async def test_a_write_that_no_replica_confirms_fails(
    frontier_on: Frontiers, sentinels: LocalSentinels
) -> None:
    frontier = await frontier_on()
    await frontier.add([page(f"{HOST}/1")])
    replica = sentinels.replica
    replica.process.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(EngineUnavailable, match="no replica of the primary has confirmed"):
            await frontier.add([page(f"{HOST}/2")])
    finally:
        replica.process.send_signal(signal.SIGCONT)
    assert await frontier.engine.retry_until_available(lambda: frontier.add([page(f"{HOST}/2")])) == [False]


async def test_any_sentinel_that_answers_is_enough(
    frontier_on: Frontiers, engine_at: Callable[..., Engine], sentinels: LocalSentinels
) -> None:
    frontier = await frontier_on()
    await frontier.add([page(f"{HOST}/1")])
    dead = free_ports(1)[0]
    alive = sentinels.sentinels[1].port
    engine = engine_at(f"sentinel://:{PASSWORD}@127.0.0.1:{dead},127.0.0.1:{alive}/{NAME}")
    await engine.check()
    assert (await Frontier(engine, Keys("crawl", 4), "w2").counts()).queued == 1


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ((f"/{NAME}", "/other"), "watches no primary 'other'"),
        ((PASSWORD, "wrong"), "invalid username-password pair"),
    ],
)
async def test_a_url_that_the_sentinels_refuse_is_told(
    engine_at: Callable[..., Engine], sentinels: LocalSentinels, change: tuple[str, str], wrong: str
) -> None:
    with pytest.raises(EngineUnavailable, match=f"REDIS_URL .*{wrong}") as caught:
        await engine_at(sentinels.url.replace(*change)).check()
    assert PASSWORD not in str(caught.value)


async def test_several_servers_without_a_cluster_are_refused(
    engine_at: Callable[..., Engine], sentinels: LocalSentinels
) -> None:
    hosts = ",".join(f"127.0.0.1:{one.port}" for one in sentinels.servers)
    with pytest.raises(ConfigurationError, match="127.0.0.1:[0-9]+ belongs to no cluster"):
        await engine_at(f"redis://:{PASSWORD}@{hosts}").check()


async def test_commands_take_the_url(frontier_on: Frontiers, sentinels: LocalSentinels) -> None:
    frontier = await frontier_on()
    await Crawl(frontier.engine, frontier.keys, "w1").begin()
    await frontier.add([page(f"{HOST}/1")])
    words = ["status", "--json", "crawl", "-s", f"REDIS_URL={sentinels.url}", "-s", "FRONTIER_SHARDS=4"]
    shown = await asyncio.to_thread(scrapy, *words, timeout=60)
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)["queued"] == 1


async def test_sentinels_and_their_servers_are_reached_by_tls(
    engine_at: Callable[..., Engine],
    sentinels: LocalSentinels,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("webcrawl.engine.sentinel._FAILOVER_SECONDS", 0.5)
    authority, primary, replica = Authority(tmp_path, "127.0.0.1"), sentinels.primary, sentinels.replica
    ports = [one.port for one in (*sentinels.sentinels, primary, replica)]
    with terminating(authority.context, ports, rewrite=True) as fronts:
        hosts = ",".join(f"127.0.0.1:{fronts[one.port].port}" for one in sentinels.sentinels)
        url = f"rediss+sentinel://:{PASSWORD}@{hosts}/{NAME}/0?ssl_ca_certs="
        engine = engine_at(f"{url}{authority.file}")
        await engine.check()
        frontier = Frontier(engine, Keys("crawl", 4), "w1")
        assert await frontier.add([page(f"{HOST}/1")]) == [True]
        assert (fronts[primary.port].connections > 0, fronts[replica.port].connections) == (True, 0)
        await asyncio.to_thread(sentinels.kill_primary)
        assert (await engine.retry_until_available(frontier.counts)).queued == 1
        assert fronts[replica.port].connections, "its successor is reached by TLS as well"
        (tmp_path / "other").mkdir()
        other = Authority(tmp_path / "other", "127.0.0.1").file
        with pytest.raises(EngineUnavailable, match="certificate verify failed"):
            await engine_at(f"{url}{other}").check()


async def test_accepted_urls_survive_the_demotion_of_the_primary(
    frontier_on: Frontiers, sentinels: LocalSentinels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A demoted primary is told so only after ten seconds, and accepts writes until then."""
    frontier = await frontier_on()
    accepted, over = 0, False

    async def add_all() -> None:
        nonlocal accepted
        while not over:
            batch = [page(f"{HOST}/{n}") for n in range(accepted, accepted + 10)]
            await frontier.engine.retry_until_available(partial(frontier.add, batch))
            accepted += 10

    adding = asyncio.create_task(add_all())
    async with asyncio.timeout(60):
        while accepted < 500:
            await asyncio.sleep(0.002)
        before = await frontier.engine.servers()
        await asyncio.to_thread(sentinels.demote_primary)
        known = accepted
        while accepted < known + 500:
            await asyncio.sleep(0.002)
        over = True
        await adding
        monkeypatch.setattr("webcrawl.engine.sentinel._FAILOVER_SECONDS", 0.5)
        successor = await frontier_on("w2")
        assert await successor.engine.servers() != before
        assert (await successor.engine.retry_until_available(successor.counts)).queued == accepted
        assert await successor.engine.age() == float("inf")
