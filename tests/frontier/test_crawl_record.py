"""What workers share about their crawl: which workers live, the totals, and the page permits."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from redis import Redis

from tests.frontier.draws import sent
from tests.frontier.losing import Losing
from tests.frontier.pages import past
from webcrawl.engine.client import UNAVAILABLE, Engine
from webcrawl.engine.keys import FORMAT, Keys
from webcrawl.errors import ConfigurationError
from webcrawl.frontier import Crawl
from webcrawl.worker.membership import Permits

Crawls = Callable[..., Crawl]


@pytest.fixture
def crawl_of(engine_at: Callable[..., Engine], redis_url: str) -> Crawls:
    """One worker's view of a crawl: `crawl_of("w1", crawl="crawl", shards=4, seconds=60)`."""

    def make(worker: str, crawl: str = "crawl", *, shards: int = 4, seconds: float = 60.0) -> Crawl:
        return Crawl(engine_at(redis_url), Keys(crawl, shards), worker, seconds)

    return make


async def test_a_crawl_begins_once(crawl_of: Crawls) -> None:
    assert not await crawl_of("w1").begin()
    assert await crawl_of("w2").begin()
    assert not await crawl_of("w1", "another").begin()


@pytest.mark.parametrize("version", [None, 1, 8, FORMAT + 1])
async def test_data_of_another_version_is_refused_with_advice(
    crawl_of: Crawls, valkey: Redis, version: int | None
) -> None:
    await crawl_of("w1").begin()
    valkey.hdel("wc:{c:crawl}:info", "format")
    if version is not None:
        valkey.hset("wc:{c:crawl}:info", "format", version)
    name = f"format {version or 1}; .* has {FORMAT}"
    with pytest.raises(
        ConfigurationError, match=rf"'crawl'.*version.*{name}.*another CRAWL_ID.*SCHEDULER_FLUSH_ON"
    ):
        await crawl_of("w2").begin()
    assert not await crawl_of("w2", "another").begin()


@pytest.mark.parametrize("version", [9, 10])
async def test_a_crawl_of_an_earlier_format_goes_on_in_the_present_format(
    crawl_of: Crawls, valkey: Redis, version: int
) -> None:
    await crawl_of("w1").begin()
    valkey.hset("wc:{c:crawl}:info", "format", version)
    assert await crawl_of("w2").begin()
    assert valkey.hget("wc:{c:crawl}:info", "format") == b"%d" % FORMAT


async def test_another_number_of_shards_is_refused_with_advice(crawl_of: Crawls) -> None:
    await crawl_of("w1", shards=4).begin()
    with pytest.raises(ConfigurationError, match=r"FRONTIER_SHARDS is 8.*'crawl'.*with 4.*set it to 4"):
        await crawl_of("w1", shards=8).begin()
    assert await crawl_of("w1", shards=4).begin()


async def test_two_crawls_must_have_the_same_number_of_shards(
    crawl_of: Crawls,
) -> None:
    await crawl_of("w1", "one", shards=4).begin()
    late = crawl_of("w1", "another", shards=8)
    with pytest.raises(ConfigurationError, match=r"FRONTIER_SHARDS is 8.*'one'.*with 4"):
        await late.begin()
    assert not await late.exists()
    assert not await crawl_of("w1", "another", shards=4).begin()


async def test_one_number_of_shards_wins_when_crawls_begin_at_once(crawl_of: Crawls) -> None:
    crawls = [crawl_of("w", f"c{n}", shards=1 + n % 2) for n in range(20)]
    results = await asyncio.gather(*(crawl.begin() for crawl in crawls), return_exceptions=True)
    begun = {crawl.keys.shards for crawl, result in zip(crawls, results, strict=True) if result is False}
    assert len(begun) == 1
    assert sum(isinstance(result, ConfigurationError) for result in results) == 10


async def test_the_number_of_shards_may_change_after_the_last_crawl(crawl_of: Crawls) -> None:
    one, two = crawl_of("w1", "one"), crawl_of("w1", "two")
    for crawl in (one, two):
        await crawl.begin()
    await one.forget()
    with pytest.raises(ConfigurationError, match="'two'"):
        await crawl_of("w1", "one", shards=8).begin()
    await two.forget()
    assert not await crawl_of("w1", "one", shards=8).begin()


