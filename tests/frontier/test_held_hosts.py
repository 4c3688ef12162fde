"""Delays and blocks that an operator sets while a worker holds the host."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from redis import Redis

from tests.frontier.consumer import Consumer, page_with
from tests.frontier.pages import all_done, page, past
from webcrawl.config import PolitenessConfig
from webcrawl.frontier import Frontier

Frontiers = Callable[..., Frontier]

HOST, OTHER = "http://a.test", "http://b.test"
SOON = 0.05
LOOK_AGAIN = 0.2
"""Seconds until a crawl looks again for a host that was held."""


async def test_extend_returns_changed_delays(frontier: Frontier) -> None:
    await frontier.add([page(f"{HOST}/1"), page(f"{OTHER}/1")])
    leases = {lease.host: lease for lease in await frontier.lease(10, 10)}
    assert (leases[HOST].delay, leases[OTHER].delay) == (None, None)
    await frontier.set_delay(HOST, 2.5)
    assert await frontier.extend(list(leases.values())) == set()
    assert (leases[HOST].delay, leases[OTHER].delay) == (2.5, None)
    await frontier.set_delay(HOST, None)
    await frontier.set_delay(OTHER, 0.0)
    await frontier.block(OTHER)
    assert await frontier.extend(list(leases.values())) == {OTHER}
    assert (leases[HOST].delay, leases[OTHER].delay) == (None, None)


async def test_a_worker_applies_a_changed_delay_during_its_lease(frontier_of: Frontiers) -> None:
    frontier = frontier_of(lease_seconds=4.0)
    await frontier.add([page(f"{HOST}/{n}") for n in range(2000)])
    politeness = PolitenessConfig(delay=0.02)
    consumer = Consumer(frontier, lambda url: page_with(), politeness=politeness)
    consumer.start()
    await consumer.until(lambda: consumer.fetched.total() > 3)
    await frontier.set_delay(HOST, 3600)
    await consumer.until(lambda: consumer.turns.turn(HOST).gap == 3600)
    fetched = consumer.fetched.total()
    await asyncio.sleep(0.3)
    assert consumer.fetched.total() <= fetched + 1, "one request may have been in flight"
    assert (await frontier.host(HOST)).leased
    await frontier.set_delay(HOST, None)
    await consumer.until(lambda: consumer.fetched.total() > fetched + 3)
    assert consumer.turns.turn(HOST).gap == 0.02
    await consumer.stop()


async def test_a_blocked_host_is_not_leased_while_its_worker_may_not_know(
    frontier_of: Frontiers, valkey: Redis
) -> None:
    ours, another, theirs = frontier_of(), frontier_of(worker="w2"), frontier_of("theirs")
    for crawl in (ours, theirs):
        await crawl.add([page(f"{HOST}/{n}") for n in range(3)])
    (lease,) = await ours.lease(10, 2)
    await ours.block(HOST)
    assert await theirs.lease(10, 10) == []
    await ours.unblock(HOST)
    assert await another.lease(10, 10) == []
    assert await ours.extend([lease]) == {HOST}
    await past(ours.engine, LOOK_AGAIN)
    assert await another.lease(10, 10) == await theirs.lease(10, 10) == []
    assert valkey.pttl(ours.keys.host(HOST)) > 0, "the record must expire"


@pytest.mark.parametrize("crawl", ["crawl", "theirs"])
async def test_a_blocked_host_is_free_when_its_lease_would_have_expired(
    frontier_of: Frontiers, crawl: str
) -> None:
    ours, next_one = frontier_of(lease_seconds=SOON), frontier_of(crawl, worker="w2")
    await ours.add([page(f"{HOST}/1")])
    await next_one.add([page(f"{HOST}/1")])
    (lease,) = await ours.lease(10, 10)
    lease.gap = SOON
    await ours.acknowledge(lease)
    await ours.block(HOST)
    held = float(await ours.engine.client.hget(ours.keys.host(HOST), "held"))
    await ours.unblock(HOST)
    await past(ours.engine, 2 * SOON)
    (lease,) = await next_one.lease(10, 10)
    now = await ours.engine.client.time()
    assert now[0] * 1000 + now[1] / 1000 > held


async def test_a_release_of_a_blocked_host_sets_its_pause_and_failures(frontier_of: Frontiers) -> None:
    ours, theirs = frontier_of(), frontier_of("theirs")
    for crawl in (ours, theirs):
        await crawl.add([page(f"{HOST}/1"), page(f"{OTHER}/1")])
    leases = {lease.host: lease for lease in await ours.lease(10, 10)}
    for host, pause in ((HOST, 0.0), (OTHER, 3600.0)):
        await ours.block(host)
        leases[host].failures = 2
        assert not await ours.release(leases[host], all_done(leases[host]), pause=pause)
        assert not await ours.release(leases[host], pause=7200.0), "a second release has no effect"
    await past(ours.engine)
    assert [(lease.host, lease.failures) for lease in await theirs.lease(10, 10)] == [(HOST, 2)]
    assert 3500 < (await theirs.host(OTHER)).waits <= 3600
    counts = await ours.counts()
    assert (counts.refused, counts.done, counts.parked) == (4, 0, 2)


async def test_a_pause_is_only_lengthened(frontier: Frontier) -> None:
    await frontier.add([page(f"{HOST}/{n}") for n in range(2)])
    (lease,) = await frontier.lease(1, 1)
    await frontier.release(lease, all_done(lease), pause=3600)
    for seconds, most in ((0, 3600), (60, 3600), (7200, 7200), (10, 7200)):
        await frontier.block_until(HOST, seconds)
        await past(frontier.engine)
        assert await frontier.lease(10, 10) == []
        assert most - 100 < (await frontier.host(HOST)).waits <= most
