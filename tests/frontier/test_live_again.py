"""Messages of the live lane that are looked at again, with URLs on their way or lost by the engine."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from redis import Redis

from tests.metadata import row
from webcrawl.frontier import Frontier, Lease, Settlement
from webcrawl.live.answering import Answering
from webcrawl.live.asks import LiveAsk
from webcrawl.live.events import LiveAnswer
from webcrawl.live.feeding import asks_of
from webcrawl.live.messages import LiveMessages
from webcrawl.stores.metadata import Metadata

STREAM = "live:urls"


class Lane:
    """A worker of the lane, step by step, which a review of its messages may meet at any point.

    `meanwhile` has the number of steps before each read of a review.
    """

    def __init__(self, frontier: Frontier, metadata: Metadata, uri: str, valkey: Redis) -> None:
        self.frontier, self.metadata, self.valkey = frontier, metadata, valkey
        engine = frontier.engine
        self.messages = LiveMessages(engine, STREAM, "w1", Counter())
        session: Any = SimpleNamespace(
            connection=SimpleNamespace(engine=engine, keys=frontier.keys),
            stores=SimpleNamespace(metadata=uri, listeners=1_000),
            scope=SimpleNamespace(filters=SimpleNamespace(apply=lambda url: url)),
            observed=None,
        )
        self.answering = Answering(
            session,
            stream=STREAM,
            most_hops=20,
            look=lambda: None,
            extra=lambda ask: None,
            counters=Counter(),
        )
        self.pages: dict[str, str] = {}
        """URL -> the URL to which it redirects, or itself."""
        self.fetched = Counter[str]()
        self.stored = set[str]()
        self.meanwhile: Iterator[int] = iter(())
        self._lease: Lease | None = None
        self._phase = 0
        self._steps = False
        self._interpose()

    def _interpose(self) -> None:
        """Lets the worker take steps before each read of a review."""
        for owner, name in (
            (self.answering.asks, "of"),
            (self.answering._stored, "follow"),
            (self.answering._operations.engine, "run"),
            (self.frontier.engine.client, "hgetall"),
            (self.frontier.engine.client, "zscan"),
            (self.frontier.engine.client, "xpending_range"),
        ):
            setattr(owner, name, self._after_steps(getattr(owner, name)))

    def _after_steps(self, read: Callable[..., Any]) -> Callable[..., Any]:
        async def reads(*words: Any, **more: Any) -> Any:
            if not self._steps:
                for _ in range(next(self.meanwhile, 0)):
                    await self.step()
            return await read(*words, **more)

        return reads

    async def step(self) -> None:
        """Leases and fetches a URL, stores its page, answers, or settles: what is next."""
        self._steps = True
        try:
            await self._step()
        finally:
            self._steps = False

    async def _step(self) -> None:
        if self._lease is None:
            for lease in await self.frontier.lease(1, 1):
                self._lease, self._phase = lease, 0
                (url,) = lease.urls
                if url.returns and await self.answering.from_store(url.url):
                    self._phase = 2
                else:
                    assert url.url not in self.stored
                    self.fetched[url.url] += 1
            return
        (leased,), self._phase = self._lease.urls, self._phase + 1
        url = leased.url
        if self._phase == 1:
            self.metadata.upsert([self._row(url)])
            self.stored.add(url)
        elif self._phase == 2 and self.pages[url] != url:
            await self.answering.move(url, self.pages[url])
        elif self._phase == 2:
            await self.answering.finish(url, LiveAnswer.of_row(self._row(url)))
        else:
            await self.frontier.release(self._lease, [Settlement(leased.index)])
            self._lease = None

    def _row(self, url: str) -> dict[str, Any]:
        status = 200 if self.pages[url] == url else 302
        return row(url, status=status, final_url=self.pages[url], fetched_at=datetime.now(UTC), error=None)

    def forget(self, *, asks: bool) -> None:
        """Loses the queues and leases, as an engine does that lost its latest writes."""
        for key in self.valkey.keys("wc:{s*"):
            if asks or not key.endswith(b"asks"):
                self.valkey.delete(key)
        self._lease = None  # its worker notices the loss

    @property
    def is_done(self) -> bool:
        return not self.valkey.xlen(STREAM)


@pytest.fixture
def lane_of(
    frontier: Frontier, tmp_path: Path, runner: asyncio.Runner, valkey: Redis
) -> Iterator[Callable[[], Lane]]:
    """Makes lanes on an empty engine; their pages are stored in one database."""
    uri = f"sqlite:///{tmp_path / 'metadata.db'}"
    metadata, lanes = Metadata(uri), list[Lane]()

    def make() -> Lane:
        valkey.flushall()
        engine = frontier.engine
        for owner, name in (
            (engine, "run"),
            *((engine.client, word) for word in ("hgetall", "zscan", "xpending_range")),
        ):
            vars(owner).pop(name, None)
        lanes.append(Lane(frontier, metadata, uri, valkey))
        return lanes[-1]

    yield make
    for lane in lanes:
        runner.run(lane.answering.close())
    metadata.close()


serial = iter(range(1_000_000))


async def put(lane: Lane, hops: int, urls: int) -> list[LiveAsk]:
    """Puts a message whose first URL redirects so often; returns what it asks for."""
    number = next(serial)
    chains = [
        [f"http://h{number}-{n}-{hop}.test/" for hop in range(hops + 1 if not n else 1)] for n in range(urls)
    ]
    for chain in chains:
        lane.pages.update(zip(chain, [*chain[1:], chain[-1]], strict=True))
    await lane.messages.begin()
    name = "url" if urls == 1 else "urls"
    lane.valkey.xadd(STREAM, {name: " ".join(chain[0] for chain in chains), "max_age": "3600"})
    (message,) = await lane.messages.read()
    if urls > 1:
        await lane.answering.asks.begin(message.number, urls)
    return asks_of(message)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 3), st.integers(1, 2), st.integers(0, 9), st.lists(st.integers(0, 5), max_size=40))
def test_a_message_that_is_looked_at_again_has_no_url_fetched_twice(
    lane_of: Callable[[], Lane],
    runner: asyncio.Runner,
    hops: int,
    urls: int,
    before: int,
    meanwhile: list[int],
) -> None:
    lane = lane_of()

    async def run() -> None:
        asks = await put(lane, hops, urls)
        await lane.answering.want(asks)
        for _ in range(before):
            await lane.step()
        lane.meanwhile = iter(meanwhile)
        for _ in range(2):
            await lane.answering.want(asks, again=True)
        lane.meanwhile = iter(())
        for _ in range(4 * (hops + urls + 4)):
            await lane.step()

    runner.run(run())
    assert lane.is_done
    assert lane.fetched == dict.fromkeys(lane.pages, 1)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.integers(0, 3),
    st.integers(1, 2),
    st.integers(0, 12),
    st.booleans(),
    st.lists(st.integers(0, 5), max_size=20),
)
def test_a_message_whose_urls_the_engine_has_lost_is_asked_for_again_and_stored_pages_are_not_fetched(
    lane_of: Callable[[], Lane],
    runner: asyncio.Runner,
    hops: int,
    urls: int,
    before: int,
    loses_asks: bool,
    meanwhile: list[int],
) -> None:
    lane = lane_of()

    async def run() -> None:
        asks = await put(lane, hops, urls)
        await lane.answering.want(asks)
        for _ in range(before):
            await lane.step()
        lane.forget(asks=loses_asks)
        lane.meanwhile = iter(meanwhile)
        for _ in range(2):
            await lane.answering.want(asks, again=True)
            for _ in range(4 * (hops + urls + 1)):
                await lane.step()

    runner.run(run())
    assert lane.is_done
    assert lane.stored == lane.pages.keys()
