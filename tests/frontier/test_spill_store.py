"""The store of long queues: damaged, exchanged or unavailable, and cleaned of unused segments."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from redis import Redis

from tests.frontier.consumer import Consumer, page_with
from tests.frontier.contents import Contents
from tests.frontier.pages import all_done, page
from tests.frontier.spilling import HOST, OTHER, fetch, numbered, serve, spilling
from webcrawl.errors import ConfigurationError, StoreError
from webcrawl.frontier import Crawl, Frontier
from webcrawl.frontier.tails import SpillPlan, Tails

Frontiers = Callable[..., Frontier]


async def test_an_unused_segment_is_deleted_and_cannot_be_used_later(
    frontier: Frontier, tmp_path: Path
) -> None:
    tails = await spilling(frontier, tmp_path)
    await frontier.add([page(url) for url in numbered(100)])
    (late,) = [plan for plan in await tails.plan(range(frontier.keys.shards)) if plan]
    hasty = await spilling(frontier, tmp_path, kept_seconds=-1.0)
    # these tails delete unused segments at once; this plan does nothing else
    (found,) = [plan for plan in await hasty.plan([late.shard]) if plan]
    await hasty.carry_out(SpillPlan(late.shard, found.segment, [], [], [], found.unused))
    await tails.carry_out(late)
    assert (await frontier.counts()).spilled == 0, "the announced segment was deleted before its use"
    await serve(tails, frontier)
    assert await fetch(frontier, tails) == numbered(100)
    await hasty.carry_out((await hasty.plan([late.shard]))[0])
    written = {path.name for path in tmp_path.glob(f"*/{late.shard:04}/*")}
    assert written <= {late.segment}, "all segments that were read are deleted"


@pytest.mark.parametrize("harm", ["damaged", "cut", "gone"])
async def test_a_lost_part_is_logged_and_counted_and_the_host_continues(
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
    assert got[:6] == numbered(6), "the URLs in the engine are not affected"
    assert (counts.queued, counts.spilled) == (0, 0)
    assert name.decode() in caplog.text
    assert HOST in caplog.text
    if harm == "damaged":
        assert counts.lost_segments == 1, "the other parts of the segment are intact"


async def test_a_store_other_than_that_of_the_crawl_is_refused(frontier: Frontier, tmp_path: Path) -> None:
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
    with pytest.raises(StoreError, match="does not exist"):
        await serve(elsewhere, frontier)
    assert (await frontier.counts()).lost_segments == 0, "a missing folder may be unmounted and loses nothing"
    (tmp_path / "here").rename(tmp_path / "moved")
    moved = await spilling(frontier, tmp_path / "moved")
    await moved.check()
    assert await fetch(frontier, moved) == numbered(40)[len(lease.urls) :]
    await nowhere.check()


async def test_only_hosts_with_tails_wait_while_the_store_is_unavailable(
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
        await consumer.until(lambda: others <= consumer.fetched.keys() and "is unavailable" in caplog.text)
        assert consumer.worker.finished is None
        (tmp_path / "away").rename(store)
        assert await consumer.end() == "finished"
    assert consumer.fetched == Counter(links.keys())
    messages = [one.message for one in caplog.records if one.name == "webcrawl.frontier.tails"]
    assert len(messages) == 2, messages
    assert Contents.read(valkey, frontier.keys, store).queues == {}


async def test_tails_stop_despite_a_swallowed_cancellation(
    frontier: Frontier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tails, asked = await spilling(frontier, tmp_path), asyncio.Event()

    async def ignore_cancellation(_: object) -> list[SpillPlan]:
        asked.set()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        return []

    monkeypatch.setattr(tails, "plan", ignore_cancellation)
    tails.start(lambda: [0])
    await asked.wait()
    await asyncio.wait_for(tails.stop(), 60)


async def test_clear_deletes_only_the_segments_of_the_crawl(frontier_of: Frontiers, tmp_path: Path) -> None:
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