async def test_workers_are_listed_from_their_first_heartbeat_until_they_leave(crawl_of: Crawls) -> None:
    one, two = crawl_of("w1"), crawl_of("w2")
    await one.workers.beat()
    await two.workers.beat()
    assert await one.workers.names() == ["w1", "w2"]
    await two.workers.leave()
    assert await one.workers.names() == ["w1"]


async def test_a_silent_worker_is_dropped_at_the_next_heartbeat(crawl_of: Crawls) -> None:
    dead, alive = crawl_of("dead", seconds=0.001), crawl_of("alive")
    await dead.workers.beat(seeding=True)
    await past(alive.engine, 0.001)
    assert (await alive.workers.beat()).seeding == 0, "the seeds of a dead worker are not waited for"
    assert await alive.workers.names() == ["alive"]
    await dead.workers.beat()
    assert set(await alive.workers.names()) == {"alive", "dead"}, "a slow worker is listed again"


@pytest.mark.parametrize(("end", "last"), [("leaves", False), ("dies", True), ("goes on", False)])
async def test_one_worker_is_the_last_unless_others_go_on(crawl_of: Crawls, end: str, last: bool) -> None:
    one, two = crawl_of("w1", seconds=0.5), crawl_of("w2", seconds=0.5 if end == "dies" else 60)
    await two.workers.beat()
    await one.workers.beat()
    await one.workers.leave()
    asked = asyncio.create_task(one.workers.is_last())
    await asyncio.sleep(0.05)
    assert not asked.done(), "the other one may have died"
    if end == "leaves":
        await two.workers.leave()
        assert await two.workers.is_last()
    assert await asked is last


async def test_seeding_is_counted_until_it_ends(crawl_of: Crawls) -> None:
    one, two = crawl_of("w1"), crawl_of("w2")
    assert (await one.workers.beat(seeding=True)).seeding == 1
    assert (await two.workers.beat(seeding=True)).seeding == 2
    assert (await one.workers.beat()).seeding == 1
    assert (await two.workers.beat()).seeding == 0
    await two.workers.beat(seeding=True)
    await two.workers.leave()
    assert (await one.workers.beat()).seeding == 0


async def test_totals_cover_all_workers_and_runs(crawl_of: Crawls) -> None:
    one, two = crawl_of("w1"), crawl_of("w2")
    await one.workers.beat(counted={"pages": 3, "status.200": 4})
    await two.workers.beat(counted={"pages": 2, "bytes": 10**12})
    await one.workers.leave({"pages": 1})
    totals = await two.totals()
    assert (totals["pages"], totals["status.200"], totals["bytes"]) == (6, 4, 10**12)
    assert "pages" not in await crawl_of("w1", "another").totals()


@pytest.mark.parametrize("late", [False, True])
async def test_a_repeated_tally_counts_once(crawl_of: Crawls, late: bool) -> None:
    """Its reply was lost, or it was delayed on an abandoned connection."""
    one, two = crawl_of("w1", seconds=0.001), crawl_of("w2")
    await one.workers.beat()
    await two.workers.beat()
    assert await one.workers.reserve_pages(6, 10) == 6
    first, second = one.workers.tally({"pages": 2}, permits=2), one.workers.tally({"pages": 1}, permits=1)
    for call in [first, first, second, first] if late else [first, first, second, second]:
        await one.engine.run(call)
        await past(one.engine, 0.001)
        await two.workers.beat()  # finds the first worker dead at times
    assert (await two.totals())["pages"] == 3


