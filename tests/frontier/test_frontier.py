"""The guarantees of a frontier, after the conformance suite of URLFrontier: one behaviour in each test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st
from redis import Redis

from tests.cases import cases
from tests.frontier.pages import all_done, hash_of, page, past, silence_over, urls_of
from webcrawl.engine.keys import Keys
from webcrawl.errors import ConfigurationError
from webcrawl.frontier import Frontier, Lease, Settlement
from webcrawl.frontier.recent import RecentCache
from webcrawl.policies.traffic import CLASSES, UPDATE_CHK

HOST = "http://a.test"
OTHER = "http://b.test"

Frontiers = Callable[..., Frontier]


async def lease_one(frontier: Frontier, urls: int = 10) -> Lease:
    """Lease the only host that is ready."""
    (lease,) = await frontier.lease(100, urls)
    return lease


async def test_a_leased_url_is_hidden_until_its_lease_ends(frontier_of: Frontiers) -> None:
    first, second = frontier_of(worker="w1"), frontier_of(worker="w2")
    await first.add([page(f"{HOST}/1")])
    lease = await lease_one(first)
    assert await second.lease(10, 10) == []
    assert await second.reap() == (0, 0)
    first.lease_seconds = 0.001
    await first.extend([lease])
    await past(first.engine, 0.001)
    assert await second.reap() == (1, 0)
    assert urls_of(await second.lease(10, 10)) == [f"{HOST}/1"]


async def test_a_lease_that_is_extended_does_not_end(frontier_of: Frontiers) -> None:
    frontier, heart = frontier_of(lease_seconds=0.001), frontier_of(lease_seconds=60)
    await frontier.add([page(f"{HOST}/1")])
    lease = await lease_one(frontier)
    assert await heart.extend([lease]) == set()
    await past(frontier.engine, 0.002)
    assert await frontier.reap() == (0, 0)


async def test_a_done_url_never_comes_back(frontier: Frontier) -> None:
    await frontier.add([page(f"{HOST}/1")])
    lease = await lease_one(frontier)
    assert await frontier.release(lease, all_done(lease))
    assert await frontier.add([page(f"{HOST}/1")]) == [False]
    assert await frontier.lease(10, 10) == []
    assert await frontier.reap(everything=True) == (0, 0)
    assert await frontier.finished()


async def test_adding_a_known_url_changes_nothing_and_returns_false(frontier: Frontier) -> None:
    assert await frontier.add([page(f"{HOST}/1"), page(f"{HOST}/2"), page(f"{HOST}/1")]) == [
        True,
        True,
        False,
    ]
    before = await frontier.counts()
    assert await frontier.add([page(f"{HOST}/2", level=0)]) == [False]
    assert await frontier.counts() == before


async def test_without_a_fingerprint_a_url_is_queued_as_often_as_it_is_added(frontier: Frontier) -> None:
    again = [page(f"{HOST}/1", seen_test=False)] * 3
    assert await frontier.add(again) == [True] * 3
    assert urls_of([await lease_one(frontier)]) == [f"{HOST}/1"] * 3


async def test_equal_urls_without_fingerprint_are_not_merged_by_a_retry(frontier: Frontier) -> None:
    await frontier.add([page(f"{HOST}/1", seen_test=False)] * 2)
    lease = await lease_one(frontier)
    await frontier.release(lease, [Settlement(url.index, "retry") for url in lease.urls])
    assert urls_of([await lease_one(frontier)]) == [f"{HOST}/1"] * 2


async def test_a_blocked_host_is_skipped_until_the_block_ends(frontier: Frontier) -> None:
    await frontier.add([page(f"{HOST}/1"), page(f"{OTHER}/1")])
    await frontier.block_until(HOST, 3600)
    assert urls_of(await frontier.lease(10, 10)) == [f"{OTHER}/1"]
    # not a short block from the beginning, which could end too early on a busy machine
    await silence_over(frontier, HOST)
    assert urls_of(await frontier.lease(10, 10)) == [f"{HOST}/1"]


async def test_a_block_outlasts_the_lease_during_which_it_is_set(frontier: Frontier) -> None:
    await frontier.add([page(f"{HOST}/{n}") for n in range(3)])
    lease = await lease_one(frontier, 1)
    await frontier.block_until(HOST, 3600)
    assert await frontier.acknowledge(lease, all_done(lease), more=1) == [], "no further URLs while blocked"
    await frontier.release(lease, pause=0)
    await past(frontier.engine)
    assert await frontier.lease(10, 10) == []


@pytest.mark.parametrize("workers", [1, 5])
async def test_one_delay_window_holds_for_any_number_of_workers(frontier_of: Frontiers, workers: int) -> None:
    crowd = [frontier_of(worker=f"w{n}") for n in range(workers)]
    await crowd[0].add([page(f"{HOST}/{n}") for n in range(3)])

    async def lease_all() -> list[Lease]:
        answers = await asyncio.gather(*(one.lease(1, 1) for one in crowd))
        return [lease for leases in answers for lease in leases]

    (lease,) = await lease_all()
    assert await lease_all() == []
    await crowd[0].release(lease, all_done(lease), pause=3600)
    assert await lease_all() == []
    await silence_over(crowd[0], HOST)
    assert len(await lease_all()) == 1


async def test_the_order_within_a_host_is_level_then_age(frontier: Frontier) -> None:
    levels = [5, 0, 3, 5, 0, 7, 3]
    await frontier.add([page(f"{HOST}/{n}", level=level) for n, level in enumerate(levels)])
    await frontier.add([page(f"{HOST}/late", level=1)])
    lease = await lease_one(frontier, 2)
    more = await frontier.acknowledge(lease, more=100)
    assert more is not None
    order = [url.path for url in [*lease.urls, *more]]
    assert order == ["/1", "/4", "/late", "/2", "/6", "/0", "/3", "/5"]


async def test_high_levels_of_any_host_go_first(frontier_of: Frontiers) -> None:
    frontier = frontier_of(shards=1, low_share=0)
    await frontier.add([page(f"http://h{level}.test/", level=level) for level in (4, 2, 7, 0, 3)])
    await frontier.add([page("http://h7.test/sooner", level=1)])
    order = [(await frontier.lease(1, 1))[0].host for _ in range(5)]
    assert order == [f"http://h{level}.test" for level in (0, 7, 2, 3, 4)]


async def test_low_levels_have_a_share(frontier_of: Frontiers) -> None:
    frontier = frontier_of(shards=1, low_share=0.2)
    await frontier.add([page(f"http://high{n}.test/", level=0) for n in range(50)])
    await frontier.add([page(f"http://low{n}.test/", level=6) for n in range(50)])
    order = [(await frontier.lease(1, 1))[0].host for _ in range(40)]
    assert sum("low" in host for host in order) == pytest.approx(40 * 0.2, abs=1)


async def test_no_more_hosts_are_leased_than_asked_for(frontier_of: Frontiers) -> None:
    frontier = frontier_of(shards=8)
    hosts = [f"http://h{n}.test" for n in range(40)]
    await frontier.add([page(f"{host}/") for host in hosts])
    sizes = [len(await frontier.lease(wanted, 1)) for wanted in (1, 3, 0, 9, 100)]
    assert sizes == [1, 3, 0, 9, 27]


async def test_every_ready_host_is_found_among_hosts_that_are_not(frontier_of: Frontiers) -> None:
    ours, theirs = frontier_of("ours", shards=1), frontier_of("theirs", shards=1)
    hosts = [f"http://h{n}.test" for n in range(6)]
    for frontier in (ours, theirs):
        await frontier.add([page(f"{host}/") for host in hosts])
    assert len(await theirs.lease(5, 1)) == 5
    assert urls_of(await ours.lease(1, 1)) == ["http://h5.test/"]


async def test_crawls_are_isolated_by_id(frontier_of: Frontiers) -> None:
    ours, theirs = frontier_of("ours"), frontier_of("theirs")
    assert await ours.add([page(f"{HOST}/1"), page(f"{HOST}/2")]) == [True, True]
    assert await theirs.add([page(f"{HOST}/1")]) == [True]
    lease = await lease_one(ours)
    await ours.release(lease, all_done(lease))
    assert await ours.finished() and not await theirs.finished()
    await ours.clear()
    assert (await ours.counts()).seen == 0
    assert (await theirs.counts()).queued == 1


async def test_crawls_share_the_politeness_of_a_host(frontier_of: Frontiers) -> None:
    ours, theirs = frontier_of("ours"), frontier_of("theirs")
    for frontier in (ours, theirs):
        await frontier.add([page(f"{HOST}/1")])
    lease = await lease_one(ours)
    assert await theirs.lease(10, 10) == [], "held by the other crawl"
    await ours.release(lease, all_done(lease), pause=3600)
    await past(ours.engine)
    assert await theirs.lease(10, 10) == [], "the other crawl requested it a moment ago"


@pytest.mark.parametrize("ending", ["reap", "release", "extend"])
async def test_an_expired_lease_does_not_free_a_host_leased_by_another_crawl(
    frontier_of: Frontiers, ending: str
) -> None:
    ours, theirs = frontier_of("ours", lease_seconds=0.001), frontier_of("theirs")
    for frontier in (ours, theirs):
        await frontier.add([page(f"{HOST}/1")])
    stale = await lease_one(ours)
    await past(ours.engine, 0.001)
    await lease_one(theirs)
    match ending:
        case "reap":
            await ours.reap()
        case "release":
            await ours.release(stale)
            await ours.reap()
        case "extend":
            assert await ours.extend([stale]) == {HOST}
            await past(ours.engine, 0.001)
            await ours.reap()
    await past(ours.engine)
    assert await ours.lease(10, 10) == []


async def test_limits_and_delays_can_be_set_before_a_host_is_known(frontier: Frontier) -> None:
    await frontier.set_delay(HOST, 2.5)
    await frontier.block_until(OTHER, 3600)
    await frontier.add([page(f"{HOST}/1"), page(f"{OTHER}/1")])
    lease = await lease_one(frontier)
    assert (lease.host, lease.delay) == (HOST, 2.5)
    await frontier.release(lease)
    await frontier.set_delay(HOST, None)
    assert (await lease_one(frontier)).delay is None


async def test_an_expired_lease_returns_its_urls_in_order(frontier_of: Frontiers) -> None:
    frontier = frontier_of(lease_seconds=0.001)
    await frontier.add([page(f"{HOST}/{n}", level=3 + n // 3) for n in range(6)])
    lease = await lease_one(frontier, 3)
    await frontier.acknowledge(lease, [Settlement(2)], more=2)
    await frontier.add([page(f"{HOST}/6", level=3)])
    await past(frontier.engine, 0.001)
    await frontier.reap()
    lease = await lease_one(frontier)
    assert [url.path for url in lease.urls] == ["/0", "/2", "/6", "/3", "/4", "/5"]
    assert [url.returns for url in lease.urls] == [1, 1, 0, 1, 1, 0]


async def test_released_unsettled_urls_keep_their_place_and_counters(frontier: Frontier) -> None:
    await frontier.add([page(f"{HOST}/{n}") for n in range(4)])
    await frontier.release(await lease_one(frontier, 3), [Settlement(2)])
    lease = await lease_one(frontier)
    assert [(url.path, url.attempts, url.returns) for url in lease.urls] == [
        (path, 0, 0) for path in ("/0", "/2", "/3")
    ]


async def test_hosts_of_a_dead_worker_pause_before_the_next_lease(frontier: Frontier) -> None:
    await frontier.add([page(f"{HOST}/1")])
    await lease_one(frontier)
    await frontier.reap(everything=True, delay=3600)
    await past(frontier.engine)
    assert await frontier.lease(10, 10) == []


async def test_the_pause_after_a_dead_worker_includes_a_pending_response(frontier: Frontier) -> None:
    """The gap of the host begins only after the response may have arrived."""
    await frontier.add([page(f"{HOST}/1")])
    await frontier.set_delay(HOST, 600.0)
    await lease_one(frontier)
    await frontier.reap(everything=True, delay=1.0, answer=3000.0)
    assert 3500 < (await frontier.host(HOST)).waits <= 3600


@pytest.mark.parametrize("cleared", [False, True])
async def test_reports_under_a_stale_token_are_refused(frontier_of: Frontiers, cleared: bool) -> None:
    dead, alive = frontier_of(worker="dead"), frontier_of(worker="alive")
    await dead.add([page(f"{HOST}/1")])
    stale = await lease_one(dead)
    await dead.reap(everything=True)
    if cleared:
        await alive.clear()
        await alive.add([page(f"{HOST}/1")])
    await past(alive.engine)
    fresh = await lease_one(alive)
    before = await alive.counts()
    assert await dead.acknowledge(stale, all_done(stale), more=5) is None
    assert not await dead.release(stale, all_done(stale))
    assert await dead.extend([stale]) == {HOST}
    assert await alive.counts() == replace(before, refused=2), "reports are refused and counted"
    assert await alive.release(fresh, all_done(fresh))


async def test_a_retry_comes_back_after_its_delay_and_counts_the_attempt(frontier: Frontier) -> None:
    await frontier.add([page(f"{HOST}/1")])
    lease = await lease_one(frontier)
    await frontier.release(lease, [Settlement(lease.urls[0].index, "retry", delay=0.5)])
    assert (await frontier.counts()).later == 1
    assert await frontier.lease(10, 10) == []
    await past(frontier.engine, 0.5)
    (url,) = (await lease_one(frontier)).urls
    assert (url.path, url.attempts, url.returns) == ("/1", 1, 0)


async def test_simultaneous_retries_come_back_in_order(frontier: Frontier) -> None:
    await frontier.add([page(f"{HOST}/{n}") for n in range(25)])
    lease = await lease_one(frontier, 25)
    await frontier.release(lease, [Settlement(url.index, "retry") for url in lease.urls])
    assert [url.path for url in (await lease_one(frontier, 25)).urls] == [f"/{n}" for n in range(25)]


@settings(max_examples=80)
@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=60), st.integers(1, 20))
def test_the_recent_cache_reports_no_unknown_fingerprint(fingerprints: list[int], capacity: int) -> None:
    cache, known = RecentCache(capacity), set()
    for fingerprint in fingerprints:
        if not cache.add(fingerprint):
            assert fingerprint in known, "the cache holds a URL that was never added"
        known.add(fingerprint)
        assert fingerprint in cache
    cache.clear()
    assert not any(fingerprint in cache for fingerprint in known)


@cases("crawl", ["", "a b", "a:b", "{a}", "ö", "x" * 65])
def test_invalid_crawl_ids_are_refused(crawl: str) -> None:
    with pytest.raises(ConfigurationError, match="CRAWL_ID"):
        Keys(crawl, 16)


@pytest.mark.parametrize("crawl", ["host", "robots"])
async def test_clear_keeps_shared_records_for_any_crawl_id(
    frontier_of: Frontiers, valkey: Redis, crawl: str
) -> None:
    frontier = frontier_of(crawl)
    await frontier.block_until(HOST, 3600)
    valkey.set(frontier.keys.robots(HOST), b"policy")
    await frontier.add([page(f"{HOST}/1", fingerprint=hash_of("1"))])
    await frontier.clear()
    assert valkey.exists(frontier.keys.host(HOST), frontier.keys.robots(HOST)) == 2


async def test_the_class_of_a_fetch_stays_until_the_url_comes_back(frontier: Frontier) -> None:
    """It is kept by a retry, a returned lease and another level; a URL that comes back gets the class it is given."""
    names = [name for name in CLASSES for _ in range(3)]
    pages = [
        replace(page(f"http://a.test/{n}", level=n % 8), fetch_class=name) for n, name in enumerate(names)
    ]
    await frontier.add(pages)
    [lease] = await frontier.lease(1, 20)
    assert {int(url.path[1:]): url.fetch_class for url in lease.urls} == dict(enumerate(names))
    assert all(url.level == int(url.path[1:]) % 8 for url in lease.urls)
    verdicts = ["retry", "again", "sink"] * len(CLASSES)
    reasons, next_classes = {"sink": "7"}, {"again": UPDATE_CHK}
    by_path = sorted(lease.urls, key=lambda url: int(url.path[1:]))
    settled = [
        Settlement(url.index, verdict, 0.001, reasons.get(verdict, ""), next_class=next_classes.get(verdict))
        for url, verdict in zip(by_path[:12], verdicts, strict=False)
    ]
    await frontier.release(lease, settled)
    await asyncio.sleep(0.01)
    again = [url for lease in await frontier.lease(1, 20) for url in lease.urls]
    expected = {n: UPDATE_CHK if n < 12 and verdicts[n] == "again" else name for n, name in enumerate(names)}
    assert {int(url.path[1:]): url.fetch_class for url in again} == expected
    assert all(
        url.level == 7 for url in again if verdicts[int(url.path[1:])] == "sink" and int(url.path[1:]) < 12
    )
