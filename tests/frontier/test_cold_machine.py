"""Random interleavings of adds and moves of known URLs to the store, with kills, compared with a set."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from hypothesis import HealthCheck, Phase, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from redis import Redis

from tests.frontier.clock import Clock, ClockedEngine, Killed
from tests.frontier.cold import cold_of
from tests.frontier.contents import Contents
from webcrawl.engine.keys import Keys
from webcrawl.engine.scripts import Call
from webcrawl.frontier import Candidate, Frontier

SHARDS = 2
HOSTS = [f"http://h{n}.test" for n in range(6)]
FORGET_MS = 700_000
"""More than an unused segment is kept."""

# marks whose doubles are equal are neighbours in one bucket
fingerprints = st.integers(0, 2**48 - 1) | st.integers(0, 40) | st.integers(2**48 - 40, 2**48 - 1)
urls = st.lists(st.tuples(st.sampled_from(HOSTS), fingerprints), min_size=1, max_size=30)


class SlowEngine(ClockedEngine):
    """Its round trips take random times, so that those of several workers interleave in all ways."""

    chance: random.Random | None = None

    async def run_all(self, calls: Sequence[Call], *, some: bool = False) -> list[Any]:
        if self.chance:
            await asyncio.sleep(self.chance.choice([0, 0, 0.001, 0.003, 0.01]))
        return await super().run_all(calls, some=some)


class SeenMachine(RuleBasedStateMachine):
    """Two workers with caches of their own, on one crawl."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.runner = asyncio.Runner()
        self.engine = SlowEngine(url)
        self.runner.run(self.engine.check())
        self.valkey = Redis.from_url(url)
        self.valkey.flushall()
        self.keys = Keys("crawl", SHARDS)
        self.clock = Clock(self.valkey, [*(f"{{s{shard}}}" for shard in range(SHARDS)), "{c:crawl}"])
        self.workers = [Frontier(self.engine, self.keys, f"w{number}") for number in range(2)]
        for frontier in self.workers:
            cold_of(frontier, Path(self.folder.name))
        self.known: dict[tuple[str, int], None] = {}

    def teardown(self) -> None:
        self.folder.cleanup()
        self.runner.run(self.engine.close())
        self.runner.close()
        self.valkey.close()

    @rule(batch=urls, data=st.data(), worker=st.integers(0, 1), anyway=st.booleans())
    def add(self, batch: list[tuple[str, int]], data: st.DataObject, worker: int, anyway: bool) -> None:
        if self.known:
            batch = batch + data.draw(st.lists(st.sampled_from([*self.known]), max_size=10))
        expected = []
        for url in batch:
            expected.append(anyway or url not in self.known)
            self.known[url] = None
        candidates = [Candidate(host, f"/{number}", number, anyway=anyway) for host, number in batch]
        assert self.runner.run(self.workers[worker].add(candidates)) == expected

    @rule(steps=st.none() | st.integers(0, 12), batch=urls, seed=st.integers(0, 10**6), adds=st.booleans())
    def move(self, steps: int | None, batch: list[tuple[str, int]], seed: int, adds: bool) -> None:
        """Both workers move and add URLs of a shard at once; all may be killed after some steps."""
        new = [url for url in dict.fromkeys(batch) if url not in self.known]
        candidates = [Candidate(host, f"/{number}", number) for host, number in new]
        self.engine.steps, self.engine.chance = steps, random.Random(seed)
        work: list[Any] = [
            frontier.cold.spill(shard) for shard in (0, 1) for frontier in self.workers if frontier.cold
        ]
        if adds:
            work += [frontier.add(candidates) for frontier in self.workers]
        outcomes = self.runner.run(_all(work))
        self.engine.steps = self.engine.chance = None
        for outcome in outcomes:
            if isinstance(outcome, BaseException) and not isinstance(outcome, Killed):
                raise outcome
        verdicts = [outcome for outcome in outcomes if isinstance(outcome, list)]
        assert all(sum(pair) == 1 for pair in zip(*verdicts, strict=True)) or len(verdicts) < 2
        if adds:
            # if a worker was killed, the engine may have got only some
            assert self.runner.run(self.workers[1].add(candidates)) is not None
            self.known |= dict.fromkeys(new)

    @rule(host=st.sampled_from(HOSTS), number=fingerprints)
    def look(self, host: str, number: int) -> None:
        assert self.runner.run(self.workers[0].is_seen(host, number)) == ((host, number) in self.known)

    @rule()
    def delete_unused_segments(self) -> None:
        self.clock.move(FORGET_MS)
        cold = self.workers[0].cold
        assert cold
        plans = self.runner.run(cold._tails.plan(range(SHARDS)))
        for plan in plans:
            self.runner.run(cold._tails.carry_out(replace(plan, writes=[], reads=[], burials=[])))

    @invariant()
    def the_structures_have_each_known_url_once(self) -> None:
        contents = Contents.read(self.valkey, self.keys, Path(self.folder.name))
        assert contents.seen == len(self.known) == contents.counters.get("seen", 0)


async def _all(work: list[Any]) -> list[Any]:
    return await asyncio.gather(*work, return_exceptions=True)


def test_no_known_url_is_lost_whatever_happens(redis_url: str) -> None:
    # so that few marks make several buckets
    with (
        patch("webcrawl.frontier.cold_bucket.MOST_MARKS", 4),
        patch("webcrawl.frontier.cold_move._BUCKETS_AT_ONCE", 3),
    ):
        run_state_machine_as_test(
            lambda: SeenMachine(redis_url),
            settings=settings(
                max_examples=12,
                stateful_step_count=20,
                suppress_health_check=[HealthCheck.too_slow],
                phases=[Phase.reuse, Phase.generate, Phase.shrink],
                deadline=None,
            ),
        )
