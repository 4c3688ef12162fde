"""Queues that are longer than the engine may keep: their tails in a folder or bucket, and back in order."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from redis import Redis

from tests.frontier.consumer import Consumer, page_with
from tests.frontier.contents import Contents
from tests.frontier.pages import all_done, page, urls_of
from webcrawl.commands.deadletters import requeue
from webcrawl.errors import ConfigurationError, StoreError
from webcrawl.frontier import Crawl, Frontier, Settlement
from webcrawl.frontier.graves import Graves
from webcrawl.frontier.spill import Plan, Tails
from webcrawl.session import Session

HOST = "http://long.test"
OTHER = "http://short.test"

Frontiers = Callable[..., Frontier]


async def spilling(frontier: Frontier, folder: Path, hot: int = 8, **options: object) -> Tails:
    """The tails of a frontier's queues, below a folder."""
    record = Crawl(frontier.engine, frontier.keys, frontier.worker)
    await record.configure(hot, str(options.pop("order", "breadth-first")))
    return Tails(frontier.engine, frontier.keys, record, folder.as_uri(), **options)  # type: ignore[arg-type]


async def serve(tails: Tails, frontier: Frontier) -> int:
    """Do all there is to do; returns how many plans it took."""
    done = 0
    while plans := [plan for plan in await tails.plan(range(frontier.keys.shards)) if plan]:
        for plan in plans:
            await tails.carry_out(plan)
        done += len(plans)
    return done


async def fetch(frontier: Frontier, tails: Tails, urls: int = 10) -> list[str]:
    """The URLs of a whole crawl, in the order in which they are handed out."""
    order: list[str] = []
    while not await frontier.finished():
        for lease in await frontier.lease(10, urls):
            order += urls_of([lease])
            await frontier.release(lease, all_done(lease))
        await serve(tails, frontier)
    return order


def numbered(count: int, start: int = 0, host: str = HOST) -> list[str]:
    return [f"{host}/{n}" for n in range(start, start + count)]


async def test_the_engine_keeps_a_bounded_number_of_many_urls_and_their_order(
    frontier: Frontier, valkey: Redis, tmp_path: Path
) -> None:
    number, hot = 200_000, 1000
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
    assert sum(valkey.memory_usage(key) for key in segments) < number, "under a byte a URL"
    assert await fetch(frontier, tails, 500) == numbered(number)


@pytest.mark.parametrize("order", ["breadth-first", "depth-first"])
async def test_order_is_level_then_age(frontier_of: Frontiers, tmp_path: Path, order: str) -> None:
    frontier = frontier_of(low_share=0)
    tails = await spilling(frontier, tmp_path, order=order)
    for start in range(0, 300, 10):
        await frontier.add([page(url, level=int(url[-1]) % 2) for url in numbered(10, start)])
        await serve(tails, frontier)
    step = -1 if order == "depth-first" else 1
    expected = [url for level in (0, 1) for url in numbered(300)[::step] if int(url[-1]) % 2 == level]
    assert await fetch(frontier, tails, 7) == expected


