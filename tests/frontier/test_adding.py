"""URLs whose addition is repeated are queued once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.frontier.consumer import Consumer, page_with
from tests.frontier.losing import Losing
from tests.frontier.pages import page
from webcrawl.errors import EngineUnavailable
from webcrawl.frontier import Candidate, Frontier
from webcrawl.frontier.adding import Addition
from webcrawl.frontier.bloom import BloomSeen

Frontiers = Callable[..., Frontier]


def losing(frontier: Frontier, redis_url: str) -> Losing:
    """Makes a frontier lose the reply of every second call that adds URLs; returns its engine."""
    frontier.engine = engine = Losing(redis_url)
    engine.scripts = ("add",)
    return engine


def urls(*, anyway: bool = False, tested: bool = True) -> list[Candidate]:
    some = [page(f"http://h{n % 7}.test/{n}", anyway=anyway) for n in range(30)]
    return some if tested else [replace(url, fingerprint=None) for url in some]


@pytest.mark.parametrize(
    "some", [urls(), urls(anyway=True), urls(tested=False)], ids=["tested", "anyway", "untested"]
)
async def test_a_repeat_queues_nothing_twice(
    frontier_of: Frontiers, redis_url: str, some: list[Candidate]
) -> None:
    frontier = frontier_of(shards=4)
    engine = losing(frontier, redis_url)
    engine.every = 1
    addition = Addition(some)
    for _ in range(3):
        with pytest.raises(EngineUnavailable):
            await frontier.add(addition)
    engine.scripts = ()
    verdicts = await frontier.add(addition)
    assert (await frontier.counts()).queued == 30
    if some[0].anyway or some[0].fingerprint is None:
        assert verdicts == [True] * 30
        addition.begin()
        assert await frontier.add(addition) == [True] * 30, "as after a restart of the engine"
        assert (await frontier.counts()).queued == 30
        assert all(await frontier.add(some)), "other batches may have the same URLs"
        assert (await frontier.counts()).queued == 60


@pytest.mark.parametrize("seen", ["engine", "bloom"])
async def test_lost_replies_fetch_nothing_twice(
    frontier_of: Frontiers, redis_url: str, tmp_path: Path, seen: str
) -> None:
    frontier = frontier_of(shards=4)
    engine = losing(frontier, redis_url)
    consumer = Consumer(frontier, lambda url: page_with())
    if seen == "bloom":
        consumer.worker.intake._bloom = BloomSeen(tmp_path / "crawl.bloom")
    some = urls(anyway=seen == "engine")[:8]
    consumer.start(seeding=True)
    for url in some:
        assert consumer.worker.add(url)  # one at a time, so that many replies are lost
        await consumer.until(lambda: not consumer.worker.intake)
    consumer.worker.seeding = False
    assert await consumer.end() == "finished"
    assert consumer.fetched == {url.host + url.path: 1 for url in some}
    assert engine.calls > 8
    await engine.close()
