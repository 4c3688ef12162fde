"""Queues longer than the engine may keep: bounded in memory, and refilled in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from redis import Redis

from tests.frontier.pages import all_done, page, urls_of
from tests.frontier.spilling import HOST, OTHER, fetch, numbered, serve, spilling
from webcrawl.frontier import Frontier, Settlement

Frontiers = Callable[..., Frontier]


async def test_the_engine_keeps_a_bounded_number_of_urls_in_order(
    frontier: Frontier, valkey: Redis, tmp_path: Path
) -> None:
    number, hot = 60_000, 1000
    tails = await spilling(frontier, tmp_path, hot)
    for start in range(0, number, 5000):
        await frontier.add([page(url, seen_test=False) for url in numbered(5000, start)])
        await serve(tails, frontier)
        kept = [valkey.llen(key) for name in ("q", "out") for key in valkey.keys(f"wc:*:{name}:*")]
        assert sum(kept) <= hot
    counts = await frontier.counts()
    assert counts.queued == number
    assert number - hot <= counts.spilled < number
    assert (await frontier.hosts(1))[0].queued == number
    segments = valkey.keys("wc:*:tail:*")
    assert sum(valkey.memory_usage(key) for key in segments) < number, "less than one byte for each URL"
    assert await fetch(frontier, tails, 500) == numbered(number)


@pytest.mark.parametrize("order", ["breadth-first", "depth-first"])
async def test_spilled_queues_are_ordered_by_level_then_age(
    frontier_of: Frontiers, tmp_path: Path, order: str
) -> None:
    frontier = frontier_of(low_share=0)
    tails = await spilling(frontier, tmp_path, order=order)
    for start in range(0, 300, 10):
        await frontier.add([page(url, level=int(url[-1]) % 2) for url in numbered(10, start)])
        await serve(tails, frontier)
    step = -1 if order == "depth-first" else 1
    expected = [url for level in (0, 1) for url in numbered(300)[::step] if int(url[-1]) % 2 == level]
    assert await fetch(frontier, tails, 7) == expected


async def test_a_random_order_differs_each_time_and_is_complete(
    frontier_of: Frontiers, tmp_path: Path
) -> None:
    orders = []
    for crawl in ("one", "two"):
        frontier = frontier_of(crawl)
        tails = await spilling(frontier, tmp_path, 40, order="random")
        await frontier.add([page(url) for url in numbered(200)])
        await serve(tails, frontier)
        orders.append(await fetch(frontier, tails))
    assert orders[0] != orders[1]
    assert all(sorted(order) == sorted(numbered(200)) for order in orders)


@pytest.mark.parametrize("length", [0, 200])  # stored inside the host's record, or in a list
async def test_a_random_order_picks_all_urls_with_equal_probability(
    frontier: Frontier, tmp_path: Path, length: int
) -> None:
    urls = [url.ljust(length, "x") for url in numbered(4)]
    await spilling(frontier, tmp_path, 1000, order="random")
    first: Counter[str] = Counter()
    for _ in range(200):
        await frontier.add([page(url, seen_test=False) for url in urls])
        (lease,) = await frontier.lease(1, 1)
        first[lease.urls[0].url] += 1
        await frontier.release(lease, all_done(lease))
        (lease,) = await frontier.lease(1, 10)
        await frontier.release(lease, all_done(lease))
    # binomial with n = 200, p = 1/4: P(below 18 or above 84) < 1e-7
    assert sorted(first) == urls
    assert all(18 <= times <= 84 for times in first.values()), first


async def test_lower_levels_do_not_overtake_urls_in_the_store(frontier_of: Frontiers, tmp_path: Path) -> None:
    frontier = frontier_of(low_share=0)
    tails = await spilling(frontier, tmp_path)
    await frontier.add([page(url, level=1) for url in numbered(50)])
    await serve(tails, frontier)
    await frontier.add([page(f"{HOST}/low", level=5), page(f"{OTHER}/")])
    got: dict[str, list[str]] = {HOST: [], OTHER: []}
    for _ in range(5):
        for lease in await frontier.lease(10, 3):
            got[lease.host] += urls_of([lease])
            await frontier.release(lease, all_done(lease))
    assert got == {HOST: numbered(6), OTHER: [f"{OTHER}/"]}, (
        "the host waits for the store, other hosts do not"
    )
    await frontier.add([page(f"{HOST}/urgent", level=0)])
    (lease,) = await frontier.lease(10, 3)
    assert urls_of([lease]) == [f"{HOST}/urgent"], "URLs of a higher level do not wait for the store"
    await frontier.release(lease, all_done(lease))
    assert await fetch(frontier, tails) == [*numbered(44, 6), f"{HOST}/low"]


async def test_plans_that_two_workers_carry_out_take_effect_once(frontier: Frontier, tmp_path: Path) -> None:
    tails, others = [await spilling(frontier, tmp_path) for _ in range(2)]
    await frontier.add([page(url) for url in numbered(100)])
    shards = range(frontier.keys.shards)
    order: list[str] = []
    while not await frontier.finished():
        plans = [await one.plan(shards) for one in (tails, others)]
        for one, planned in zip((tails, others), plans, strict=True):
            for plan in planned:
                if plan:
                    await one.carry_out(plan)
        for lease in await frontier.lease(10, 3):
            order += urls_of([lease])
            await frontier.release(lease, all_done(lease))
    assert order == numbered(100)


async def test_released_urls_come_first_and_are_spilled_last(frontier: Frontier, tmp_path: Path) -> None:
    tails = await spilling(frontier, tmp_path)
    await frontier.add([page(url) for url in numbered(60)])
    await serve(tails, frontier)
    (lease,) = await frontier.lease(1, 6)
    await serve(tails, frontier)
    assert await frontier.acknowledge(lease, [Settlement(1)], more=2) is not None
    await frontier.release(lease)
    assert await fetch(frontier, tails) == numbered(59, 1)


async def test_a_full_engine_can_still_spill(frontier: Frontier, valkey: Redis, tmp_path: Path) -> None:
    """Scripts that free memory must run when memory is full."""
    tails = await spilling(frontier, tmp_path, 100)
    await frontier.add([page(url) for url in numbered(1000)])
    await serve(tails, frontier)
    await frontier.add([page(url) for url in numbered(1000, 1000)])
    valkey.config_set("maxmemory", valkey.info("memory")["used_memory"] - 10_000)
    try:
        with pytest.raises(Exception, match="OOM|maxmemory"):
            await frontier.add([page(f"{HOST}/more")])
        await serve(tails, frontier)
    finally:
        valkey.config_set("maxmemory", 0)
    assert (await frontier.counts()).spilled >= 1900
    assert await fetch(frontier, tails) == numbered(2000)


@pytest.mark.parametrize(("before", "after"), [("breadth-first", "depth-first"), ("depth-first", "random")])
async def test_the_order_of_a_crawl_may_be_changed(
    frontier: Frontier, tmp_path: Path, before: str, after: str
) -> None:
    tails = await spilling(frontier, tmp_path, order=before)
    for start in range(0, 300, 50):
        await frontier.add([page(url) for url in numbered(50, start)])
        if start < 200:
            await serve(tails, frontier)
    # this URL stays in the outbox, which the old order does not read first
    await frontier.add([page(f"{HOST}/300")])
    got: list[str] = []
    while leases := await frontier.lease(1, 10):
        got += urls_of(leases)
        await frontier.release(leases[0], all_done(leases[0]))
    tails = await spilling(frontier, tmp_path, order=after)
    got += await fetch(frontier, tails)
    assert sorted(got) == sorted(numbered(301))
