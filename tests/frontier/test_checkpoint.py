"""Checkpoints of a frontier: whatever workers do meanwhile, no URL is lost and no settled URL comes back."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from redis import Redis

from tests.frontier.copying import (
    HOSTS,
    NEVER,
    VERBS,
    Crawling,
    Frontiers,
    Interleaved,
    Step,
    compare,
    copied,
    drained,
    exporter_of,
    records_of,
    restore,
)
from tests.frontier.pages import all_done, page
from webcrawl.engine.keys import Keys
from webcrawl.errors import StoreError
from webcrawl.frontier import Crawl, Frontier, HostLimits, Settlement
from webcrawl.stores.duplicate_index import DuplicateIndex
from webcrawl.stores.sealed.run_list import RunList

verbs = st.tuples(st.sampled_from(VERBS), st.integers(0, 60))


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    st.lists(verbs, max_size=15),
    st.lists(st.lists(verbs, max_size=2), max_size=40),
    st.integers(1, 4),
    st.integers(1, 5),
)
def test_concurrent_operations_neither_lose_nor_revive_urls(
    interleaved: Interleaved, before: list[Step], meanwhile: list[list[Step]], shards: int, others: int
) -> None:
    interleaved([("add", 3), *before], meanwhile, shards, others)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.sampled_from([*VERBS, *["better"] * 4]), st.integers(0, 40)), max_size=20),
    st.lists(
        st.lists(st.tuples(st.sampled_from([*VERBS, "better"]), st.integers(0, 40)), max_size=2), max_size=15
    ),
    st.integers(1, 4),
    st.integers(1, 5),
)
def test_urls_that_were_queued_again_are_restored_once(
    interleaved: Interleaved, before: list[Step], meanwhile: list[list[Step]], shards: int, others: int
) -> None:
    interleaved([("add", 3), *before], meanwhile, shards, others, importance=True)


@pytest.mark.parametrize("verb", ["lease", "settle", "reap", "requeue"])
async def test_an_operation_between_any_two_steps_loses_nothing(
    frontier_of: Frontiers, valkey: Redis, verb: str
) -> None:
    """URLs are in every structure; the operation moves some of them before, between or after the reads."""
    one = frontier_of(lease_seconds=NEVER)
    for place, times in zip(range(20), cycle((4, 1, 4)), strict=False):
        valkey.flushall()
        crawl, copy = replace(one, keys=Keys("crawl", 1)), replace(one, keys=Keys("copy", 2))
        crawling = Crawling(crawl)
        for number in (0, 3):
            await crawling.do("add", number)
        *leases, kept = await crawl.lease(5, 1)
        crawling.leases = [kept]
        for lease, verdict in zip(leases, ["retry", "dead", "again", "done"], strict=True):
            await crawl.release(lease, [Settlement(1, verdict)])  # type: ignore[arg-type]
            crawling.settled |= {url.url for url in lease.urls if verdict == "done"}
        meanwhile: list[list[Step]] = [[] for _ in range(place)]
        await compare(crawling, copy, valkey, [], [*meanwhile, [(verb, number) for number in range(times)]])


@pytest.mark.parametrize("shards", [1, 7])
async def test_a_long_queue_keeps_its_order(frontier_of: Frontiers, shards: int) -> None:
    crawl, copy = frontier_of(), frontier_of("copy", shards=shards)
    urls = [f"{HOSTS[0]}/{n}" for n in range(800)]
    await crawl.add([page(url) for url in urls])
    await crawl.lease(1, 20)
    await copied(crawl, copy, batch=50)
    assert await drained(copy) == urls


async def test_a_long_queue_can_change_while_it_is_read(frontier_of: Frontiers) -> None:
    crawl, copy = frontier_of(lease_seconds=NEVER), frontier_of("copy", shards=1)
    urls = [f"{HOSTS[0]}/{n}" for n in range(1000)]
    await crawl.add([page(url) for url in urls])
    lease = (await crawl.lease(1, 5))[0]
    exporter = exporter_of(crawl, batch=50)
    await exporter.begin()
    taken, more = [], 0
    async for step in records_of(exporter):
        taken.append(step)
        await crawl.add([page(f"{HOSTS[0]}/new{more + n}") for n in range(30)])
        await crawl.acknowledge(lease, all_done(lease), more=20)
        more += 30
    await restore(copy, taken)
    found = await drained(copy)
    assert set(urls) <= set(found)
    assert len(found) == len(set(found))
    assert not await crawl.engine.client.keys("*:reading")


async def test_a_full_engine_can_be_copied(frontier_of: Frontiers, valkey: Redis) -> None:
    crawl, copy = frontier_of(), frontier_of("copy")
    urls = [f"{HOSTS[0]}/{n}" for n in range(30)]
    await crawl.add([page(url) for url in urls])
    exporter = exporter_of(crawl, batch=5)
    valkey.script_flush()
    valkey.config_set("maxmemory", "1")
    try:
        await exporter.begin()
        taken = [one async for one in records_of(exporter)]
    finally:
        valkey.config_set("maxmemory", "0")
    await restore(copy, taken)
    assert await drained(copy) == urls


async def test_limits_scope_and_indexes_are_restored(frontier_of: Frontiers) -> None:
    crawl, copy = frontier_of(), frontier_of("copy", shards=3)
    crawls = [Crawl(one.engine, one.keys, "w1") for one in (crawl, copy)]
    blocked, limited, later = HOSTS[:3]
    await crawl.add([page(f"{host}/{n}") for host in HOSTS for n in range(3)])
    await crawl.block(blocked)
    await crawl.limit(limited, HostLimits(pages=5, depth=2))
    await crawl.set_delay(limited, 7.0)
    await crawl.block_until(later, 900.0)
    await crawl.schedule([page(f"{later}/again")], NEVER)
    lease = next(one for one in await crawl.lease(9, 2) if one.host == limited)
    await crawl.acknowledge(lease, [Settlement(url.index, pages=1, bytes=500) for url in lease.urls])
    await crawls[0].pause()
    await crawls[0].limits_changed(HostLimits(pages=44))
    await crawls[0].set_scope_kind("host")
    await crawls[0].sets.add("scope", ["a.test"])
    await crawls[0].sets.add("seeds", ["a.test 80"])
    first = {"a.test 80": ["127.0.0.1", "::1"], "outer.test 80": []}
    for seed, addresses in first.items():
        await crawls[0].sets.first_addresses(seed, addresses)
    await crawls[0].count_hosts(HOSTS)
    await crawls[0].workers.beat(counted={"pages": 12})
    assert await DuplicateIndex(crawl.engine, crawl.keys).near_text(7, "first", 3) is None
    await crawl.engine.change(crawl.keys.checksum(b"digest00"), "HSET", b"digest00", b"1.0 first")
    await crawl.engine.change(crawl.keys.own("outdated"), "SADD", b"12345678")
    runs = RunList("duplicates-crawl-1", [("duplicates-crawl-1/a", 5, 6)], [("duplicates-crawl-1/b", 7.5)])
    await crawl.engine.change(crawl.keys.own("runs"), "SET", runs.encoded())
    exporter = exporter_of(crawl)
    await exporter.begin()
    taken = [one async for one in records_of(exporter)]
    for key in await crawl.engine.client.keys("wc:*:name:*"):
        await crawl.engine.client.delete(key)
    await restore(copy, taken)

    assert (await copy.host(blocked)).parked == "blocked"
    state = await copy.host(limited)
    assert (state.limits, state.pages, state.bytes) == (HostLimits(pages=5, depth=2), 2, 1000)
    assert (state.delay, state.leased, state.queued) == (7.0, False, 1)
    assert 800 < (await copy.host(later)).waits <= 900
    counts = await copy.counts()
    assert (counts.parked, counts.scheduled, counts.done, counts.added) == (3, 1, 2, 18)
    assert await crawls[1].paused()
    assert not await crawls[1].limits_changed(HostLimits(pages=44))
    assert await crawls[1].scope_kind() == "host"
    assert await crawls[1].sets.members("scope") == {"a.test"}
    assert await crawls[1].sets.members("seeds") == {"a.test 80"}
    for seed, addresses in first.items():
        assert await crawls[1].sets.first_addresses(seed, ["10.0.0.1"]) == addresses, "not the later answer"
    assert await crawls[1].host_count() == len(HOSTS)
    assert (await crawls[1].totals())["pages"] == 12
    assert await DuplicateIndex(copy.engine, copy.keys).near_text(2**40 + 7, "second", 3) == "first"
    assert await copy.engine.client.hget(copy.keys.checksum(b"digest00"), b"digest00") == b"1.0 first"
    assert await copy.engine.client.smembers(copy.keys.own("outdated")) == {b"12345678"}
    runs.folder = ""
    assert RunList.parse(await copy.engine.client.get(copy.keys.own("runs"))) == runs, (
        "the copy does not write into the folder of the crawl"
    )


async def test_only_one_checkpoint_is_written_at_a_time(frontier: Frontier) -> None:
    await frontier.add([page(f"{host}/") for host in HOSTS])
    first, second = (exporter_of(frontier, name) for name in ("first", "second"))
    await first.begin()
    with pytest.raises(StoreError, match="already being copied .first."):
        await second.begin()
    await first.renew()
    await first.end()
    await second.begin()
    # clearing the crawl, like a minute without `renew`, voids the checkpoint
    await frontier.clear()
    with pytest.raises(StoreError, match="run scrapy checkpoint again"):
        async for _ in records_of(second):
            pass


async def test_a_restart_of_the_engine_voids_a_checkpoint(
    frontier_of: Frontiers, durable_server: Any
) -> None:
    frontier = frontier_of(url=f"unix://{durable_server.unix_socket_path}")
    await frontier.add([page(f"{host}/") for host in HOSTS])
    exporter = exporter_of(frontier)
    await exporter.begin()
    durable_server.terminate()
    durable_server.start()
    with pytest.raises(StoreError, match="run scrapy checkpoint again"):
        await frontier.engine.retry_until_available(lambda: exporter.end([0]))
