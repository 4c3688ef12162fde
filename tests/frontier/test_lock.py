"""Locks of the engine and their notes, and the workers that died."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import pytest
from redis import Redis

from tests.frontier.pages import past
from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.engine.lock import EngineLock, renewed
from webcrawl.errors import EngineUnavailable
from webcrawl.frontier import Crawl

KEYS = Keys("crawl", 4)
Crawls = Callable[..., Crawl]


@pytest.fixture
def engine(engine_at: Callable[..., Engine], redis_url: str) -> Engine:
    return engine_at(redis_url)


@pytest.fixture
def crawl_of(engine: Engine) -> Crawls:
    """One worker's view of the crawl, and how long it counts as alive."""
    return lambda worker, seconds=60.0: Crawl(engine, KEYS, worker, seconds)


def lock_of(engine: Engine, owner: str, seconds: float = 15.0) -> EngineLock:
    return EngineLock(engine, KEYS.own("watcher"), owner, seconds, KEYS.own("watched"))


async def test_the_lock_has_one_holder_and_the_next_gets_its_notes(engine: Engine, valkey: Redis) -> None:
    first, second = lock_of(engine, "first"), lock_of(engine, "second")
    assert await first.claim() == ""
    assert await second.claim("not stored") is None
    assert await second.state_after_claim() == ("first", "")
    assert await first.claim('{"seen":1}') == '{"seen":1}'
    assert await first.claim() == '{"seen":1}'
    await second.leave("not stored either")
    assert await second.claim() is None
    assert 0 < valkey.pttl(KEYS.own("watcher")) <= 15_000
    valkey.delete(KEYS.own("watcher"))  # as if its time were over
    assert await second.claim() == '{"seen":1}'
    assert await first.claim("late") is None
    await second.leave('{"seen":2}')
    assert await first.claim() == '{"seen":2}'


async def test_of_many_claims_one_succeeds(engine: Engine) -> None:
    claims = await asyncio.gather(*(lock_of(engine, f"w{number}").claim() for number in range(20)))
    assert sum(claim is not None for claim in claims) == 1


async def test_a_held_lock_is_renewed_and_released(engine: Engine, valkey: Redis) -> None:
    first, second = lock_of(engine, "first", 4.0), lock_of(engine, "second", 4.0)
    async with first.held() as is_mine, asyncio.timeout(60):
        assert is_mine
        valkey.persist(first.key)
        while valkey.pttl(first.key) < 0:  # until it is renewed
            await asyncio.sleep(0.01)
        async with second.held() as is_others:
            assert not is_others
        assert valkey.get(first.key) == b"first"
    assert not valkey.exists(first.key)
    async with second.held() as is_mine:
        assert is_mine
    with pytest.raises(ValueError, match="failed"):
        async with first.held():
            raise ValueError("failed")
    assert not valkey.exists(first.key)


async def test_who_lost_the_lock_leaves_it_to_the_next_holder(engine: Engine, valkey: Redis) -> None:
    """A suspended process must not release the lock of its successor."""
    late, successor = lock_of(engine, "late"), lock_of(engine, "successor")
    async with late.held():
        valkey.delete(late.key)  # as if its time were over
        assert await successor.claim() is not None
    assert valkey.get(late.key) == b"successor"


async def test_renewals_go_on_after_an_error_of_the_engine_and_end_with_the_context() -> None:
    calls = 0

    async def renew() -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise EngineUnavailable("away")
        if calls > 2:  # the engine's client may swallow a cancellation
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(60)

    async with asyncio.timeout(30):
        async with renewed(renew, 0.04):
            while calls < 3:
                await asyncio.sleep(0.01)
    assert calls == 3


async def test_workers_that_died_are_known_until_they_are_buried(crawl_of: Crawls) -> None:
    dead, left, alive = crawl_of("dead", 0.001), crawl_of("left"), crawl_of("alive")
    await dead.workers.beat()
    await left.workers.beat()
    await left.workers.leave()
    await past(alive.engine, 0.001)
    now, lost = await alive.workers.lost()
    assert lost.keys() == {"dead"} and 0 <= now - lost["dead"] < 60
    await alive.workers.beat()
    assert (await alive.workers.lost())[1] == lost, "a heartbeat keeps who died, and when"
    await alive.workers.bury(["dead", "unknown"])
    await alive.workers.bury([])
    assert (await alive.workers.lost())[1] == {}


async def test_a_worker_that_comes_back_did_not_die(crawl_of: Crawls) -> None:
    slow, alive = crawl_of("slow", 0.001), crawl_of("alive")
    await slow.workers.beat()
    await past(alive.engine, 0.001)
    await alive.workers.beat()
    assert (await alive.workers.lost())[1].keys() == {"slow"}
    await crawl_of("slow").workers.beat()
    assert (await alive.workers.lost())[1] == {}


async def test_the_next_run_knows_who_died_with_the_engine(crawl_of: Crawls) -> None:
    """An embedded engine that starts again forgets its workers: none of them signed off."""
    one, two = crawl_of("one"), crawl_of("two", 0.001)
    await one.workers.beat()
    await two.workers.beat()
    await one.workers.forget()
    assert await one.workers.names() == []
    await past(one.engine, 0.001)
    assert (await one.workers.lost())[1].keys() == {"two"}, "the other counts as alive until its time is over"
