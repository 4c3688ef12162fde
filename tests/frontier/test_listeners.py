"""The stream of finished pages: groups, slow and dead readers, and an engine that is full or unavailable."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import redis

from webcrawl.documents.page import Page
from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.errors import StoreError
from webcrawl.stores.listeners import MOST_BYTES, Heard, Listener, Publisher, encoded

KEYS = Keys("listened", 4)
STREAM = KEYS.own("pages")
NOW = datetime(2026, 2, 3, tzinfo=UTC)


def row(number: int, **values: Any) -> dict[str, Any]:
    return Page(url=f"http://a/{number}", host="http://a", fetched_at=NOW).row() | values


def run(redis_url: str, work: Callable[[Engine], Awaitable[None]]) -> None:
    async def bounded() -> None:
        engine = Engine(redis_url)
        try:
            async with asyncio.timeout(60):
                await work(engine)
        finally:
            await engine.close()

    asyncio.run(bounded())


async def publish(engine: Engine, numbers: Iterator[int] | range, most: int = 1_000) -> list[bool]:
    publisher = Publisher(engine, KEYS, most)
    return list(await asyncio.gather(*(publisher.publish(row(number)) for number in numbers)))


async def received(listener: Listener, *, done: bool = True) -> list[Heard]:
    """All pages that are available to a listener."""
    found: list[Heard] = []
    async for pages in listener.pages(forever=False):
        found += pages
        if done:
            await listener.done(pages)
    return found


def numbers(pages: list[Heard]) -> list[int]:
    return [int(page.row["url"].rpartition("/")[2]) for page in pages]


def test_a_page_is_published_with_all_its_fields(redis_url: str) -> None:
    async def work(engine: Engine) -> None:
        details = {"a": float("nan"), "b": [NOW, "\0"]}
        published = row(1, status=200, title="Grüße 👋", simhash=2**64 - 1, details=details, published_at=NOW)
        assert await Publisher(engine, KEYS, 10).publish(published)
        (page,) = await received(Listener(engine, KEYS, from_start=True))
        known = {name: value for name, value in published.items() if value is not None}
        times = dict.fromkeys(("fetched_at", "published_at"), "2026-02-03T00:00:00+00:00")
        assert page.row == known | times | {"details": {"a": None, "b": [times["fetched_at"], "\ufffd"]}}

    run(redis_url, work)


def test_the_size_of_a_published_page_is_limited() -> None:
    whole = row(
        1, etag="e" * 10_000, redirects=["r" * 8_000] * 20, details={"\u00fc": "\u00fc" * 4_000}, title="t"
    )
    published = encoded(whole)
    assert len(published) <= MOST_BYTES
    assert {name for name in whole if whole[name] is not None} - json.loads(published).keys() == {
        "redirects",
        "details",
    }


def test_simultaneous_pages_share_a_round_trip(redis_url: str, valkey: redis.Redis) -> None:
    async def work(engine: Engine) -> None:
        assert all(await publish(engine, range(400)))
        calls = valkey.info("commandstats")
        # the first page is sent alone while the others gather; the very first call also loads the script
        assert sum(calls.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("eval", "evalsha")) <= 4
        assert numbers(await received(Listener(engine, KEYS, from_start=True))) == list(range(400))

    valkey.config_resetstat()
    run(redis_url, work)


def test_each_page_goes_to_every_group_and_one_reader_in_it(redis_url: str) -> None:
    async def work(engine: Engine) -> None:
        await publish(engine, range(250))
        first, second = (Listener(engine, KEYS, group="a", reader=name, from_start=True) for name in "12")
        other = Listener(engine, KEYS, group="b", reader="1", from_start=True)
        one, two = first.pages(forever=False), second.pages(forever=False)
        got = [await anext(one), await anext(two)]
        for listener, pages in zip((first, second), got, strict=True):
            await listener.done(pages)
        rest = await received(first)
        assert sorted(numbers(got[0]) + numbers(got[1]) + numbers(rest)) == list(range(250))
        assert numbers(got[0]) and numbers(got[1])
        assert numbers(await received(other)) == list(range(250))

    run(redis_url, work)


def test_a_listener_without_a_group_receives_new_pages(redis_url: str) -> None:
    async def work(engine: Engine) -> None:
        await publish(engine, range(5))
        listener = Listener(engine, KEYS)
        waiting = asyncio.create_task(anext(listener.pages()))
        while (
            not await engine.client.info("clients")
            or (await engine.client.info("clients"))["blocked_clients"] < 1
        ):
            await asyncio.sleep(0.01)
        await publish(engine, range(5, 7))
        found = await waiting
        while len(found) < 2:
            found += await received(listener)
        assert numbers(found) == [5, 6]

    run(redis_url, work)


def test_a_slow_reader_delays_no_other_and_knows_how_many_it_missed(redis_url: str) -> None:
    async def work(engine: Engine) -> None:
        slow = Listener(engine, KEYS, group="slow", reader="1", from_start=True)
        fast = Listener(engine, KEYS, group="fast", reader="1", from_start=True)
        await publish(engine, range(100), most=100)
        held = await anext(slow.pages(forever=False))
        assert (len(held), slow.missed(), numbers(await received(fast))) == (100, 0, list(range(100)))
        for start in range(100, 1_000, 100):
            await publish(engine, range(start, start + 100), most=100)
            assert numbers(await received(fast)) == list(range(start, start + 100))
        length = int(await engine.client.xlen(STREAM))
        # the stream is trimmed approximately, in nodes of a hundred entries
        assert 100 <= length <= 200
        await slow.done(held)
        assert numbers(await received(slow)) == list(range(1_000 - length, 1_000))
        assert (slow.missed(), fast.missed(), slow.missed()) == (900 - length, 0, 0)
        for start in range(1_000, 1_500, 100):
            await publish(engine, range(start, start + 100), most=100)
        length = int(await engine.client.xlen(STREAM))
        assert numbers(await received(slow)) == list(range(1_500 - length, 1_500))
        assert slow.missed() == 500 - length

    run(redis_url, work)


def test_pages_trimmed_before_a_group_existed_do_not_count_as_missed(redis_url: str) -> None:
    async def work(engine: Engine) -> None:
        await publish(engine, range(500), most=100)
        length = int(await engine.client.xlen(STREAM))
        groups = [
            Listener(engine, KEYS, group=name, reader="1", from_start=name == "old")
            for name in ("old", "new")
        ]
        assert [len(await received(group)) for group in groups] == [length, 0]
        assert [group.missed() for group in groups] == [0, 0]
        await publish(engine, range(500, 1_000), most=100)
        length = int(await engine.client.xlen(STREAM))
        assert [len(await received(group)) for group in groups] == [length, length]
        assert [group.missed() for group in groups] == [500 - length] * 2

    run(redis_url, work)


@pytest.mark.parametrize("back", ["dead", "heir"])
def test_pages_trimmed_before_their_acknowledgement_count_as_missed(redis_url: str, back: str) -> None:
    async def work(engine: Engine) -> None:
        await publish(engine, range(350), most=1_000)
        dead = Listener(engine, KEYS, group="g", reader="dead", from_start=True)
        batches = dead.pages(forever=False)
        got = [numbers(await anext(batches)) for _ in range(3)]
        await engine.client.xtrim(STREAM, maxlen=100, approximate=False)
        kept = range(250, 350)
        again = Listener(engine, KEYS, group="g", reader=back, idle_seconds=0)
        assert sorted(numbers(await received(again))) == list(kept)
        assert again.missed() == len(set(range(350)) - set(kept))
        assert [len(one) for one in got] == [100] * 3
        assert (await engine.client.xpending(STREAM, "g"))["pending"] == 0

    run(redis_url, work)


def test_a_reader_takes_at_most_the_pages_it_asks_for(redis_url: str) -> None:
    async def work(engine: Engine) -> None:
        await publish(engine, range(350))
        for listener in (
            Listener(engine, KEYS, group="g", reader="1", from_start=True),
            Listener(engine, KEYS, from_start=True),
        ):
            found = [page async for batch in listener.pages(most=120) for page in batch]
            assert numbers(found) == list(range(120))
        other = Listener(engine, KEYS, group="g", reader="2")
        assert numbers(await received(other)) == list(range(120, 350))
        back = Listener(engine, KEYS, group="g", reader="1")
        found = [page async for batch in back.pages(most=30) for page in batch]
        assert numbers(found) == list(range(30))
        await back.done(found)
        assert numbers(await received(back)) == list(range(30, 120))

    run(redis_url, work)


def test_pages_of_a_dead_reader_go_to_another_or_to_it_after_a_restart(redis_url: str) -> None:
    async def work(engine: Engine) -> None:
        await publish(engine, range(250))
        dead = Listener(engine, KEYS, group="g", reader="dead", from_start=True)
        got = numbers(await anext(dead.pages(forever=False)))
        patient = Listener(engine, KEYS, group="g", reader="patient", idle_seconds=60)
        rest = numbers(await received(patient))
        assert sorted(got + rest) == list(range(250))
        back = Listener(engine, KEYS, group="g", reader="dead")
        assert numbers(await received(back, done=False)) == got
        heir = Listener(engine, KEYS, group="g", reader="heir", idle_seconds=0)
        assert numbers(await received(heir)) == got
        assert await received(Listener(engine, KEYS, group="g", reader="late", idle_seconds=0)) == []

    run(redis_url, work)


def test_a_full_engine_drops_pages_without_a_wait(redis_url: str, valkey: redis.Redis) -> None:
    async def work(engine: Engine) -> None:
        await publish(engine, range(2))
        valkey.config_set("maxmemory", "1")
        try:
            assert await publish(engine, range(2, 5)) == [False] * 3
        finally:
            valkey.config_set("maxmemory", "0")
        assert await publish(engine, range(5, 7)) == [True] * 2
        assert numbers(await received(Listener(engine, KEYS, from_start=True))) == [0, 1, 5, 6]

    run(redis_url, work)


def test_a_lost_connection_loses_no_page(
    redis_url: str, valkey: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(engine: Engine) -> None:
        await publish(engine, range(150))
        listener = Listener(engine, KEYS, group="g", reader="1", from_start=True)
        pages = listener.pages(forever=False)
        first = await anext(pages)
        valkey.client_kill_filter(_type="normal", skipme=True)
        await listener.done(first)
        found = [page async for batch in pages for page in batch]
        assert sorted(set(numbers(first) + numbers(found))) == list(range(150))
        await listener.done(found)
        assert valkey.xpending(STREAM, "g")["pending"] == 0

    caplog.set_level(logging.WARNING)
    run(redis_url, work)


def test_a_deleted_group_is_an_error(redis_url: str, valkey: redis.Redis) -> None:
    async def work(engine: Engine) -> None:
        await publish(engine, range(1))
        listener = Listener(engine, KEYS, group="g", reader="1", from_start=True)
        pages = listener.pages()
        await anext(pages)
        valkey.delete(STREAM)
        with pytest.raises(StoreError, match="group 'g' does not exist any more"):
            await anext(pages)

    run(redis_url, work)


def test_the_stream_is_one_of_the_keys_of_the_crawl(redis_url: str, valkey: redis.Redis) -> None:
    async def work(engine: Engine) -> None:
        await publish(engine, range(3))
        entries = valkey.xrange(STREAM)
        assert [json.loads(fields[b"page"])["url"] for _, fields in entries] == [
            f"http://a/{n}" for n in range(3)
        ]

    run(redis_url, work)
    assert any(STREAM.startswith(pattern.rstrip("*")) for pattern in KEYS.patterns())
