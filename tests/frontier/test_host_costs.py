"""The record of what hosts cost: sums over workers, lost replies, and a bounded number of names."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from redis import Redis

from tests.frontier.losing import Losing
from webcrawl.engine.client import UNAVAILABLE, Engine
from webcrawl.engine.keys import Keys
from webcrawl.frontier.host_costs import MOST_NAMES, HostCosts
from webcrawl.hosts.costs import Cost, Load

Made = Callable[..., HostCosts]
HOST, OTHER = "http://a.test", "http://b.test"


@pytest.fixture
def costs_of(engine_at: Callable[..., Engine], redis_url: str) -> Made:
    def make(worker: str, seconds: float = 60.0) -> HostCosts:
        return HostCosts(engine_at(redis_url), Keys("crawl", 4), worker, seconds)

    return make


async def test_costs_of_all_workers_are_added(costs_of: Made) -> None:
    one, two = costs_of("one"), costs_of("two")
    await one.add({HOST: Cost(1.5, 2_000, 3, 4), OTHER: Cost(bytes=1)})
    await two.add({HOST: Cost(0.25, 5 * 10**12, 1, 0)})
    assert await one.of(HOST, "unknown", OTHER) == [
        Cost(1.75, 5 * 10**12 + 2_000, 4, 4),
        Cost(),
        Cost(bytes=1),
    ]
    assert await one.of() == []


async def test_a_batch_whose_reply_was_lost_counts_once(redis_url: str, costs_of: Made) -> None:
    engine = Losing(redis_url)
    engine.scripts, engine.every = ("charge",), 2
    costs = HostCosts(engine, Keys("crawl", 4), "one", 60.0)
    await costs.add({HOST: Cost(bytes=1)})
    with pytest.raises(UNAVAILABLE):
        await costs.add({HOST: Cost(bytes=10)})
    engine.every = 1_000
    await costs.add({HOST: Cost(bytes=100), OTHER: Cost(bytes=1)})
    await engine.close()
    assert await costs_of("two").of(HOST, OTHER) == [Cost(bytes=111), Cost(bytes=1)]


async def test_only_the_costliest_names_are_kept(costs_of: Made, valkey: Redis) -> None:
    costs = costs_of("one")
    await costs.add({HOST: Cost(seconds=5)})
    for start in range(0, 2 * MOST_NAMES, 1_000):
        await costs.add({f"http://{number}.test": Cost(bytes=20) for number in range(start, start + 1_000)})
    assert valkey.hlen("wc:{c:crawl}:costs") == valkey.zcard("wc:{c:crawl}:costliest") == MOST_NAMES
    assert await costs.of(HOST) == [Cost(seconds=5)]


async def test_loads_are_those_of_the_workers_that_are_asked_for(costs_of: Made, valkey: Redis) -> None:
    one, two = costs_of("one"), costs_of("two", 0.5)
    await one.show({HOST: Load(1, 2)})
    await two.show({HOST: Load(3, 0), "b.test": Load(waits=1)})
    assert await one.loads(["one", "two"]) == {HOST: Load(4, 2), "b.test": Load(waits=1)}
    assert await one.loads(["one", "gone"]) == {HOST: Load(1, 2)}
    assert await one.loads([]) == {}
    assert 0 < valkey.pttl("wc:{c:crawl}:load:two") <= 500, "the load of a worker that was killed ends"


async def test_the_hosts_that_wait_are_among_those_that_are_shown(costs_of: Made) -> None:
    costs = costs_of("one")
    await costs.show(
        {**{f"http://{number}.test": Load(9, 9) for number in range(900)}, "bad.test": Load(waits=1)}
    )
    shown = await costs.loads(["one"])
    assert len(shown) == 200
    assert shown["bad.test"] == Load(waits=1)
