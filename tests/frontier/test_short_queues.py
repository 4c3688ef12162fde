"""Hosts with few URLs, and most hosts have few: what they cost, and in which order they are found."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from redis import Redis

from tests.frontier.contents import Contents
from tests.frontier.pages import all_done, page, silence_over
from tests.frontier.spilling import spilling
from webcrawl.frontier import Frontier

Frontiers = Callable[..., Frontier]

HOST = "https://www.a.test"
HOSTS = 1000


async def add_to_many(frontier: Frontier, urls: int) -> None:
    """So many URLs of 80 characters for each of many hosts, one after the other."""
    for number in range(urls):
        hosts = [f"https://www.site-{n:07}.example" for n in range(HOSTS)]
        await frontier.add([page(f"{host}/{number}/".ljust(80, "x")) for host in hosts])


@pytest.mark.parametrize("urls", [1, 4, 10])
async def test_a_queued_url_takes_little_memory(frontier: Frontier, valkey: Redis, urls: int) -> None:
    await add_to_many(frontier, urls)
    bytes_taken = sum(valkey.memory_usage(key, samples=0) for key in valkey.scan_iter())
    assert bytes_taken / (HOSTS * urls) < 150


async def taken(frontier: Frontier) -> list[str]:
    """The next host, unless there is none; its lease is kept."""
    return [lease.host for lease in await frontier.lease(1, 10)]


async def test_hosts_have_their_turn_in_the_order_in_which_their_time_came(frontier_of: Frontiers) -> None:
    frontier = frontier_of(shards=1)
    first, second, third, silent, ever = (f"http://{n}.test" for n in range(5))
    for host in (silent, ever):
        await frontier.block_until(host, 600.0)
    await frontier.add([page(f"{host}/") for host in (silent, first, ever, second)])
    assert await taken(frontier) == [first]
    await silence_over(frontier, silent)
    await frontier.add([page(f"{third}/")])
    assert [await taken(frontier) for _ in range(4)] == [[second], [silent], [third], []]


async def test_a_host_that_is_given_back_is_the_last_of_those_that_are_due(frontier_of: Frontiers) -> None:
    frontier = frontier_of(shards=1)
    names = [f"http://{n}.test" for n in range(4)]
    await frontier.add([page(f"{host}/{n}") for host in names for n in range(3)])
    order = []
    for _ in range(12):
        (lease,) = await frontier.lease(1, 1)
        order.append(lease.host)
        await frontier.release(lease, all_done(lease))
    assert order == names * 3


async def test_many_blocked_hosts_are_passed_over_a_thousand_at_once(
    frontier_of: Frontiers, valkey: Redis
) -> None:
    frontier = frontier_of(shards=1)
    blocked = [f"https://{n}.test" for n in range(1100)]
    await frontier.add([page(f"{host}/") for host in [*blocked, HOST]])
    for start in range(0, len(blocked), 100):
        await asyncio.gather(*(frontier.block(host) for host in blocked[start : start + 100]))
    assert [await taken(frontier) for _ in range(3)] == [[], [HOST], []]
    for host in blocked[:3]:
        await frontier.unblock(host)
    assert [await taken(frontier) for _ in range(4)] == [[host] for host in blocked[:3]] + [[]]
    Contents.read(valkey, frontier.keys)


async def test_a_host_whose_level_changes_stands_where_its_best_level_is(
    frontier_of: Frontiers, valkey: Redis
) -> None:
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
        # it stays in the list of the level that nobody has looked at, but once only
        assert not found.queues
        assert valkey.llen(frontier.keys.queue(0)[0] + "due:6") == 1
    assert await frontier.hosts() == []
    assert await frontier.lease(1, 1) == []
    assert not valkey.exists(frontier.keys.queue(0)[0] + "queued", frontier.keys.queue(0)[0] + "due:6")


async def test_hosts_that_look_alike_are_not_taken_for_each_other(frontier: Frontier) -> None:
    names = ["a.test", "www.a.test", "www.www.a.test", "www", "www.", "a.test:8443"]
    hosts = [f"{scheme}://{name}" for scheme in ("http", "https") for name in names]
    await frontier.add([page(f"{host}/{n}") for host in hosts for n in range(2)])
    assert {one.host: one.queued for one in await frontier.hosts(99)} == dict.fromkeys(hosts, 2)
    leases = await frontier.lease(99, 9)
    assert sorted(lease.host for lease in leases) == sorted(hosts)
    assert all([url.url for url in lease.urls] == [f"{lease.host}/{n}" for n in range(2)] for lease in leases)


@pytest.mark.parametrize("order", ["breadth-first", "depth-first"])
async def test_few_become_many_and_keep_their_order(
    frontier: Frontier, tmp_path_factory: pytest.TempPathFactory, order: str
) -> None:
    await spilling(frontier, tmp_path_factory.mktemp("store"), 1000, order=order)
    urls = [f"{HOST}/{n}/{'x' * 20}" for n in range(30)]
    got = []
    for start in range(0, 30, 3):
        await frontier.add([page(url) for url in urls[start : start + 3]])
        # what is given back comes first again
        (lease,) = await frontier.lease(1, 2)
        await frontier.release(lease)
        assert (await frontier.host(HOST)).queued == start + 3
    while leases := await frontier.lease(1, 4):
        got += [url.url for url in leases[0].urls]
        await frontier.release(leases[0], all_done(leases[0]))
    assert got == (urls if order == "breadth-first" else urls[::-1])