async def test_counters_count_once_despite_lost_replies(redis_url: str, crawl_of: Crawls) -> None:
    engine = Losing(redis_url)
    crawl = Crawl(engine, Keys("crawl", 4), "w1", 60.0)
    lost = granted = 0
    for step in range(1, 13):
        try:
            if step % 4 == 0:
                granted += await crawl.workers.reserve_pages(3, 1000)
            elif step == 11:
                await crawl.workers.leave({"pages": 1})
            else:
                await crawl.workers.beat(counted={"pages": 1}, permits=min(granted, 1))
                granted -= min(granted, 1)
        except UNAVAILABLE:
            lost += 1
    while lost < 99:
        try:
            await crawl.workers.beat()
            break
        except UNAVAILABLE:
            lost += 1
    await engine.close()
    assert 2 <= lost < 99
    assert (await crawl_of("w2").totals())["pages"] == 9


async def test_a_permit_freed_during_a_reservation_is_not_lost(crawl_of: Crawls) -> None:
    """With a lost permit, a crawl would never reach its page limit."""
    permits = Permits(crawl_of("w1"), 3)
    assert await permits.reserve(1) and permits.take()
    asked = asyncio.create_task(permits.reserve(1))
    await asyncio.sleep(0)
    permits.settle(page=False)
    await asked
    assert [permits.take() for _ in range(4)] == [True, True, True, False]


async def test_permits_are_reserved_before_the_last_one_is_taken(crawl_of: Crawls) -> None:
    """A worker that stops for each reservation takes seven times as long."""
    permits, pages, reserved = Permits(crawl_of("w1"), 3_000), 0, 0
    assert not permits.take() and permits.low
    assert await permits.reserve(32)
    while pages < 2_900:
        for _ in range(16):
            assert permits.take()
            permits.settle(page=True)
        pages += 16
        if permits.low:
            assert await permits.reserve(32)
            reserved += 1
    assert reserved < pages / 16
    while permits.take() or await permits.reserve(0) and permits.take():
        pages += 1
    assert pages == 3_000


