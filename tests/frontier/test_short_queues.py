"""Hosts with few URLs, as most hosts are: their memory, and the order in which they are leased."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
from redis import Redis

from tests.frontier.contents import Contents
from tests.frontier.pages import all_done, page, silence_over
from tests.frontier.spilling import spilling
from webcrawl.frontier import Frontier

Frontiers = Callable[..., Frontier]

HOST = "https://www.a.test"
HOSTS = 1500
"""Not 1000: shards with 250 hosts may just be growing their hash tables, and then have two of them."""


async def add_to_many(frontier: Frontier, urls: int) -> None:
    """Add this many URLs of 80 characters for each of many hosts, in rounds over the hosts."""
    for number in range(urls):
        hosts = [f"https://www.site-{n:07}.example" for n in range(HOSTS)]
        await frontier.add([page(f"{host}/{number}/".ljust(80, "x")) for host in hosts])


@pytest.mark.parametrize("urls", [1, 4, 10])
async def test_a_queued_url_takes_little_memory(frontier: Frontier, valkey: Redis, urls: int) -> None:
    await add_to_many(frontier, urls)
    bytes_taken = sum(valkey.memory_usage(key, samples=0) for key in valkey.scan_iter())
    assert bytes_taken / (HOSTS * urls) < 150


async def lease_next(frontier: Frontier) -> list[str]:
    """Lease the next host, if any, and keep the lease."""
    return [lease.host for lease in await frontier.lease(1, 10)]


async def test_hosts_are_leased_in_the_order_in_which_they_became_ready(frontier_of: Frontiers) -> None:
    frontier = frontier_of(shards=1)
    first, second, third, silent, ever = (f"http://{n}.test" for n in range(5))
    for host in (silent, ever):
        await frontier.block_until(host, 600.0)
    await frontier.add([page(f"{host}/") for host in (silent, first, ever, second)])
    assert await lease_next(frontier) == [first]
    await silence_over(frontier, silent)
    await frontier.add([page(f"{third}/")])
    assert [await lease_next(frontier) for _ in range(4)] == [[second], [silent], [third], []]


async def test_a_released_host_goes_to_the_end_of_the_ready_hosts(frontier_of: Frontiers) -> None:
    frontier = frontier_of(shards=1)
    names = [f"http://{n}.test" for n in range(4)]
    await frontier.add([page(f"{host}/{n}") for host in names for n in range(3)])
    order = []
    for _ in range(12):
        (lease,) = await frontier.lease(1, 1)
        order.append(lease.host)
        await frontier.release(lease, all_done(lease))
    assert order == names * 3


async def test_blocked_hosts_are_skipped_a_thousand_at_once(frontier_of: Frontiers, valkey: Redis) -> None:
    frontier = frontier_of(shards=1)
    blocked = [f"https://{n}.test" for n in range(1100)]
    await frontier.add([page(f"{host}/") for host in [*blocked, HOST]])
    for start in range(0, len(blocked), 100):
        await asyncio.gather(*(frontier.block(host) for host in blocked[start : start + 100]))
    assert [await lease_next(frontier) for _ in range(3)] == [[], [HOST], []]
    for host in blocked[:3]:
        await frontier.unblock(host)
    assert [await lease_next(frontier) for _ in range(4)] == [[host] for host in blocked[:3]] + [[]]
    Contents.read(valkey, frontier.keys)


async def test_a_host_is_ordered_by_its_current_best_level(frontier_of: Frontiers, valkey: Redis) -> None:
    frontier = frontier_of(shards=1, low_share=0)
    other = "http://b.test"
    for turn in range(5):
        await frontier.add([page(f"{HOST}/low{turn}", level=6)])
        await frontier.add([page(f"{other}/{turn}", level=2)])
        await frontier.add([page(f"{HOST}/high{turn}", level=1)])
        leases = [(await frontier.lease(1, 9))[0] for _ in range(2)]
        assert [lease.host for lease in leases] == [HOST, other]
        assert [url.level for url in leases[0].urls] == [1, 6]
        for lease in leases:
            await frontier.release(lease, all_done(lease))
        found = Contents.read(valkey, frontier.keys)
        # one stale entry stays in the list of level 6, which no lease call has reached
        assert not found.queues
        assert valkey.llen(frontier.keys.queue(0)[0] + "new:6") == 1
    assert await frontier.hosts() == []
    assert await frontier.lease(1, 1) == []
    assert not valkey.exists(frontier.keys.queue(0)[0] + "queued", frontier.keys.queue(0)[0] + "new:6")


async def test_hosts_with_similar_names_are_kept_apart(frontier: Frontier) -> None:
    names = ["a.test", "www.a.test", "www.www.a.test", "www", "www.", "a.test:8443"]
    hosts = [f"{scheme}://{name}" for scheme in ("http", "https") for name in names]
    frontier = replace(frontier, keys=replace(frontier.keys, unit="origin"))
    await frontier.add([page(f"{host}/{n}") for host in hosts for n in range(2)])
    assert {one.host: one.queued for one in await frontier.hosts(99)} == dict.fromkeys(hosts, 2)
    leases = await frontier.lease(99, 9)
    assert sorted(lease.host for lease in leases) == sorted(hosts)
    assert all([url.url for url in lease.urls] == [f"{lease.host}/{n}" for n in range(2)] for lease in leases)


@pytest.mark.parametrize("order", ["breadth-first", "depth-first"])
async def test_a_growing_queue_keeps_its_order(
    frontier: Frontier, tmp_path_factory: pytest.TempPathFactory, order: str
) -> None:
    await spilling(frontier, tmp_path_factory.mktemp("store"), 1000, order=order)
    urls = [f"{HOST}/{n}/{'x' * 20}" for n in range(30)]
    got = []
    for start in range(0, 30, 3):
        await frontier.add([page(url) for url in urls[start : start + 3]])
        # released URLs come first again
        (lease,) = await frontier.lease(1, 2)
        await frontier.release(lease)
        assert (await frontier.host(HOST)).queued == start + 3
    while leases := await frontier.lease(1, 4):
        got += [url.url for url in leases[0].urls]
        await frontier.release(leases[0], all_done(leases[0]))
    assert got == (urls if order == "breadth-first" else urls[::-1])