async def test_a_random_order_is_another_each_time_and_complete(
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


@pytest.mark.parametrize("length", [0, 200])  # few and short, or in a list
async def test_every_url_at_hand_is_as_likely_as_the_others(
    frontier: Frontier, tmp_path: Path, length: int
) -> None:
    urls = [url.ljust(length, "x") for url in numbered(4)]
    await spilling(frontier, tmp_path, 1000, order="random")
    first: Counter[str] = Counter()
    for _ in range(400):
        await frontier.add([page(url, seen_test=False) for url in urls])
        (lease,) = await frontier.lease(1, 1)
        first[lease.urls[0].url] += 1
        await frontier.release(lease, all_done(lease))
        (lease,) = await frontier.lease(1, 10)
        await frontier.release(lease, all_done(lease))
    # the chance of less than 50 or more than 150 of 400 at 1/4 each is below 1e-7
    assert sorted(first) == urls
    assert all(50 < times < 150 for times in first.values()), first


async def test_lower_levels_do_not_overtake_what_is_in_the_store(
    frontier_of: Frontiers, tmp_path: Path
) -> None:
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
    assert got == {HOST: numbered(6), OTHER: [f"{OTHER}/"]}, "the host waits, others do not"
    await frontier.add([page(f"{HOST}/urgent", level=0)])
    (lease,) = await frontier.lease(10, 3)
    assert urls_of([lease]) == [f"{HOST}/urgent"], "what is more urgent does not wait for the store"
    await frontier.release(lease, all_done(lease))
    assert await fetch(frontier, tails) == [*numbered(44, 6), f"{HOST}/low"]


async def test_two_workers_that_do_the_same_do_it_once(frontier: Frontier, tmp_path: Path) -> None:
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


async def test_a_segment_nobody_uses_is_deleted_and_never_used_late(
    frontier: Frontier, tmp_path: Path
) -> None:
    tails = await spilling(frontier, tmp_path)
    await frontier.add([page(url) for url in numbered(100)])
    (late,) = [plan for plan in await tails.plan(range(frontier.keys.shards)) if plan]
    hasty = await spilling(frontier, tmp_path, kept_seconds=-1.0)
    # a crawl that has been told that nothing has to be kept, and does nothing but to delete
    (found,) = [plan for plan in await hasty.plan([late.shard]) if plan]
    await hasty.carry_out(Plan(late.shard, found.segment, [], [], [], found.unused))
    await tails.carry_out(late)
    assert (await frontier.counts()).spilled == 0, "what was announced long ago is not used any more"
    await serve(tails, frontier)
    assert await fetch(frontier, tails) == numbered(100)
    await hasty.carry_out((await hasty.plan([late.shard]))[0])
    written = {path.name for path in tmp_path.glob(f"*/{late.shard:04}/*")}
    assert written <= {late.segment}, "all that was read has been deleted"


@pytest.mark.parametrize("harm", ["damaged", "cut", "gone"])
async def test_a_lost_part_is_named_and_counted_and_the_host_goes_on(
    frontier: Frontier, valkey: Redis, tmp_path: Path, caplog: pytest.LogCaptureFixture, harm: str
) -> None:
    tails = await spilling(frontier, tmp_path)
    await frontier.add([page(url) for url in numbered(40)])
    await serve(tails, frontier)
    (segment,) = tmp_path.glob("*/*/*")
    name, offset, length, _, _ = valkey.lindex(valkey.keys("wc:*:tail:*")[0], 1).split()
    content = segment.read_bytes()
    if harm == "gone":
        segment.unlink()
    elif harm == "cut":
        segment.write_bytes(content[: int(offset) + 3])
    else:
        middle = int(offset) + int(length) // 2
        segment.write_bytes(content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :])
    got = await fetch(frontier, tails)
    counts = await frontier.counts()
    assert counts.lost_segments > 0
    assert counts.done == len(got) < 40
    assert got[:6] == numbered(6), "what was at hand"
    assert (counts.queued, counts.spilled) == (0, 0)
    assert name.decode() in caplog.text
    assert HOST in caplog.text
    if harm == "damaged":
        assert counts.lost_segments == 1, "the other parts of the segment are whole"


async def test_condemned_urls_in_the_store_become_dead_letters(frontier: Frontier, tmp_path: Path) -> None:
    tails = await spilling(frontier, tmp_path)
    await frontier.add([page(url, level=n % 2) for n, url in enumerate(numbered(100))])
    await serve(tails, frontier)
    await frontier.add([page(url) for url in numbered(3, 100)])
    assert await frontier.condemn(HOST, "no answer") == 103
    assert await frontier.lease(10, 10) == []
    assert await frontier.finished()
    assert (await frontier.counts()).dead == 103
    await frontier.add([page(f"{HOST}/new")])
    assert urls_of(await frontier.lease(10, 10)) == [f"{HOST}/new"], "what is found later is not condemned"
    await serve(tails, frontier)
    assert (await frontier.counts()).dead == 103
    letters = [(one.url, one.reason) async for one in frontier.dead_letters()]
    assert sorted(letters) == sorted((url, "no answer") for url in numbered(103))


