"""The lock of a crawl's watcher, its notes, and the workers that died."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from redis import Redis

from tests.frontier.pages import past
from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.frontier import Crawl
from webcrawl.frontier.watch import WATCHER_SECONDS, Watch

KEYS = Keys("crawl", 4)
Crawls = Callable[..., Crawl]


@pytest.fixture
def engine(engine_at: Callable[..., Engine], redis_url: str) -> Engine:
    return engine_at(redis_url)


@pytest.fixture
def crawl_of(engine: Engine) -> Crawls:
    """One worker's view of the crawl, and how long it counts as alive."""
    return lambda worker, seconds=60.0: Crawl(engine, KEYS, worker, seconds)


async def test_one_process_watches_and_the_next_gets_its_notes(engine: Engine, valkey: Redis) -> None:
    one, two = Watch(engine, KEYS, "one"), Watch(engine, KEYS, "two")
    assert await one.claim() == ""
    assert await two.claim("not stored") is None
    assert await one.claim('{"seen":1}') == '{"seen":1}'
    assert await one.claim() == '{"seen":1}'
    await two.leave("not stored either")
    assert await two.claim() is None
    assert 0 < valkey.pttl(KEYS.own("watcher")) <= WATCHER_SECONDS * 1000
    valkey.delete(KEYS.own("watcher"))  # as if its time were over
    assert await two.claim() == '{"seen":1}'
    assert await one.claim("late") is None
    await two.leave('{"seen":2}')
    assert await one.claim() == '{"seen":2}'


async def test_of_many_claims_one_succeeds(engine: Engine) -> None:
    claims = await asyncio.gather(*(Watch(engine, KEYS, f"w{number}").claim() for number in range(20)))
    assert sum(claim is not None for claim in claims) == 1


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
