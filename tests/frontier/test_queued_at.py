"""Entries tell when their URLs were queued: all of an iteration, or a sample, whose waits are observed once each."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from hypothesis import example, given, strategies as st

from tests.cases import cases
from tests.frontier.consumer import Consumer, page_with
from tests.frontier.copying import copied
from tests.frontier.listed import change, set_urls
from tests.frontier.pages import all_done, page, tree
from tests.frontier.spilling import numbered, serve, spilling
from webcrawl.engine.scripts import script_call
from webcrawl.frontier import SAMPLE, Candidate, Crawl, Frontier, LeasedURL, Settlement
from webcrawl.frontier.credit import number_of, queue_again
from webcrawl.frontier.entry import queued_at_of, without_time
from webcrawl.metrics.observations import Observations

HOST = "http://a.test"
ITERATION = "news-20260327T053000Z"
LIKE_A_TIME = "\u00a512345"
"""The end of a path whose last bytes look like the time of an entry."""

Frontiers = Callable[..., Frontier]
paths = st.text(st.characters(codec="utf-8"), max_size=40)


def sampled(path: str = "/", **more: Any) -> Candidate:
    """A URL of the sample."""
    return page(f"{HOST}{path}", **more, fingerprint=SAMPLE * 7)


def in_sample(url: str) -> bool:
    return page(url).entry(1.0) != page(url).entry()


def replaced(fingerprint: int, level: int, depth: int, rise: int = 0) -> Candidate:
    return page(f"{HOST}/", fingerprint=fingerprint, level=level, depth=depth, rise=rise)


async def leased(frontier: Frontier) -> LeasedURL:
    """The only URL that is queued."""
    (lease,) = await frontier.lease(1, 9)
    (url,) = lease.urls
    return url


@given(
    paths.map("/".__add__),
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.integers(-1, 9),
    st.none() | st.binary(max_size=20),
    st.floats(0, 2**32),
    st.booleans(),
)
@example(f"/{LIKE_A_TIME}", 0, 3, None, 0.0, False)
@example(f"/{LIKE_A_TIME}", 1, 3, None, 0.0, False)
@example(f"/{LIKE_A_TIME}", 1, 3, None, 0.0, True)
@example("/61", None, 3, None, 1.0, False)
@example("/", -SAMPLE, 9, LIKE_A_TIME.encode(), 1.0, False)
def test_an_entry_keeps_its_time_and_nothing_else_changes(
    path: str, fingerprint: int | None, level: int, extra: bytes | None, at: float, timed: bool
) -> None:
    url = Candidate(HOST, path, fingerprint, level, 2, None, extra)
    plain, entry = url.entry(), url.entry(at, timed=timed)
    assert without_time(entry) == without_time(plain) == plain
    known, found = LeasedURL.decode(1, HOST, plain), LeasedURL.decode(1, HOST, entry)
    assert (known.queued_at, known.is_observed) == (None, False)
    in_sample = not (crc32(path.encode()) if fingerprint is None else fingerprint) % SAMPLE
    assert found.is_observed == in_sample and found.queued_at == queued_at_of(entry)
    if in_sample or timed:
        assert len(entry) == len(plain) + 6 and found.queued_at == pytest.approx(at, abs=0.0051)
    else:
        assert entry == plain
    assert replace(found, queued_at=None, is_observed=False) == known


@cases("more", [b"\x01", b"\xa5", b"\xa51234", b"\xa4" + bytes(5), b"\xa5" + bytes(6)])
def test_an_entry_with_anything_else_behind_it_is_damaged(more: bytes) -> None:
    with pytest.raises(ValueError, match="extra data"):
        LeasedURL.decode(1, HOST, sampled().entry() + more)


async def test_a_worker_observes_the_waits_of_the_sample(frontier_of: Frontiers) -> None:
    urls, links = tree(hosts=8, pages=120)
    observed, began = Observations(), time.time()
    consumer = Consumer(frontier_of(shards=4), lambda url: page_with(links[url.url]), observed=observed)
    await consumer.run(urls[0])
    sample = sum(map(in_sample, urls))
    assert 20 < sample < 100 and observed.stages["queue"].count == len(urls)
    assert observed.queued.count == sample
    assert 0 <= observed.queued.total <= sample * (time.time() - began + 0.01)


async def test_a_wait_lasts_from_when_the_url_was_queued_until_it_is_handed_out(frontier: Frontier) -> None:
    """These were queued an hour ago, as their entries say."""
    began, urls = time.time(), [page(url) for url in numbered(40)]
    call = script_call(
        "add",
        frontier.keys.queue(frontier.keys.shard(urls[0].host)),
        batch="",
        host={"host": [urls[0].host], "urls": [40], "rise": [""], "over": [""]},
        url={"mark": [""] * 40, "entry": [url.entry(began - 3600) for url in urls]},
    )
    await frontier.engine.run(call)
    observed = Observations()
    await Consumer(frontier, lambda url: page_with(), observed=observed).run()
    sample = sum(in_sample(url) for url in numbered(40))
    assert 0 < observed.queued.count == sample < 40
    assert -0.01 * sample <= observed.queued.total - 3600 * sample <= sample * (time.time() - began + 0.01)
    buckets = dict(zip(observed.queued.bounds, observed.queued.buckets(), strict=False))
    assert (buckets[900.0], buckets[3 * 3600.0]) == (0, sample)


@pytest.mark.parametrize("verdict", ["retry", "again", "dead", "returned"])
async def test_a_url_that_is_fetched_again_keeps_its_time_and_is_not_observed(
    frontier: Frontier, verdict: Any
) -> None:
    await frontier.add([sampled(depth=1, referrer=f"{HOST}/{LIKE_A_TIME}")])
    (lease,) = await frontier.lease(1, 1)
    assert lease.urls[0].is_observed
    if verdict == "returned":
        await frontier.reap(everything=True)
    else:
        await frontier.release(lease, [Settlement(lease.urls[0].index, verdict)])
    if verdict == "dead":
        await frontier.requeue([(HOST, f"{HOST}/")])
    url = await leased(frontier)
    assert not url.is_observed
    # entries of one URL with a date must be equal
    assert url.queued_at == (None if verdict == "again" else lease.urls[0].queued_at)
    assert (url.depth, url.referrer) == (1, f"{HOST}/{LIKE_A_TIME}")


async def test_a_url_that_is_given_back_unasked_keeps_its_time(frontier: Frontier) -> None:
    await frontier.add([sampled()])
    (lease,) = await frontier.lease(1, 1)
    await frontier.release(lease, [])
    assert (await leased(frontier)).queued_at == lease.urls[0].queued_at is not None


@pytest.mark.parametrize(("old", "new"), [(3, 1), (3, 50), (60, 2), (60, 50)])
async def test_a_url_at_another_level_keeps_its_time(frontier: Frontier, old: int, new: int) -> None:
    began = time.time()
    await frontier.add([sampled(level=old, extra=b"x" if old == 60 else None)])
    assert (await set_urls(frontier, [change(f"{HOST}/", level=new)]))["changed"] == 1
    url = await leased(frontier)
    assert url.level == new and url.extra == (b"x" if old == 60 else None)
    assert url.queued_at is not None and -0.01 < url.queued_at - began < time.time() - began + 0.01


async def test_a_url_that_gets_a_date_is_scheduled_once(frontier: Frontier) -> None:
    await frontier.add([sampled()])
    due = int(time.time() * 1000) + 3_600_000
    assert (await set_urls(frontier, [change(f"{HOST}/", due=due)]))["changed"] == 1
    await frontier.schedule([sampled()], 1800)
    assert (await frontier.counts()).scheduled == 1


@pytest.mark.parametrize("crawl", ["w1", ITERATION])
async def test_a_url_that_importance_moves_up_has_waited_since_it_was_found(
    frontier_of: Frontiers, crawl: str
) -> None:
    """With credit of its own, and also if it is moved twice."""
    frontier = frontier_of(crawl)
    await Crawl(frontier.engine, frontier.keys, "w1").configure(1000, "breadth-first", importance=True)
    fingerprint = SAMPLE * 7 + (crawl == ITERATION)
    call = (frontier.engine, frontier.keys)
    found = time.time() - 3600
    queue, entry = (
        frontier.keys.queue(frontier.keys.shard(HOST)),
        replaced(fingerprint, 5, 3).entry(found, timed=True),
    )
    mark = frontier.keys.mark(HOST, fingerprint)
    add = script_call(
        "add",
        queue,
        batch="",
        host={"host": [HOST], "urls": [1], "rise": [0], "over": [""]},
        url={"mark": [mark], "entry": [entry]},
    )
    await frontier.engine.run(add)
    number = number_of(f"{HOST}/")
    receive = script_call(
        "receive",
        [queue[0]],
        purse="p",
        number=1,
        others=0,
        pool=0,
        url={"number": [number], "credit": [2**30]},
    )
    assert await frontier.engine.run(receive) is not None
    assert await queue_again(*call, [replaced(fingerprint, 4, 9, rise=1)]) == 1
    assert await queue_again(*call, [replaced(fingerprint, 1, 9, rise=4)]) == 1
    url = await leased(frontier)
    assert (url.level, url.depth, url.is_observed) == (1, 3, crawl != ITERATION)
    assert url.queued_at == pytest.approx(found, abs=0.0051)
    # what is handed out is not queued again, so its record has no time any more
    (record,) = [
        value
        async for key in frontier.engine.client.scan_iter(match=f"{queue[0]}credit:*")
        for value in (await frontier.engine.client.hgetall(key)).values()
    ]
    assert 2 < len(record) < 9


async def test_all_entries_of_an_iteration_have_their_times(frontier_of: Frontiers) -> None:
    began, frontier = time.time(), frontier_of(ITERATION)
    await frontier.add([page(url) for url in numbered(100)])
    found: list[LeasedURL] = []
    while lease := await frontier.lease(1, 100):
        found += lease[0].urls
        await frontier.release(lease[0], all_done(lease[0]))
    assert [url.url for url in found] == numbered(100)
    assert all(url.queued_at and began - 0.01 < url.queued_at < time.time() + 0.01 for url in found)
    observed = {url.url for url in found if url.is_observed}
    assert observed == set(filter(in_sample, numbered(100))) != set()


@pytest.mark.parametrize("crawl", ["crawl", ITERATION])
async def test_spilling_and_a_checkpoint_keep_the_times(
    frontier_of: Frontiers, tmp_path: Path, crawl: str
) -> None:
    frontier, began = frontier_of(crawl, lease_seconds=60), time.time()
    tails = await spilling(frontier, tmp_path)
    await frontier.add([page(url) for url in numbered(300)])
    added = time.time()
    await serve(tails, frontier)
    assert (await frontier.counts()).spilled > 200
    copy = frontier_of("copy", shards=3)
    await copied(frontier, copy, root=tmp_path)
    for name, one, served in (("crawl", frontier, tails), ("copy", copy, await spilling(copy, tmp_path))):
        found: list[LeasedURL] = []
        while not await one.finished():
            for lease in await one.lease(1, 50):
                found += lease.urls
                await one.release(lease, all_done(lease))
            await serve(served, one)
        assert [url.url for url in found] == numbered(300), name
        assert {url.url for url in found if url.is_observed} == set(filter(in_sample, numbered(300)))
        times = [url.queued_at for url in found if url.queued_at is not None]
        assert len(times) == (300 if crawl == ITERATION else sum(map(in_sample, numbered(300))))
        assert began - 0.01 < min(times) <= max(times) < added + 0.01
