"""The part of the seen set in the store: no URL is lost, none is new twice, and few new ones cost a read."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash
from hypothesis import given, strategies as st
from redis import Redis

from tests.frontier.cold import cold_of, damage, spill
from tests.frontier.consumer import Consumer, page_with
from tests.frontier.copying import copied
from tests.frontier.pages import page
from webcrawl.config import PolitenessConfig
from webcrawl.engine.keys import Keys
from webcrawl.errors import ConfigurationError, PartLost, StoreError, StoreUnavailable
from webcrawl.frontier import Candidate, Crawl, Frontier, Settlement
from webcrawl.frontier.adding import Addition
from webcrawl.frontier.cold_bucket import (
    MOST_MARKS,
    as_marks,
    have_marks,
    pack_marks,
    pieces_of,
    unpack_marks,
)
from webcrawl.frontier.cold_move import SeenMove
from webcrawl.frontier.cold_seen import MAYBE, seen_call
from webcrawl.frontier.gauges import gauges
from webcrawl.frontier.tails import Tails
from webcrawl.worker import worker as worker_module

LEAST, MOST = -(2**63), 2**63 - 1
Frontiers = Callable[..., Frontier]

edges = st.sampled_from([LEAST, LEAST + 1, -(10**9), -1, 0, 1, 10**9, MOST - 1, MOST])
marks = st.sets(st.integers(LEAST, MOST) | edges, min_size=1, max_size=50).map(
    lambda found: as_marks(sorted(found))
)


def some(numbers: Iterator[int], hosts: int = 30) -> list[Candidate]:
    """URLs with fingerprints whose bits are all random, like those of a crawl."""
    return [
        Candidate(f"http://h{n % hosts}.test", f"/{n}", xxhash.xxh3_64_intdigest(f"{n}".encode()))
        for n in numbers
    ]


@given(marks, st.sets(st.integers(LEAST, MOST) | edges))
def test_a_bucket_is_stored_whole(found: np.ndarray, others: set[int]) -> None:
    without = others - {*found.tolist()}
    content, [empty, part] = pack_marks("name", [found[:0], found])
    raw = content[part.offset : part.offset + part.length]
    assert unpack_marks(raw, part).tolist() == found.tolist()
    assert unpack_marks(content[empty.offset : empty.offset + empty.length], empty).tolist() == []
    assert have_marks(found, [*found.tolist(), *without]) == [True] * len(found) + [False] * len(without)
    assert have_marks(found[:0], [*without]) == [False] * len(without)
    with pytest.raises(PartLost):
        unpack_marks(raw[:-1] + bytes([raw[-1] ^ 1]), part)


@given(marks, st.integers(1, 8))
def test_equal_doubles_stay_in_a_piece(found: np.ndarray, near: int) -> None:
    crowd = np.unique(np.concatenate([found + step for step in range(near)]))
    pieces = [piece.astype(np.float64) for piece in pieces_of(np.repeat(crowd, 9000)[:: max(1, near)])]
    assert all(before[-1] < after[0] for before, after in zip(pieces, pieces[1:], strict=False))


def test_a_large_bucket_is_cut_into_equal_pieces() -> None:
    found = np.unique(np.random.default_rng(1).integers(LEAST, MOST, 5 * MOST_MARKS // 2))
    sizes = [len(piece) for piece in pieces_of(found)]
    assert len(sizes) == 3 and max(sizes) <= min(sizes) + 1


@pytest.mark.parametrize("shards", [1, 3])
async def test_known_urls_stay_known_in_the_store(
    frontier_of: Frontiers, valkey: Redis, tmp_path: Path, shards: int
) -> None:
    frontier = frontier_of(shards=shards)
    cold_of(frontier, tmp_path)
    numbers = random.Random(1)
    known: set[int] = set()
    for size in (9_000, 5_000, 3_000):
        new = [len(known) + n for n in range(size)]
        batch = new + numbers.sample(sorted(known), min(len(known), 2000))
        numbers.shuffle(batch)
        fresh = set(new)
        assert await frontier.add(some(iter(batch))) == [n in fresh for n in batch]
        known |= fresh
        assert await spill(frontier) > 0
        assert (await frontier.counts()).seen == len(known)
    hot = sum(valkey.scard(key) for key in valkey.scan_iter("wc:*:seen:[0-9]*"))
    assert hot == 0
    assert await frontier.add(some(iter(range(len(known))))) == [False] * len(known)
    assert (await frontier.counts()).seen == (await frontier.counts()).queued == len(known)
    assert await frontier.is_seen("http://h0.test", some(iter([0]))[0].fingerprint or 0)
    assert not await frontier.is_seen("http://h0.test", 1)


async def test_few_new_urls_of_cold_hosts_cost_a_read(frontier_of: Frontiers, tmp_path: Path) -> None:
    frontier, counters = frontier_of(), Counter[str]()
    cold = cold_of(frontier, tmp_path)
    cold.start(tuple, counters)
    await cold.stop()
    urls = some(iter(range(30_000)))
    await frontier.add(urls[:20_000])
    await spill(frontier)
    assert all(await frontier.add(urls[20_000:]))
    assert 0 < counters["cold_new"] < 200 and not counters["cold_known"]
    assert (await frontier.counts()).cold == 20_000
    assert (await gauges(frontier)).cold_buckets >= counters["cold_reads"] > 0
    assert not any(await frontier.add(urls[:100]))
    assert counters["cold_known"] == 100
    assert not any(await frontier.add(urls[:100])), "they are in the engine now"
    assert counters["cold_known"] == 100
    assert (await frontier.counts()).cold == 19_900


@pytest.mark.slow
async def test_an_engine_with_little_memory_knows_more_urls_than_it_can_hold(
    frontier_of: Frontiers, valkey: Redis, tmp_path: Path
) -> None:
    """In the engine alone, the known URLs would take 1.7 MB, more than there is."""
    frontier, urls = frontier_of(shards=2), 200_000
    cold = cold_of(frontier, tmp_path, least_hot=10_000, look_seconds=0.01)
    await frontier.add(some(iter(range(2000))))
    valkey.config_set("maxmemory", valkey.info("memory")["used_memory"] + 1_500_000)
    cold.start(lambda: range(2))
    try:
        for start in range(2000, urls, 2000):
            batch = some(iter(range(start, start + 2000)))
            # the engine may be full for a moment, and take a part of the batch
            await frontier.engine.retry_until_available(lambda batch=batch: frontier.add(batch))  # type: ignore[misc]
            # so that only known URLs take memory
            for shard in range(2):
                names = ["queued", *(f"{name}:{level}" for name in ("ready", "new") for level in range(8))]
                names += [f"q:http://h{n}.test 3" for n in range(30)]
                valkey.unlink(*(frontier.keys.queue(shard)[0] + name for name in names))
    finally:
        await cold.stop()
        valkey.config_set("maxmemory", 0)
    counts = await frontier.counts()
    assert counts.seen == urls
    numbers = random.Random(2).sample(range(urls), 3000)
    assert not any(await frontier.add(some(iter(numbers))))


@pytest.mark.parametrize("gone", ["folder", "segment", "end", "byte"])
async def test_links_wait_for_the_store_and_a_lost_segment_is_fetched_again(
    frontier_of: Frontiers, tmp_path: Path, caplog: pytest.LogCaptureFixture, gone: str
) -> None:
    frontier = frontier_of(shards=1)
    cold_of(frontier, tmp_path)
    urls = some(iter(range(100)))
    await frontier.add(urls)
    await spill(frontier)
    (segment,) = tmp_path.glob("*/0000/*")
    if gone != "folder":
        damage(segment, gone)
        assert await frontier.add(urls[:50]) == [True] * 50
        assert await frontier.add(urls[:50]) == [False] * 50
        assert "100 URLs are no longer known, and may be fetched again" in caplog.text
        return
    folder, away = segment.parent.parent, tmp_path / "away"
    folder.rename(away)
    with pytest.raises(StoreError):
        await frontier.is_seen("http://h0.test", urls[0].fingerprint or 0)
    addition = Addition(some(iter(range(50, 150))))
    for _ in range(2):
        with pytest.raises(StoreError):
            await frontier.add(addition)
    away.rename(folder)
    assert await frontier.add(addition) == [False] * 50 + [True] * 50
    assert addition.is_complete


async def test_a_slow_store_is_read_once(
    frontier_of: Frontiers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frontier = frontier_of(shards=1, lease_seconds=0.4)
    cold = cold_of(frontier, tmp_path)
    await frontier.add(some(iter(range(100))))
    await spill(frontier)
    answers, asked, served = cold.answers, 0, asyncio.Event()

    async def slow(marks: list[int], parts: list[str]) -> list[str]:
        nonlocal asked
        asked += 1
        await served.wait()
        return await answers(marks, parts)

    monkeypatch.setattr(cold, "answers", slow)
    addition = Addition(some(iter(range(50, 150))))
    for _ in range(3):
        with pytest.raises(StoreUnavailable, match="does not answer"):
            await frontier.add(addition)
    served.set()
    while not addition.is_complete:
        with suppress(StoreUnavailable):
            await frontier.add(addition)
    assert addition.verdicts == [False] * 50 + [True] * 50
    assert asked == 1


async def spilled(frontier: Frontier) -> list[str]:
    """Fetches 50 URLs, and moves them to the store."""
    urls = [f"http://old.test/{n}" for n in range(50)]
    await frontier.add([page(url) for url in urls])
    (lease,) = await frontier.lease(1, 50)
    assert await frontier.release(lease, [Settlement(url.index) for url in lease.urls])
    assert await spill(frontier) == 50
    return urls


async def test_a_worker_returns_its_hosts_while_the_store_fails(
    frontier_of: Frontiers, tmp_path: Path
) -> None:
    """It sends heartbeats, tells the reason, and goes on when the store is back."""
    frontier = frontier_of(shards=1, lease_seconds=1.0)
    cold_of(frontier, tmp_path)
    old = await spilled(frontier)
    (folder,), away = tmp_path.iterdir(), tmp_path / "away"
    folder.rename(away)
    seeds = ["http://a.test/first", *(f"http://b{n}.test/{path}" for n in range(3) for path in range(3))]
    consumer = Consumer(
        frontier,
        lambda url: page_with([*old, "http://c.test/"] if url.url == seeds[0] else ()),
        politeness=PolitenessConfig(delay=0.3),
    )
    consumer.start(*seeds)
    heartbeat = consumer.worker.heartbeat
    await consumer.until(lambda: heartbeat.holds)
    kept = consumer.worker.hosts
    await consumer.until(lambda: all(host.settled for host in kept))  # only pages that wait for the links
    assert "http://a.test" in kept
    leases = frontier.keys.queue(0)[0] + "leases"
    ends = await frontier.engine.client.zscore(leases, "http://a.test")
    assert "does not exist" in heartbeat.backpressure.reason
    async with asyncio.timeout(10):  # until its lease is extended
        while await frontier.engine.client.zscore(leases, "http://a.test") <= ends:
            await asyncio.sleep(0.02)
    away.rename(folder)
    assert await consumer.end() == "finished"
    assert consumer.fetched == dict.fromkeys([*seeds, "http://c.test/"], 1)


async def test_a_worker_ends_while_the_store_fails(
    frontier_of: Frontiers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The page whose links it could not add is fetched again."""
    monkeypatch.setattr(worker_module, "STORE_SHUTDOWN_SECONDS", 0.1)
    frontier = frontier_of(shards=1, lease_seconds=1.0)
    cold_of(frontier, tmp_path)
    old = await spilled(frontier)
    (folder,), away = tmp_path.iterdir(), tmp_path / "away"
    folder.rename(away)
    consumer = Consumer(frontier, lambda url: page_with(old))
    consumer.start("http://a.test/")
    await consumer.until(lambda: consumer.worker.heartbeat.holds)
    await consumer.stop()
    assert "50 discovered URLs are left out" in caplog.text
    counts = await frontier.counts()
    assert (counts.queued, counts.leased, counts.done) == (1, 0, 50)