async def test_most_dead_letters_of_a_long_queue_stay_in_the_store(
    frontier: Frontier, valkey: Redis, tmp_path: Path
) -> None:
    """They are counted, listed and queued again as others are, and so they are after a restart of everything."""
    tails = await spilling(frontier, tmp_path, hot=100)
    urls = numbered(4000)
    for start in range(0, 4000, 1000):
        await frontier.add([page(url) for url in urls[start : start + 1000]])
        await serve(tails, frontier)
    await frontier.add([page(f"{OTHER}/{n}") for n in range(3)])
    assert await frontier.condemn(HOST, "no answer") == 4000
    assert await frontier.condemn(OTHER, "gone") == 3
    await serve(tails, frontier)
    shard = frontier.keys.shard(HOST)
    assert 2000 <= valkey.hlen(frontier.keys.dead(shard)) < 3100
    graves = Graves(frontier, await spilling(frontier, tmp_path, hot=100))
    assert (await frontier.counts()).dead == 4003
    found = [*[one async for one in frontier.dead_letters()], *[one async for one in graves.letters()]]
    assert sorted(one.url for one in found if one.reason == "no answer") == sorted(urls)
    assert all(time.time() - 60 < one.time < time.time() + 60 for one in found)
    assert (
        [one async for one in graves.letters(OTHER)]
        == [one async for one in graves.letters(HOST, "go")]
        == []
    )

    stored = {one.url async for one in graves.letters(HOST, "no")}
    assert await graves.requeue(HOST, "no") == len(stored) > 800
    assert [one async for one in graves.letters()] == []
    counts = await frontier.counts()
    assert (counts.queued, counts.dead) == (len(stored), 4003 - len(stored))
    assert set(await fetch(frontier, tails, urls=100)) == stored
    assert (await frontier.counts()).spilled == 0


async def test_the_command_queues_all_dead_letters_again_wherever_they_are(
    frontier: Frontier, tmp_path: Path
) -> None:
    tails = await spilling(frontier, tmp_path, hot=100)
    for start in range(0, 4000, 1000):
        await frontier.add([page(url) for url in numbered(1000, start)])
        await serve(tails, frontier)
    assert await frontier.condemn(HOST, "no answer") == 4000
    await serve(tails, frontier)
    session = cast("Session", SimpleNamespace(frontier=frontier, tails=tails))
    assert await requeue(session, OTHER, "") == await requeue(session, HOST, "something else") == 0
    assert await requeue(session, HOST, "answer") == 4000
    counts = await frontier.counts()
    assert (counts.queued, counts.dead) == (4000, 0)
    assert set(await fetch(frontier, tails, urls=100)) == {*numbered(4000)}


async def test_what_is_given_back_goes_first_and_is_not_spilled_first(
    frontier: Frontier, tmp_path: Path
) -> None:
    tails = await spilling(frontier, tmp_path)
    await frontier.add([page(url) for url in numbered(60)])
    await serve(tails, frontier)
    (lease,) = await frontier.lease(1, 6)
    await serve(tails, frontier)
    assert await frontier.acknowledge(lease, [Settlement(1)], more=2) is not None
    await frontier.release(lease)
    assert await fetch(frontier, tails) == numbered(59, 1)


async def test_a_full_engine_can_still_be_relieved(frontier: Frontier, valkey: Redis, tmp_path: Path) -> None:
    """What frees its memory must not be refused for want of memory."""
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
async def test_a_crawl_may_go_on_in_another_order(
    frontier: Frontier, tmp_path: Path, before: str, after: str
) -> None:
    tails = await spilling(frontier, tmp_path, order=before)
    for start in range(0, 300, 50):
        await frontier.add([page(url) for url in numbered(50, start)])
        if start < 200:
            await serve(tails, frontier)
    # one that stays in the outbox, where it is not looked for in the old order
    await frontier.add([page(f"{HOST}/300")])
    got: list[str] = []
    while leases := await frontier.lease(1, 10):
        got += urls_of(leases)
        await frontier.release(leases[0], all_done(leases[0]))
    tails = await spilling(frontier, tmp_path, order=after)
    got += await fetch(frontier, tails)
    assert sorted(got) == sorted(numbered(301))


