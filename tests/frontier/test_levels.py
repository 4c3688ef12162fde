"""No level starves: lower levels get a share of the leased hosts and of the URLs of each host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from tests.frontier.pages import all_done, page
from tests.frontier.spilling import serve, spilling
from webcrawl.frontier import Frontier, LeasedURL, Settlement

HOST = "http://a.test"

Frontiers = Callable[..., Frontier]


async def add_hosts(frontier: Frontier, *levels: int, each: int = 60) -> None:
    """Add `each` hosts with one URL at each of these levels."""
    for level in levels:
        await frontier.add([page(f"http://h{n}-of-{level}.test/", level=level) for n in range(each)])


async def add_urls(frontier: Frontier, *levels: int, each: int = 100) -> None:
    """Add `each` URLs of one host at each of these levels."""
    for level in levels:
        await frontier.add([page(f"{HOST}/{level}/{n}", level=level) for n in range(each)])


async def pick(frontier: Frontier, times: int, hosts: int = 1) -> Counter[int]:
    """Returns how many hosts of each level were leased."""
    picked: Counter[int] = Counter()
    for _ in range(times):
        picked.update(lease.urls[0].level for lease in await frontier.lease(hosts, 1))
    return picked


async def fetch(frontier: Frontier, times: int, urls: int, fetched: int | None = None) -> list[LeasedURL]:
    """Lease the only host `times` times; settles the first `fetched` URLs of each lease and returns them."""
    order: list[LeasedURL] = []
    for _ in range(times):
        (lease,) = await frontier.lease(1, urls)
        done = lease.urls[:fetched]
        await frontier.release(lease, [Settlement(url.index) for url in done])
        order += done
    return order


def levels_of(urls: list[LeasedURL]) -> Counter[int]:
    return Counter(url.level for url in urls)


@pytest.mark.parametrize(("times", "hosts"), [(60, 1), (12, 5), (1, 60)])
async def test_levels_below_the_best_share_the_leased_hosts(
    frontier_of: Frontiers, times: int, hosts: int
) -> None:
    frontier = frontier_of(shards=1, low_share=0.5)
    await add_hosts(frontier, 0, 4, 7)
    assert await pick(frontier, times, hosts) == {0: 30, 4: 15, 7: 15}


async def test_the_best_level_need_not_be_the_highest(frontier_of: Frontiers) -> None:
    frontier = frontier_of(shards=1, low_share=0.1)
    await add_hosts(frontier, 2, 3, 6, 7)
    assert await pick(frontier, 60) == {2: 54, 3: 2, 6: 2, 7: 2}


async def test_the_share_of_a_shard_does_not_depend_on_the_order_of_shards(frontier_of: Frontiers) -> None:
    """Hosts of two shards are leased in turn; a share counted over both would take only low levels from the second."""
    frontier = frontier_of(shards=2, low_share=0.5)
    await add_hosts(frontier, 0, 7)
    picked: Counter[tuple[int, int]] = Counter()
    for _ in range(40):
        (lease,) = await frontier.lease(1, 1)
        picked[frontier.keys.shard(lease.host), lease.urls[0].level] += 1
    assert picked == {(0, 0): 10, (0, 7): 10, (1, 0): 10, (1, 7): 10}


async def test_an_unused_share_is_not_saved_up(frontier_of: Frontiers) -> None:
    frontier = frontier_of(shards=1, low_share=0.5)
    await add_hosts(frontier, 0, each=100)
    assert await pick(frontier, 50) == {0: 50}
    await add_hosts(frontier, 5)
    # the share is used for the next lease, and then for every other one
    assert await pick(frontier, 1) == {5: 1}
    assert await pick(frontier, 20) == {0: 10, 5: 10}


@pytest.mark.parametrize(("times", "urls"), [(80, 1), (16, 5), (4, 20), (1, 80)])
async def test_all_levels_of_a_host_have_turns(frontier_of: Frontiers, times: int, urls: int) -> None:
    frontier = frontier_of(low_share=0.5)
    await add_urls(frontier, 0, 4, 7)
    order = await fetch(frontier, times, urls)
    assert levels_of(order) == {0: 40, 4: 20, 7: 20}
    for level in (0, 4, 7):
        numbers = [url.path for url in order if url.level == level]
        assert numbers == [f"/{level}/{n}" for n in range(len(numbers))], "a level is ordered by age"


async def test_an_extended_lease_gives_lower_levels_the_same_share(frontier_of: Frontiers) -> None:
    frontier = frontier_of(low_share=0.25)
    await add_urls(frontier, 0, 7)
    (lease,) = await frontier.lease(1, 4)
    fetched = list(lease.urls)
    for _ in range(19):
        done = [Settlement(url.index) for url in fetched]
        fetched += await frontier.acknowledge(lease, done, more=4) or []
    assert levels_of(fetched) == {0: 60, 7: 20}


@pytest.mark.parametrize("fetched", [1, 3])
async def test_unfetched_urls_do_not_use_up_the_share(frontier_of: Frontiers, fetched: int) -> None:
    """A host in back-off is released after each request; no level may be only at the end of each lease."""
    frontier = frontier_of(low_share=0.25)
    await add_urls(frontier, 0, 5, 7)
    order = await fetch(frontier, 48 // fetched, 20, fetched)
    assert levels_of(order) == {0: 36, 5: 6, 7: 6}


async def test_a_zero_share_orders_strictly_by_level(frontier_of: Frontiers) -> None:
    frontier = frontier_of(shards=1, low_share=0)
    await add_urls(frontier, 7, 0, 4, each=20)
    order = await fetch(frontier, 6, 10)
    assert [url.level for url in order] == [0] * 20 + [4] * 20 + [7] * 20
    await add_hosts(frontier, 7, 0, 4, each=10)
    assert await pick(frontier, 20) == {0: 10, 4: 10}


async def test_the_smallest_share_is_a_thousandth(frontier_of: Frontiers) -> None:
    frontier = frontier_of(low_share=0.0001)
    await add_urls(frontier, 0, 7, each=1100)
    assert levels_of(await fetch(frontier, 2, 500)) == {0: 999, 7: 1}


async def test_the_share_may_be_everything(frontier_of: Frontiers) -> None:
    frontier = frontier_of(low_share=1)
    await add_urls(frontier, 0, 4, 7, each=20)
    order = await fetch(frontier, 6, 10)
    assert [url.level for url in order] == [4, 7] * 20 + [0] * 20


@pytest.mark.parametrize("order", ["breadth-first", "depth-first"])
async def test_levels_take_turns_with_tails_in_the_store(
    frontier_of: Frontiers, tmp_path: Path, order: str
) -> None:
    frontier = frontier_of(low_share=0.5)
    tails = await spilling(frontier, tmp_path, order=order)
    for start in range(0, 60, 10):
        for level in (1, 4, 6):
            urls = [page(f"{HOST}/{level}/{n}", level=level) for n in range(start, start + 10)]
            await frontier.add(urls)
        await serve(tails, frontier)
    got: list[LeasedURL] = []
    for _ in range(20):
        got += await fetch(frontier, 1, 4)
        await serve(tails, frontier)
    assert levels_of(got) == {1: 40, 4: 20, 6: 20}
    while not await frontier.finished():
        got += await fetch(frontier, 1, 4)
        await serve(tails, frontier)
    for level in (1, 4, 6):
        numbers = [url.path for url in got if url.level == level]
        step = -1 if order == "depth-first" else 1
        assert numbers == [f"/{level}/{n}" for n in range(60)][::step], "complete and in order"


async def test_a_level_that_waits_for_the_store_loses_turns_but_is_not_overtaken(
    frontier_of: Frontiers, tmp_path: Path
) -> None:
    frontier = frontier_of(low_share=0.5)
    tails = await spilling(frontier, tmp_path)
    await frontier.add([page(f"{HOST}/4/{n}", level=4) for n in range(50)])
    await serve(tails, frontier)
    await frontier.add([page(f"{HOST}/{level}/{n}", level=level) for level in (0, 7) for n in range(20)])
    # level 4 has 6 URLs in the engine, then level 7 gets its turns
    got = await fetch(frontier, 8, 3)
    assert levels_of(got) == {0: 12, 4: 6, 7: 6}
    # once level 0 is done, the host waits for the store
    for _ in count():
        if not (leases := await frontier.lease(1, 3)):
            break
        got += leases[0].urls
        await frontier.release(leases[0], all_done(leases[0]))
    assert levels_of(got)[0] == 20
    assert levels_of(got)[7] < 20, "a lower level overtook URLs in the store"
    while not await frontier.finished():
        await serve(tails, frontier)
        got += await fetch(frontier, 1, 3)
    assert levels_of(got) == {0: 20, 4: 50, 7: 20}