async def test_an_outdated_answer_is_asked_for_again(
    frontier_of: Frontiers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a URL that moved to the store after its bucket was read would be new a second time."""
    frontier, other = frontier_of(shards=1), frontier_of(shards=1, worker="w2")
    cold, _ = cold_of(frontier, tmp_path), cold_of(other, tmp_path)
    numbers = np.random.default_rng(1).integers(0, 2**48, 12_000).tolist()
    urls = [Candidate("http://a.test", f"/{number}", number) for number in numbers]
    await frontier.add(urls[:6000])
    await spill(frontier)
    marks = [frontier.keys.mark(url.host, url.fingerprint or 0) for url in urls]
    states = await frontier.engine.run_all([seen_call(frontier.keys, mark) for mark in marks])
    url = next(url for url, state in zip(urls[6000:], states[6000:], strict=True) if state == MAYBE)
    answers, asked = cold.answers, 0

    async def late(marks: list[int], parts: list[str]) -> list[str]:
        nonlocal asked
        asked += 1
        answered = await answers(marks, parts)
        if asked == 1:
            assert await other.add([url]) == [True]
            assert await spill(other)
        return answered

    monkeypatch.setattr(cold, "answers", late)
    assert await frontier.add([url]) == [False]
    assert asked == 2


async def test_marks_whose_bucket_was_not_replaced_stay_in_the_engine(
    frontier_of: Frontiers, valkey: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frontier = frontier_of(shards=1)
    cold_of(frontier, tmp_path)
    merge, calls = SeenMove._merge, 0

    async def every_second(move: SeenMove, news: list[Any]) -> list[bool]:
        nonlocal calls
        calls += 1
        return await merge(move, news) if calls % 2 else [False] * len(news)

    monkeypatch.setattr(SeenMove, "_merge", every_second)
    monkeypatch.setattr("webcrawl.frontier.cold_move._BUCKETS_AT_ONCE", 1)
    monkeypatch.setattr("webcrawl.frontier.cold_bucket.MOST_MARKS", 50)
    urls = some(iter(range(400)))
    await frontier.add(urls)
    moved = await spill(frontier)
    assert 0 < moved < 400
    assert sum(valkey.scard(key) for key in valkey.scan_iter("wc:*:seen:[0-9]*")) == 400 - moved
    assert not any(await frontier.add(urls))


async def test_who_has_no_store_is_told_where_known_urls_are(frontier_of: Frontiers, tmp_path: Path) -> None:
    frontier = frontier_of()
    cold_of(frontier, tmp_path)
    urls = some(iter(range(100)))
    await frontier.add(urls)
    await spill(frontier)
    with pytest.raises(ConfigurationError, match="FRONTIER_SPILL_URI"):
        await frontier_of(worker="w2").add(urls)
    record = Crawl(frontier.engine, frontier.keys, "w2")
    with pytest.raises(ConfigurationError, match="FRONTIER_SPILL_URI"):
        await Tails(frontier.engine, frontier.keys, record, None).check()


async def test_known_urls_of_leased_hosts_stay_in_the_engine(
    frontier_of: Frontiers, valkey: Redis, tmp_path: Path
) -> None:
    frontier = frontier_of(shards=1)
    cold_of(frontier, tmp_path)
    await frontier.add(some(iter(range(300))))
    (lease,) = await frontier.lease(1, 1)
    assert await spill(frontier) == 290
    (bucket,) = valkey.scan_iter("wc:*:seen:0")
    mark = frontier.keys.mark(lease.host, 0) >> 48
    assert {int(known) >> 48 for known in valkey.smembers(bucket)} == {mark}


async def test_a_checkpoint_has_what_is_in_the_store(
    frontier_of: Frontiers, valkey: Redis, tmp_path: Path
) -> None:
    frontier = frontier_of()
    cold_of(frontier, tmp_path)
    urls = some(iter(range(9_000)))
    await frontier.add(urls)
    assert await spill(frontier)
    await frontier.add(urls[:3])
    await frontier.add(some(iter(range(9_000, 9_100))))
    copy = replace(frontier, keys=Keys("copy", 3))
    await copied(frontier, copy, root=tmp_path)
    assert (await copy.counts()).seen == 9_100
    assert not any(await copy.add(urls + some(iter(range(9_000, 9_100)))))