async def test_another_store_than_the_crawls_is_refused(frontier: Frontier, tmp_path: Path) -> None:
    tails = await spilling(frontier, tmp_path / "here")
    await tails.check()
    await frontier.add([page(url) for url in numbered(40)])
    await serve(tails, frontier)
    await tails.check()
    elsewhere = await spilling(frontier, tmp_path / "elsewhere")
    with pytest.raises(ConfigurationError, match="FRONTIER_SPILL_URI .*elsewhere.* same store"):
        await elsewhere.check()
    record = Crawl(frontier.engine, frontier.keys, "w")
    nowhere = Tails(frontier.engine, frontier.keys, record, None)
    with pytest.raises(ConfigurationError, match="set FRONTIER_SPILL_URI"):
        await nowhere.check()
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"FRONTIER_SPILL_URI .*file"):
        await (await spilling(frontier, tmp_path / "file" / "below")).check()
    (lease,) = await frontier.lease(1, 10)
    await frontier.release(lease, all_done(lease))
    with pytest.raises(StoreError, match="is not there"):
        await serve(elsewhere, frontier)
    assert (await frontier.counts()).lost_segments == 0, "a folder that is not mounted loses nothing"
    (tmp_path / "here").rename(tmp_path / "moved")
    moved = await spilling(frontier, tmp_path / "moved")
    await moved.check()
    assert await fetch(frontier, moved) == numbered(40)[len(lease.urls) :]
    await nowhere.check()


async def test_hosts_wait_while_the_store_is_away_and_others_do_not(
    frontier: Frontier, valkey: Redis, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = tmp_path / "store"
    tails = await spilling(frontier, store, 40)
    await frontier.add([page(url) for url in numbered(100)])
    await serve(tails, frontier)
    store.rename(tmp_path / "away")
    await frontier.add([page(url) for url in numbered(20, host=OTHER)])
    links = {url: [] for url in [*numbered(100), *numbered(20, host=OTHER)]}
    consumer = Consumer(frontier, lambda url: page_with(links[url.url]), tails=tails)
    with caplog.at_level(logging.WARNING):
        consumer.start()
        others = set(numbered(20, host=OTHER))
        await consumer.until(lambda: others <= consumer.fetched.keys() and "is away" in caplog.text)
        assert consumer.worker.finished is None
        (tmp_path / "away").rename(store)
        assert await consumer.end() == "finished"
    assert consumer.fetched == Counter(links.keys())
    told = [one.message for one in caplog.records if one.name == "webcrawl.frontier.spill"]
    assert len(told) == 2, told
    assert Contents.read(valkey, frontier.keys, store).queues == {}


async def test_a_cancellation_that_is_lost_on_its_way_does_not_keep_a_worker_from_its_end(
    frontier: Frontier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tails, asked = await spilling(frontier, tmp_path), asyncio.Event()

    async def deaf(_: object) -> list[Plan]:
        asked.set()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        return []

    monkeypatch.setattr(tails, "plan", deaf)
    tails.start(lambda: [0])
    await asked.wait()
    await tails.stop()


async def test_clear_deletes_the_crawls_segments_and_no_others(
    frontier_of: Frontiers, tmp_path: Path
) -> None:
    mine, other = frontier_of("mine"), frontier_of("other")
    for frontier in (mine, other):
        tails = await spilling(frontier, tmp_path)
        await frontier.add([page(url) for url in numbered(40)])
        await serve(tails, frontier)
    folder = await Crawl(mine.engine, mine.keys, "w").tails()
    await mine.clear()
    await tails.clear(folder)
    assert [path.name.rpartition("-")[0] for path in tmp_path.iterdir()] == ["other"]
    assert await fetch(other, tails) == numbered(40)
