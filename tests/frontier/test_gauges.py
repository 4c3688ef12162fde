"""Hosts by state and level, URLs by level, and ages of leases, as metrics have them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from redis import Redis

from tests.frontier.pages import page
from webcrawl.frontier import Candidate, Frontier, Settlement
from webcrawl.frontier.gauges import SAMPLED, gauges


async def test_an_empty_crawl_has_nothing(frontier: Frontier) -> None:
    now = await gauges(frontier)
    assert (now.ready, now.waiting, now.leased, now.blocked) == (0, 0, 0, 0)
    assert list(now.hosts_by_level) == [0] * 8
    assert list(now.share_by_level) == [0.0] * 9
    assert list(now.lease_ages) == []


async def test_each_host_is_in_its_state(frontier: Frontier) -> None:
    hosts = [f"http://h{number}.test" for number in range(6)]
    await frontier.add([Candidate(host, "/", None) for host in hosts for _ in range(2)])
    one, two = await frontier.lease(2, 1)
    assert await frontier.release(two, [Settlement(two.urls[0].index, "done")], pause=100.0)
    blocked = next(host for host in hosts if host not in (one.host, two.host))
    await frontier.block(blocked)
    now = await gauges(frontier)
    # the blocked host leaves the list of those that are due when its turn comes
    assert (now.ready, now.waiting, now.leased, now.blocked) == (4, 1, 1, 1)
    assert sum(now.hosts_by_level) == now.ready + now.waiting
    assert len(now.lease_ages) == 1 and 0 <= now.lease_ages[0] < 60
    assert {lease.host for lease in await frontier.lease(9, 1)} == {*hosts} - {one.host, two.host, blocked}
    now = await gauges(frontier)
    assert (now.ready, now.waiting, now.leased, now.blocked) == (0, 1, 4, 1)
    await frontier.unblock(blocked)
    now = await gauges(frontier)
    assert (now.ready, now.blocked) == (1, 0)


async def test_urls_count_at_their_levels(frontier: Frontier) -> None:
    long = [page(f"http://long.test/{number}", level=2) for number in range(40)]
    short = [page(f"http://h{number}.test/", level=5) for number in range(9)]
    await frontier.add([*long, *short, page("http://long.test/other", level=-3)])
    now = await gauges(frontier)
    assert list(now.share_by_level) == [0, 0, 0.8, 0, 0, 0.18, 0, 0, 0.02]
    # a host is where its best URL is; levels outside 0 to 7 count as the nearest
    assert list(now.hosts_by_level) == [1, 0, 0, 0, 0, 9, 0, 0]


async def test_a_sample_is_bounded(frontier_of: Callable[..., Frontier], valkey: Redis) -> None:
    frontier = frontier_of(shards=1)
    number = SAMPLED + 200
    await frontier.add([page(f"http://h{n}.test/", level=n % 2) for n in range(number)])
    leases = await frontier.lease(number, 1)
    assert len(leases) == number
    assert len((await gauges(frontier)).lease_ages) == SAMPLED
    for lease in leases:
        await frontier.release(lease, [Settlement(url.index, "retry", delay=1e3) for url in lease.urls])
    await frontier.add([page(f"http://h{n}.test/x", level=n % 2) for n in range(number)])
    before = valkey.info("commandstats")["cmdstat_hget"]["calls"]
    now = await gauges(frontier)
    assert valkey.info("commandstats")["cmdstat_hget"]["calls"] - before <= 2 * SAMPLED
    assert sum(now.share_by_level) == pytest.approx(1)
    assert 0.4 < now.share_by_level[0] < 0.6 and 0.4 < now.share_by_level[1] < 0.6


async def test_the_memory_of_the_server_is_told(frontier: Frontier) -> None:
    now = await frontier.engine.memory()
    assert now.used > 100_000 and now.limit == 0