async def test_permits_that_are_not_needed_go_back(crawl_of: Crawls, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("webcrawl.worker.membership.time.monotonic", lambda: now)
    permits = Permits(crawl_of("w1"), 100)
    await permits.reserve(40)
    permits.give_back_unneeded(due=2)
    assert permits.take_used() == 0, "too early to say"
    now = 1.0
    permits.give_back_unneeded(due=2)
    assert permits.take_used() == 38
    now = 2.0
    permits.give_back_unneeded(due=0)
    assert permits.take_used() == 2 and not permits.take()


async def test_permits_of_a_lost_reply_are_granted_again(redis_url: str, crawl_of: Crawls) -> None:
    engine = Losing(redis_url)
    engine.scripts = ("permit",)
    crawl = Crawl(engine, Keys("crawl", 4), "w1", 60.0)
    await crawl.workers.beat()
    assert await crawl.workers.reserve_pages(2, 10) == 2
    with pytest.raises(UNAVAILABLE):
        await crawl.workers.reserve_pages(8, 10)
    assert await crawl.workers.reserve_pages(8, 10) == 8
    await engine.close()


async def test_hosts_are_counted_once(crawl_of: Crawls) -> None:
    one, two = crawl_of("w1"), crawl_of("w2")
    await one.count_hosts(f"http://h{n}.test" for n in range(300))
    await two.count_hosts(f"http://h{n}.test" for n in range(200, 400))
    await two.count_hosts([])
    assert await one.host_count() == pytest.approx(400, rel=0.02)


async def test_sets_are_shared_by_all_workers(crawl_of: Crawls) -> None:
    one, two = crawl_of("w1"), crawl_of("w2")
    await one.sets.add("seeds", ["a.test 80", "ö.test 8080"])
    await two.sets.add("seeds", ["a.test 80"])
    await two.sets.add("scope", [])
    assert await two.sets.members("seeds") == {"a.test 80", "ö.test 8080"}
    assert await two.sets.members("scope") == set()


async def test_active_time_counts_once_for_all_workers_and_not_between_runs(
    crawl_of: Crawls, valkey: Redis
) -> None:
    one, two = crawl_of("w1"), crawl_of("w2")
    begun = time.monotonic()
    await one.workers.beat()
    for _ in range(10):
        await one.workers.beat()
        await two.workers.beat()
        await past(one.engine)
    await one.workers.leave()
    await two.workers.leave()
    worked = (await one.totals())["active_ms"]
    assert 10 <= worked <= (time.monotonic() - begun) * 1000 + 1
    # as if the last heartbeat were a long time ago
    valkey.hset(one.keys.own("totals"), "beat", 0)
    await one.workers.beat()
    assert (await one.totals())["active_ms"] == worked


async def test_permits_are_granted_up_to_the_limit(crawl_of: Crawls) -> None:
    one, two = crawl_of("w1"), crawl_of("w2")
    await one.workers.beat()
    await two.workers.beat()
    assert [
        await one.workers.reserve_pages(6, 10),
        await two.workers.reserve_pages(6, 10),
        await two.workers.reserve_pages(6, 10),
        await one.workers.reserve_pages(6, 10),
        await one.workers.reserve_pages(6, 10),
    ] == [5, 3, 1, 1, 0], "each gets half of what is left"
    assert await crawl_of("w1", "another").workers.reserve_pages(3, 10) == 3, "each crawl has its own limit"


async def test_pages_and_permits_change_together(crawl_of: Crawls) -> None:
    one, two = crawl_of("w1"), crawl_of("w2")
    for crawl in (one, two):
        await crawl.workers.beat()
    assert await one.workers.reserve_pages(6, 20) == 6
    await one.engine.run(one.workers.tally({"pages": 4}, permits=4))
    assert await two.workers.reserve_pages(20, 20) == 7, (
        "four pages are counted, two are reserved: half of 14"
    )
    await one.engine.run(one.workers.tally({}, permits=2))
    await one.workers.leave()
    assert await two.workers.reserve_pages(20, 20) == 9, "two permits were returned unused"


@pytest.mark.parametrize("how", ["silent", "left"])
async def test_permits_of_a_departed_worker_are_free_again(crawl_of: Crawls, how: str) -> None:
    gone, alive = crawl_of("gone", seconds=0.001 if how == "silent" else 60), crawl_of("alive")
    await alive.workers.beat()
    await gone.workers.beat()
    await gone.workers.reserve_pages(8, 10)
    if how == "left":
        await gone.workers.leave({"pages": 3})
    await past(alive.engine, 0.001)
    assert await alive.workers.reserve_pages(10, 10) == (10 if how == "silent" else 7)


async def test_forget_drops_all_workers_and_their_permits(crawl_of: Crawls) -> None:
    dead, alive = crawl_of("dead"), crawl_of("alive")
    await dead.workers.beat(seeding=True)
    await dead.workers.reserve_pages(10, 10)
    await alive.workers.forget()
    assert (await alive.workers.beat()).seeding == 0
    assert await alive.workers.names() == ["alive"]
    assert await alive.workers.reserve_pages(10, 10) == 10


steps = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.sampled_from(["ask", "page", "nothing", "leave"]),
        st.integers(1, 5),
        sent,
    ),
    max_size=40,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps, st.integers(1, 12))
def test_reserved_and_fetched_never_exceed_the_limit(
    crawl_of: Crawls,
    runner: asyncio.Runner,
    valkey: Redis,
    steps: list[tuple[str, str, int, int]],
    limit: int,
) -> None:
    run = runner.run
    valkey.flushall()
    crawls, free, pages = {name: crawl_of(name) for name in "abc"}, dict.fromkeys("abc", 0), 0
    alive: set[str] = set()
    for name, what, amount, times in steps:
        crawl, amount = crawls[name], min(amount, free[name] if what != "ask" else amount)
        run(crawl.workers.beat())
        alive.add(name)
        if what == "ask":
            granted = run(crawl.workers.reserve_pages(amount, limit))
            left = limit - pages - sum(free.values())
            assert granted == min(amount, math.ceil(left / len(alive)))
            free[name] += granted
        elif what == "leave":
            run(crawl.workers.leave())
            alive.remove(name)
            free[name] = 0
        else:
            done = amount if what == "page" else 0
            tally = crawl.workers.tally({"pages": done}, permits=amount)
            for _ in range(times):
                run(crawl.engine.run(tally))
            free[name] -= amount
            pages += done
    assert run(crawls["a"].totals()).get("pages", 0) == pages <= limit
