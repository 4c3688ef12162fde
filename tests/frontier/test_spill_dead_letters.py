"""Dead letters of queues that are longer than the engine may keep."""

from __future__ import annotations

import time
from pathlib import Path

from redis import Redis

from tests.frontier.pages import page, urls_of
from tests.frontier.spilling import HOST, OTHER, fetch, numbered, serve, spilling
from webcrawl.frontier import Frontier
from webcrawl.frontier.dead_letters import CrawlDeadLetters, SpilledDeadLetters


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
    assert urls_of(await frontier.lease(10, 10)) == [f"{HOST}/new"], "URLs added later are not condemned"
    await serve(tails, frontier)
    assert (await frontier.counts()).dead == 103
    letters = [(one.url, one.reason) async for one in frontier.dead_letters()]
    assert sorted(letters) == sorted((url, "no answer") for url in numbered(103))


async def test_most_dead_letters_of_a_long_queue_stay_in_the_store(
    frontier: Frontier, valkey: Redis, tmp_path: Path
) -> None:
    """They are counted, listed and requeued like others, also by new objects, as after a restart."""
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
    spilled = SpilledDeadLetters(frontier, await spilling(frontier, tmp_path, hot=100))
    assert (await frontier.counts()).dead == 4003
    found = [*[one async for one in frontier.dead_letters()], *[one async for one in spilled.letters()]]
    assert sorted(one.url for one in found if one.reason == "no answer") == sorted(urls)
    assert all(time.time() - 60 < one.time < time.time() + 60 for one in found)
    assert (
        [one async for one in spilled.letters(OTHER)]
        == [one async for one in spilled.letters(HOST, "go")]
        == []
    )

    stored = {one.url async for one in spilled.letters(HOST, "no")}
    assert await spilled.requeue(HOST, "no") == len(stored) > 800
    assert [one async for one in spilled.letters()] == []
    counts = await frontier.counts()
    assert (counts.queued, counts.dead) == (len(stored), 4003 - len(stored))
    assert set(await fetch(frontier, tails, urls=100)) == stored
    assert (await frontier.counts()).spilled == 0


async def test_dead_letters_in_engine_and_store_are_counted_and_requeued_together(
    frontier: Frontier, tmp_path: Path
) -> None:
    tails = await spilling(frontier, tmp_path, hot=100)
    for start in range(0, 4000, 1000):
        await frontier.add([page(url) for url in numbered(1000, start)])
        await serve(tails, frontier)
    assert await frontier.condemn(HOST, "no answer") == 4000
    await serve(tails, frontier)
    letters = CrawlDeadLetters(frontier, tails)
    known = await letters.by_reason()
    assert (known.read, known.complete) == (4000, True)
    assert [(one.kind, one.letters, len(one.samples)) for one in known.reasons] == [("no answer", 4000, 5)]
    assert await letters.requeue(OTHER) == await letters.requeue(HOST, "something else") == 0
    assert await letters.requeue(HOST, "answer") == 4000
    counts = await frontier.counts()
    assert (counts.queued, counts.dead) == (4000, 0)
    assert set(await fetch(frontier, tails, urls=100)) == {*numbered(4000)}
