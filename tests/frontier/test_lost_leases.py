"""Lost replies to lease calls: the worker learns about its leases at the next call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from tests.frontier.consumer import Consumer, page_with
from tests.frontier.losing import Losing
from tests.frontier.pages import page, tree
from webcrawl.engine.keys import Keys
from webcrawl.errors import EngineUnavailable
from webcrawl.frontier import Frontier

NEVER = 10**9
HOSTS = [f"http://h{n}.test" for n in range(6)]


class LosingLeases(Losing):
    scripts = ("lease", "regain")


@pytest.fixture
def losing(redis_url: str, runner: asyncio.Runner) -> Iterator[LosingLeases]:
    engine = LosingLeases(redis_url)
    yield engine
    runner.run(engine.close())


async def lease_with_lost_reply(frontier: Frontier, engine: Losing, urls: int) -> None:
    """Lease every ready host, but lose the reply."""
    engine.every = 1
    with pytest.raises(EngineUnavailable):
        await frontier.lease(100, urls)
    engine.every = NEVER


async def test_a_repeated_lease_call_returns_leases_of_lost_replies(
    losing: LosingLeases, frontier_of: Callable[..., Frontier]
) -> None:
    one, other = Frontier(losing, Keys("crawl", 4), "w1"), frontier_of(worker="w2")
    await one.add([page(f"{host}/{n}") for host in HOSTS for n in range(3)])
    await lease_with_lost_reply(one, losing, 2)
    assert await other.lease(100, 2) == []
    leases = await one.lease(1, 1)
    assert sorted(lease.host for lease in leases) == HOSTS
    assert {(url.index, url.path, url.returns) for lease in leases for url in lease.urls} == {
        (1, "/0", 0),
        (2, "/1", 0),
    }
    assert (await one.counts()).leased == 12
    assert await one.regain() == await one.lease(100, 1) == []
    for lease in leases:
        assert await one.release(lease)
    assert len(await other.lease(100, 2)) == 6


async def test_reaped_leases_are_not_returned_again(losing: LosingLeases) -> None:
    one = Frontier(losing, Keys("crawl", 4), "w1")
    await one.add([page(f"{host}/1") for host in HOSTS])
    await lease_with_lost_reply(one, losing, 1)
    await one.reap(everything=True)
    assert await one.regain() == []


async def test_no_lease_expires_because_of_lost_replies(losing: LosingLeases) -> None:
    urls, links = tree(hosts=20, pages=200)
    losing.every = 3
    frontier = Frontier(losing, Keys("crawl", 4), "w1", lease_seconds=600.0)
    consumer = Consumer(frontier, lambda url: page_with(links[url.url]), lease_hosts=5, lease_urls=3)
    assert await consumer.run(urls[0]) == "finished"
    assert losing.calls > 10
    assert (len(consumer.fetched), consumer.fetched.total()) == (200, 200)
    counts = await frontier.counts()
    assert (counts.done, counts.reaped, counts.refused) == (200, 0, 0)


@pytest.mark.parametrize("how", ["leaves", "is paused"])
async def test_a_leaving_or_paused_worker_releases_leases_of_lost_replies(
    losing: LosingLeases, frontier_of: Callable[..., Frontier], how: str
) -> None:
    """The released URLs count no return."""
    one, other = Frontier(losing, Keys("crawl", 4), "w1", lease_seconds=600.0), frontier_of(worker="w2")
    await other.add([page(f"{host}/1") for host in HOSTS])
    losing.every = 1
    consumer = Consumer(one, lambda url: page_with())
    consumer.stopped = True
    consumer.start(seeding=True)
    await consumer.until(lambda: losing.calls > 0)
    assert (await other.counts()).leased > 0
    if how == "is paused":
        await consumer.crawl.pause()
    losing.every = NEVER
    if how == "leaves":
        await consumer.stop()
    async with asyncio.timeout(60):
        while (await other.counts()).leased:
            await asyncio.sleep(0.01)
    if how == "is paused":
        await consumer.stop()
    leases = await other.lease(100, 1)
    assert [(url.path, url.returns) for lease in leases for url in lease.urls] == [("/1", 0)] * 6
