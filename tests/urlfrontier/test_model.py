"""Any order of calls leaves a queue as a dictionary would be: known URLs, their states, metadata and counts."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import redis
from hypothesis import HealthCheck, given, settings, strategies as st

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.urlfrontier.conversion import DISCOVERED, Row, StoredURL
from webcrawl.urlfrontier.queues import ClientQueues

CRAWL = "modelled"
FAR = 4_000_000_000
QUEUES = st.sampled_from(["a.test", "b.test", "any: key"])
URLS = st.sampled_from([f"https://a.test/{n}" for n in range(5)])
DATA = st.sampled_from([b"", b"\x1a\x05\n\x01m\x12\x00"])
PUT = st.tuples(
    st.just("put"),
    st.lists(st.tuples(QUEUES, URLS, st.sampled_from([DISCOVERED, 0, 1, FAR]), DATA), min_size=1, max_size=6),
)
GET = st.tuples(st.just("get"), st.tuples(st.integers(0, 3), st.integers(0, 3)))
DELETE = st.tuples(st.just("delete"), QUEUES)
CALLS = st.lists(st.one_of(PUT, PUT, GET, GET, DELETE), max_size=15)


@dataclass
class Model:
    """(queue, URL) -> what was stored, and where the URL is: "waiting" with a date, "out" or "done"."""

    data: dict[tuple[str, str], bytes] = field(default_factory=dict)
    dates: dict[tuple[str, str], int] = field(default_factory=dict)
    out: set[tuple[str, str]] = field(default_factory=set)

    def put(self, queue: str, url: str, date: int, data: bytes) -> bool:
        key = queue, url
        if date == DISCOVERED and key in self.data:
            return False
        self.data[key] = data
        self.out.discard(key)
        self.dates.pop(key, None)
        if date:
            self.dates[key] = 1 if date == DISCOVERED else date
        return True

    def due(self, queue: str) -> set[str]:
        return {url for (name, url), date in self.dates.items() if name == queue and date < FAR}

    def take(self, queue: str, urls: list[str], most: int) -> None:
        in_transit = sum(name == queue for name, _ in self.out)
        assert not most or in_transit < most and len(urls) <= most
        assert set(urls) <= self.due(queue) and len(set(urls)) == len(urls)
        assert len(urls) == min(len(self.due(queue)), most or len(urls))
        for url in urls:
            del self.dates[queue, url]
            self.out.add((queue, url))

    def delete(self, queue: str) -> int:
        gone = {key for key in self.data if key[0] == queue}
        for key in gone:
            del self.data[key]
            self.dates.pop(key, None)
            self.out.discard(key)
        return len(gone)

    def state(self, queue: str) -> tuple[int, int, int, int]:
        return (
            sum(name == queue for name, _ in self.data),
            sum(name == queue for name, _ in self.dates),
            len(self.due(queue)),
            sum(name == queue for name, _ in self.out),
        )


async def follow(url: str, calls: list[tuple[str, object]]) -> None:
    engine = Engine(url)
    queues = ClientQueues(engine, Keys("any", 2), "server")
    model = Model()
    await queues.set_default_delay(0)
    try:
        for verb, arguments in calls:
            if verb == "put":
                expected = [model.put(*fields) for fields in arguments]
                assert await queues.put([Row(CRAWL, *fields) for fields in arguments]) == expected
            elif verb == "get":
                number, most = arguments
                given = [delivery async for delivery in queues.get(CRAWL, "", number or 2**31, most, 600)]
                assert not number or len(given) <= number
                for delivery in given:
                    model.take(delivery.queue, [stored.url for stored in delivery.stored()], most)
            else:
                assert await queues.delete(CRAWL, arguments) == model.delete(arguments)
            await compare(queues, model)
    finally:
        await engine.close()


async def compare(queues: ClientQueues, model: Model) -> None:
    names = {queue for queue, _ in model.data}
    states = {state.queue: tuple(state)[1:] async for state in queues.states(CRAWL)}
    assert states == {queue: model.state(queue) for queue in names}
    stored = {(each.queue, each.url): each async for each in queues.all_stored(CRAWL)}
    assert {key: each.record[10:] for key, each in stored.items()} == model.data
    assert all(isinstance(each, StoredURL) and each.created > 1_700_000_000 for each in stored.values())


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(calls=CALLS)
def test_a_frontier_is_as_its_model(redis_url: str, calls: list[tuple[str, object]]) -> None:
    with redis.Redis.from_url(redis_url) as client:
        client.flushall()
    asyncio.run(follow(redis_url, calls))
