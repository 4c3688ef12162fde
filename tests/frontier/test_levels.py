"""Lower levels get a share of the leased hosts, and of the URLs of a host; a priority of its own is strict."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count, pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from redis import Redis

from tests.frontier.contents import Contents
from tests.frontier.pages import all_done, page, past, silence_over
from tests.frontier.spilling import fetch as everything, serve, spilling
from webcrawl.frontier import Candidate, Crawl, Frontier, LeasedURL, Settlement, level_of_priority
from webcrawl.frontier.credit import queue_again

HOST = "http://a.test"

Frontiers = Callable[..., Frontier]


async def add_hosts(frontier: Frontier, *levels: int, each: int = 60) -> None:
    """Add `each` hosts with one URL at each of these levels."""
    for level in levels:
        await frontier.add([page(f"http://h{n}-of-{level}.test/", level=level) for n in range(each)])


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


async def test_a_zero_share_leases_hosts_strictly_by_level(frontier_of: Frontiers) -> None:
    frontier = frontier_of(shards=1, low_share=0)
    await add_hosts(frontier, 7, 0, 4, each=10)
    assert await pick(frontier, 20) == {0: 10, 4: 10}


async def test_the_smallest_share_is_a_thousandth(frontier_of: Frontiers) -> None:
    frontier = frontier_of(shards=1, low_share=0.0001)
    await add_hosts(frontier, 0, 7, each=1100)
    assert await pick(frontier, 2, 500) == {0: 999, 7: 1}


async def test_the_share_may_be_everything(frontier_of: Frontiers) -> None:
    frontier = frontier_of(shards=1, low_share=1)
    await add_hosts(frontier, 0, 4, 7, each=20)
    assert await pick(frontier, 60) == {0: 20, 4: 20, 7: 20}


async def test_hosts_are_leased_by_the_nearest_level(frontier_of: Frontiers) -> None:
    frontier = frontier_of(shards=1, low_share=0)
    priorities = (-1000, 0, 1000, 1, 3)
    await frontier.add([page(f"http://h{n}.test/", level=level_of_priority(n)) for n in priorities])
    order = [(await frontier.lease(1, 1))[0].host for _ in priorities]
    assert order == [f"http://h{n}.test" for n in (1000, 3, 1, 0, -1000)]


PRIORITIES = [0, 7, 5, -100, 1000, 0, 3, 4, -4, -5, 7, 2**40, -(2**40), 10**30, -(10**30), 5]
"""Around the bounds of the levels 0 to 7 (priorities 3 and -4), far beyond them, and some twice."""


def prioritised(number: int, priority: int, **more: object) -> Candidate:
    """A request with a priority of its own."""
    return page(f"{HOST}/{number}", level=level_of_priority(priority), is_fixed=True, **more)


def in_order(priorities: Sequence[int], *, newest_first: bool = False) -> list[str]:
    """The paths of URLs 0, 1, ... with these priorities: the highest first, among equal ones by age."""
    age = -1 if newest_first else 1
    return [f"/{n}" for n, _ in sorted(enumerate(priorities), key=lambda one: (-one[1], age * one[0]))]


@pytest.mark.parametrize("urls", [1, 3, 100])
async def test_a_host_is_fetched_strictly_by_priority(frontier_of: Frontiers, urls: int) -> None:
    frontier = frontier_of(low_share=0.5)
    await frontier.add([prioritised(n, priority) for n, priority in enumerate(PRIORITIES)])
    order = await fetch(frontier, -(-len(PRIORITIES) // urls), urls)
    assert [url.path for url in order] == in_order(PRIORITIES)


async def test_the_lower_levels_of_a_host_share_its_turns(frontier_of: Frontiers) -> None:
    frontier = frontier_of(low_share=0.1)
    levels = {2: 300, 4: 20, 7: 200}
    urls = [(level, n) for level, most in levels.items() for n in range(most)]
    await frontier.add([page(f"{HOST}/{level}/{n}", level=level) for level, n in urls])
    order = [url.level for url in await fetch(frontier, 20, 10)]
    assert Counter(order) == {2: 180, 4: 10, 7: 10}
    gaps = [after - before for before, after in pairwise(n for n, level in enumerate(order) if level == 7)]
    assert max(gaps) <= 30


async def test_a_worker_knows_which_urls_come_early(frontier_of: Frontiers) -> None:
    frontier = frontier_of(low_share=0.5)
    await frontier.add([page(f"{HOST}/{n}", level=3 + 4 * (n > 9)) for n in range(20)])
    (lease,) = await frontier.lease(1, 6)
    assert sorted(url.level for url in lease.urls) == [3, 3, 3, 7, 7, 7]
    assert {url.rank for url in lease.urls} == {3}
    assert await frontier.acknowledge(lease, more=4, better_than=3) == []
    more = [(await frontier.acknowledge(lease, more=1) or [])[0].level for _ in range(4)]
    assert more == [3, 7, 3, 7], "a single URL may be one of a lower level"


async def test_links_wait_for_no_request_of_their_level(frontier_of: Frontiers) -> None:
    frontier = frontier_of(low_share=0.5)
    requests = [page(f"{HOST}/request/{n}", level=6, is_fixed=True) for n in range(20)]
    links = [page(f"{HOST}/link/{n}", level=6) for n in range(3)]
    await frontier.add([*requests, *links, *(page(f"{HOST}/{n}", level=3) for n in range(100))])
    order = [url.path for url in await fetch(frontier, 5, 2) if url.level == 6]
    assert order == ["/link/0", "/link/1", "/link/2"]
    rest = [url.path for url in await fetch(frontier, 2, 100) if url.level == 6]
    assert rest == [request.path for request in requests], "the priority of a request is strict"


async def test_a_turn_of_a_lower_level_may_find_only_links_that_were_queued_again(
    frontier_of: Frontiers,
) -> None:
    frontier = frontier_of(shards=1, low_share=1)
    await Crawl(frontier.engine, frontier.keys, "w").configure(0, "breadth-first", importance=True)
    levels = {"/a": 5, "/b": 6}
    await frontier.add([page(f"{HOST}{path}", level=level, rise=0) for path, level in levels.items()])
    better = [page(f"{HOST}{path}", level=1, rise=4) for path in levels]
    assert await queue_again(frontier.engine, frontier.keys, better) == 2
    assert [url.level for url in await fetch(frontier_of(shards=1, low_share=0), 1, 2)] == [1, 1]
    await past(frontier.engine)
    assert await frontier.lease(1, 1) == []
    assert (await frontier.counts()).queued == 0


async def test_links_with_a_date_have_their_turns_too(frontier_of: Frontiers) -> None:
    frontier = frontier_of(low_share=0.5)
    await frontier.schedule([page(f"{HOST}/again", level=6)], 0)
    await past(frontier.engine)
    await frontier.add([page(f"{HOST}/{n}", level=3) for n in range(100)])
    assert "/again" in [url.path for url in await fetch(frontier, 3, 2)]


async def serve_with_endless_better(
    frontier: Frontier, waiting: dict[int, int], requests: int, at_once: list[int], *, kept: bool
) -> None:
    """Fetches URLs of a host to which each lease brings better links, until links of lower levels have had all turns.

    Each turn of the lower levels is for one link, so their number and their share bound how long a link waits.
    """
    await frontier.clear()
    urls = [(level, n) for level, most in waiting.items() for n in range(most)]
    await frontier.add([page(f"{HOST}/0/{n}", level=7, is_fixed=True) for n in range(requests)])
    await frontier.add([page(f"{HOST}/{level}/{n}", level=level) for level, n in urls])
    left, most, new = {f"/{level}/{n}" for level, n in urls}, 0, count()
    lease, done = None, list[Settlement]()
    for n in itertools.cycle(at_once):
        if most > (sum(waiting.values()) + 1) / SHARE + 2 * max(at_once):
            break
        await frontier.add([page(f"{HOST}/new/{next(new)}", level=2) for _ in range(n + 2)])
        if kept and lease:
            fetched = await frontier.acknowledge(lease, done, more=n) or []
        else:
            (lease,) = await frontier.lease(1, n)
            fetched = lease.urls
        done = [Settlement(url.index) for url in fetched]
        if not kept:
            await frontier.release(lease, done)
        assert len(fetched) == n
        left -= {url.path for url in fetched}
        most += n
    assert not left, f"links waited for {most} fetches"


SHARE = 0.25


@pytest.mark.parametrize("kept", [False, True])
@given(
    waiting=st.dictionaries(st.integers(3, 7), st.integers(1, 6), min_size=1),
    requests=st.integers(0, 3),
    at_once=st.lists(st.integers(1, 9), min_size=1, max_size=4),
)
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_link_waits_for_ever_while_its_host_is_served(
    frontier_of: Frontiers,
    runner: asyncio.Runner,
    waiting: dict[int, int],
    requests: int,
    at_once: list[int],
    kept: bool,
) -> None:
    runner.run(serve_with_endless_better(frontier_of(low_share=SHARE), waiting, requests, at_once, kept=kept))


async def compare_order(
    frontier: Frontier, sizes: dict[int, int], fixed: set[int], leases: list[tuple[int, int]]
) -> None:
    """Leases and settles so many URLs of a host with this number of URLs of each level, and then the rest."""
    await frontier.clear()
    urls = [(level, n) for level, most in sizes.items() for n in range(most)]
    await frontier.add(
        [page(f"{HOST}/{level}/{n}", level=level, is_fixed=level in fixed) for level, n in urls]
    )
    left, seen = Counter(sizes), {level: list[int]() for level in sizes}
    for most, settled in [*leases, *[(1000, 1000)] * 9]:
        for lease in await frontier.lease(1, most):
            assert len(lease.urls) == min(most, left.total())
            assert lease.urls[-1].level == lease.urls[-1].rank
            best = min(level for level in sizes if left[level])
            assert best not in fixed or lease.urls[0].level == best
            assert not any(url.lift for url in lease.urls if url.level in fixed), "a priority of its own"
            for url in lease.urls[:settled]:
                level, number = map(int, url.path[1:].split("/"))
                seen[level].append(number)
                left[level] -= 1
            await frontier.release(lease, [Settlement(url.index) for url in lease.urls[:settled]])
    assert seen == {level: list(range(most)) for level, most in sizes.items()}


@given(
    st.dictionaries(st.integers(0, 7), st.integers(1, 40), min_size=1),
    st.sets(st.integers(0, 7)),
    st.lists(st.tuples(st.integers(1, 30), st.integers(0, 30)), max_size=15),
    st.sampled_from([0.0, 0.1, 0.35, 1.0]),
)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_sharing_keeps_the_order_of_each_level_and_loses_nothing(
    frontier_of: Frontiers,
    runner: asyncio.Runner,
    sizes: dict[int, int],
    fixed: set[int],
    leases: list[tuple[int, int]],
    share: float,
) -> None:
    runner.run(compare_order(frontier_of(low_share=share), sizes, fixed, leases))


async def test_a_new_url_of_a_higher_priority_is_next(frontier: Frontier) -> None:
    await frontier.add([prioritised(n, 10) for n in range(6)])
    (lease,) = await frontier.lease(1, 2)
    await frontier.add([prioritised(7, 10), prioritised(8, 11), prioritised(9, 1000), prioritised(10, -1)])
    level = level_of_priority(10)
    better = await frontier.acknowledge(lease, more=5, better_than=level)
    assert better is not None and [url.path for url in better] == ["/9", "/8"]
    assert await frontier.acknowledge(lease, more=5, better_than=level) == []
    more = await frontier.acknowledge(lease, more=3)
    assert more is not None and [url.path for url in more] == ["/2", "/3", "/4"]


async def test_returned_retried_and_requeued_urls_keep_their_priorities(frontier_of: Frontiers) -> None:
    frontier = frontier_of(lease_seconds=0.001)
    await frontier.add([prioritised(n, priority) for n, priority in enumerate(PRIORITIES)])
    (lease,) = await frontier.lease(1, 5)
    await past(frontier.engine, 0.001)
    await frontier.reap()
    await silence_over(frontier, HOST)
    frontier = frontier_of()
    (lease,) = await frontier.lease(1, 4)
    settled = [
        Settlement(url.index, verdict)
        for url, verdict in zip(lease.urls, ("retry", "again", "dead", "done"), strict=True)
    ]
    await frontier.release(lease, settled)
    dead = [(HOST, letter.url) async for letter in frontier.dead_letters()]
    assert await frontier.requeue(dead) == len(dead) == 1
    await past(frontier.engine)
    order = await fetch(frontier, 1, 100)
    assert [url.path for url in order] == [path for path in in_order(PRIORITIES) if path != "/1"]
    assert [(url.attempts, url.dated) for url in order[:3]] == [(1, False), (0, True), (0, False)]


@pytest.mark.parametrize("order", ["breadth-first", "depth-first"])
async def test_priorities_are_ordered_with_tails_in_the_store(
    frontier_of: Frontiers, valkey: Redis, tmp_path: Path, order: str
) -> None:
    frontier = frontier_of(low_share=0.5)
    tails = await spilling(frontier, tmp_path, order=order)
    priorities = [(10, 0, -1000)[n % 3] for n in range(180)]
    for start in range(0, 180, 30):
        batch = range(start, start + 30)
        await frontier.add([prioritised(n, priorities[n]) for n in batch])
        await serve(tails, frontier)
    counts = await frontier.counts()
    assert counts.spilled > 120, "long queues of any priority are spilled"
    assert (await frontier.host(HOST)).queued == counts.queued == 180
    kept = [valkey.llen(key) for name in ("q", "out") for key in valkey.keys(f"wc:*:{name}:*")]
    assert max(kept) <= 8
    got = await everything(frontier, tails, 7)
    assert [path.removeprefix(HOST) for path in got] == in_order(
        priorities, newest_first=order == "depth-first"
    )
    Contents.read(valkey, frontier.keys, tmp_path)
    assert not valkey.keys("wc:*:levels:*")


async def test_a_given_up_host_leaves_nothing_of_any_priority(
    frontier: Frontier, valkey: Redis, tmp_path: Path
) -> None:
    tails = await spilling(frontier, tmp_path)
    await frontier.add([prioritised(n, (10, 0, -1000)[n % 3]) for n in range(90)])
    await serve(tails, frontier)
    for _ in range(2):  # the hot list of one level is empty, and its next URLs are in the store
        (lease,) = await frontier.lease(1, 3)
        await frontier.release(lease, all_done(lease))
    assert await frontier.condemn(HOST, "gone") == 84
    await serve(tails, frontier)
    assert not Contents.read(valkey, frontier.keys, tmp_path).queues
    assert not valkey.keys("wc:*:levels:*")
    assert len([letter async for letter in frontier.dead_letters(HOST)]) == 84
    assert await frontier.finished()


async def test_a_host_of_many_priorities_costs_little_more_than_one(
    frontier: Frontier, valkey: Redis
) -> None:
    await frontier.add([prioritised(n, n) for n in range(10_000)])
    assert (await frontier.host(HOST)).queued == 10_000
    (lease,) = await frontier.lease(1, 100)
    assert [url.path for url in lease.urls] == [f"/{n}" for n in range(9999, 9899, -1)]
    assert await frontier.condemn(HOST, "gone") == 9900
    assert not valkey.keys("wc:*:levels:*")


async def test_lower_levels_of_a_host_wait_for_a_better_one_in_the_store(
    frontier_of: Frontiers, tmp_path: Path
) -> None:
    frontier = frontier_of(low_share=0.5)
    tails = await spilling(frontier, tmp_path)
    await frontier.add([prioritised(n, 50) for n in range(50)])
    await serve(tails, frontier)
    await frontier.add([prioritised(n, -50) for n in range(50, 60)])
    for _ in count():
        if not (leases := await frontier.lease(1, 3)):
            break
        assert all(url.level == level_of_priority(50) for url in leases[0].urls)
        await frontier.release(leases[0], all_done(leases[0]))
    await frontier.add([prioritised(99, 51)])
    (lease,) = await frontier.lease(1, 3)
    assert [url.path for url in lease.urls] == ["/99"]
