"""Hosts with the same name share their turns: delay, back-off, and at most one lease (POLITENESS_UNIT)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from redis import Redis

from tests.frontier.pages import all_done, page, past, urls_of
from webcrawl.errors import ConfigurationError
from webcrawl.frontier import Crawl, Frontier, Lease

Frontiers = Callable[..., Frontier]

PLAIN, SAFE, PORT = "http://a.test", "https://a.test", "http://a.test:8080"


def by_origin(frontier: Frontier) -> Frontier:
    return replace(frontier, keys=replace(frontier.keys, unit="origin"))


async def test_one_host_of_a_name_is_leased_at_a_time_and_the_others_follow_at_once(
    frontier: Frontier,
) -> None:
    await frontier.add([page(f"{host}/{n}") for host in (PLAIN, SAFE, PORT) for n in range(2)])
    order = []
    while leases := await frontier.lease(9, 9):
        (lease,) = leases
        assert await frontier.lease(9, 9) == []
        order.append(lease.host)
        await frontier.release(lease, all_done(lease))
        await past(frontier.engine)
    assert sorted(order) == sorted({PLAIN, SAFE, PORT})


async def test_hosts_of_a_name_wait_for_the_pause_of_each_other(frontier: Frontier, valkey: Redis) -> None:
    await frontier.add([page(f"{PLAIN}/1"), page(f"{SAFE}/1")])
    (lease,) = await frontier.lease(9, 9)
    assert await frontier.lease(9, 9) == []
    await frontier.release(lease, all_done(lease), pause=3600)
    assert await frontier.lease(9, 9) == []
    for host in (PLAIN, SAFE, PORT):
        assert 3500 < (await frontier.host(host)).waits <= 3600
    assert not valkey.exists(frontier.keys.queue(frontier.keys.shard(PLAIN))[0] + "behind")


async def test_a_host_gets_no_further_urls_while_another_of_its_name_waits(frontier: Frontier) -> None:
    await frontier.add([page(f"{PLAIN}/{n}") for n in range(4)])
    (lease,) = await frontier.lease(9, 1)
    more = await frontier.acknowledge(lease, all_done(lease), more=1)
    assert [url.path for url in more or []] == ["/1"]
    await frontier.add([page(f"{SAFE}/1")])
    assert await frontier.lease(9, 1) == []
    assert await frontier.acknowledge(lease, all_done(replace(lease, urls=more or [])), more=1) == []
    await frontier.release(lease)
    await past(frontier.engine)
    (other,) = await frontier.lease(9, 1)
    assert other.host == SAFE, "the host that waited comes first"


async def test_failures_of_one_host_are_not_those_of_its_name(frontier: Frontier) -> None:
    await frontier.add([page(f"{host}/{n}") for host in (PORT, PLAIN) for n in range(2)])
    for _ in range(2):
        lease = await lease_of(frontier, PORT)
        lease.failures = 3
        await frontier.release(lease)
        await past(frontier.engine)
        good = await lease_of(frontier, PLAIN)
        assert good.failures == 0
        await frontier.release(good)
        await past(frontier.engine)
    assert ((await frontier.host(PORT)).failures, (await frontier.host(PLAIN)).failures) == (3, 0)


async def lease_of(frontier: Frontier, host: str) -> Lease:
    """Lease this host; others are returned."""
    while True:
        for lease in await frontier.lease(1, 9):
            if lease.host == host:
                return lease
            await frontier.release(lease)
            await past(frontier.engine)


async def test_an_expired_lease_is_reaped_before_another_host_of_the_name_is_leased(
    frontier_of: Frontiers,
) -> None:
    frontier = frontier_of(lease_seconds=0.05)
    await frontier.add([page(f"{PLAIN}/1"), page(f"{SAFE}/1")])
    (lease,) = await frontier.lease(9, 9)
    await past(frontier.engine, 0.3)
    assert await frontier.lease(9, 9) == []
    assert await frontier.reap(delay=3600.0) == (1, 0)
    await past(frontier.engine, 0.3)
    assert await frontier.lease(9, 9) == [], "the worker may just have asked the name"
    assert (await frontier.host(SAFE)).waits > 3500
    assert lease.host in (PLAIN, SAFE)


async def test_with_origins_each_host_has_its_own_turns(frontier: Frontier) -> None:
    frontier = by_origin(frontier)
    await frontier.add([page(f"{host}/1") for host in (PLAIN, SAFE, PORT)])
    leases = await frontier.lease(9, 9)
    assert sorted(urls_of(leases)) == sorted(f"{host}/1" for host in (PLAIN, SAFE, PORT))


async def test_other_hosts_are_leased_while_those_of_a_name_wait(frontier: Frontier) -> None:
    others = [f"https://b{n}.test" for n in range(20)]
    await frontier.add([page(f"{host}/1") for host in (*others, PLAIN, SAFE, PORT)])
    leased = {lease.host for lease in await frontier.lease(99, 9)}
    assert set(others) < leased and len(leased) == 21


async def test_a_crawl_keeps_its_unit_and_so_do_the_others_of_its_engine(frontier: Frontier) -> None:
    crawl = Crawl(frontier.engine, frontier.keys, "w1")
    await crawl.begin()
    for name in (frontier.keys.crawl, "another"):
        other = Crawl(frontier.engine, replace(frontier.keys, crawl=name, unit="origin"), "w2")
        with pytest.raises(
            ConfigurationError, match="POLITENESS_UNIT is origin, but crawl .* was begun with name"
        ):
            await other.begin()
    assert await crawl.begun_with() == frontier.keys


async def test_a_crawl_that_was_begun_with_origins_is_continued_with_origins_only(frontier: Frontier) -> None:
    old = Crawl(frontier.engine, by_origin(frontier).keys, "w1")
    await old.begin()
    with pytest.raises(ConfigurationError, match="set it to origin"):
        await Crawl(frontier.engine, frontier.keys, "w1").begin()
    assert await old.begin()
