"""Random interleavings of all operations of workers and operators, compared with a model after each step."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, settings, strategies as st
from hypothesis.stateful import initialize, rule, run_state_machine_as_test

from tests.frontier.clock import Killed
from tests.frontier.draws import crawls, hosts, pauses, some
from tests.frontier.machine import CRAWLS, milliseconds
from tests.frontier.machine_workers import WorkerMachine
from tests.frontier.pages import hash_of
from tests.model import Entry, Limits
from webcrawl.frontier import Candidate, HostLimits
from webcrawl.frontier.tails import SpillPlan


class FrontierMachine(WorkerMachine):
    """Adds the operations of operators, and the tails of long queues."""

    def __init__(self, *options: Any) -> None:
        super().__init__(*options)
        self.plans: list[tuple[str, SpillPlan]] = []
        """Plans for tails. Some are carried out at once, some late, some never, as by workers that died."""

    @initialize(delays=st.dictionaries(hosts, st.sampled_from([0.0, 30.0]), max_size=2))
    def set_delays(self, delays: dict[str, float]) -> None:
        for host, delay in delays.items():
            self.set_delay("ours", host, delay)
        if self.hot_urls:
            self.add_many("ours", "http://a.test", 3, 40)
            self.serve_tails("ours")

    @rule(crawl=crawls, host=hosts)
    def condemn(self, crawl: str, host: str) -> None:
        assert self.run(self.frontier(crawl).condemn(host, "z")) == self.models[crawl].condemn(host, "z")
        # URLs in the store become dead letters only after they are read
        tails = self.tails[crawl]
        while any((plan := one).burials for one in self.run(tails.plan([0, 1]))):
            self.run(tails.carry_out(plan))

    @rule(crawl=crawls, shard=st.integers(0, 1))
    def plan_tails(self, crawl: str, shard: int) -> None:
        self.plans += [(crawl, plan) for plan in self.run(self.tails[crawl].plan([shard])) if plan]

    @rule(data=st.data())
    def carry_out(self, data: st.DataObject) -> None:
        if self.plans:
            # mostly the latest plan, but also older ones, and some twice
            place = data.draw(st.just(len(self.plans) - 1) | st.integers(0, len(self.plans) - 1))
            crawl, plan = self.plans[place]
            self.run(self.tails[crawl].carry_out(plan))

    @rule(crawl=crawls)
    def serve_tails(self, crawl: str) -> None:
        """Carry out plans until none is left; then the hot lists are within their limit."""
        tails = self.tails[crawl]
        while plans := [plan for plan in self.run(tails.plan([0, 1])) if plan]:
            for plan in plans:
                self.run(tails.carry_out(plan))
        found = self.contents(crawl)
        assert not found.waiting
        returned = 8  # URLs that a lease returns
        assert not self.hot_urls or found.longest <= self.hot_urls + returned

    @rule(crawl=crawls, shard=st.integers(0, 1), steps=st.none() | st.integers(0, 6), moves=st.integers(1, 2))
    def move_seen(self, crawl: str, shard: int, steps: int | None, moves: int) -> None:
        """One worker moves known URLs to the store, or two at once, and may be killed after some steps."""
        colds = [self.frontier(crawl, bool(number)).cold for number in range(moves)]
        self.engine.steps = steps

        async def move() -> None:
            work = (cold.spill(shard) for cold in colds if cold)
            for outcome in await asyncio.gather(*work, return_exceptions=True):
                if isinstance(outcome, BaseException) and not isinstance(outcome, Killed):
                    raise outcome

        self.run(move())
        self.engine.steps = None

    @rule(crawl=crawls, host=hosts, number=st.integers(0, 5))
    def look_for_seen(self, crawl: str, host: str, number: int) -> None:
        fingerprint = hash_of(f"{host}/{number}")
        expected = fingerprint in self.models[crawl].seen
        assert self.run(self.frontier(crawl).is_seen(host, fingerprint)) == expected

    @rule(crawl=crawls, data=st.data(), reason=st.sampled_from(["", "", "x", "worker", "z"]))
    def requeue(self, crawl: str, data: st.DataObject, reason: str) -> None:
        model = self.models[crawl]
        known = sorted({(host, entry.path) for host, entry, _ in model.dead})
        host, path = data.draw(st.sampled_from([*known, ("http://a.test", "/unknown")]))
        queued = self.run(self.frontier(crawl).requeue([(host, host + path)], reason))
        assert queued == model.requeue({(host, path)}, reason)

    @rule(host=hosts, seconds=pauses)
    def block_until(self, host: str, seconds: float) -> None:
        for crawl in CRAWLS:
            self.run(self.frontier(crawl).block_until(host, seconds))
        self.shared.block_until(host, milliseconds(seconds))

    @rule(crawl=crawls, host=hosts, seconds=st.sampled_from([None, 0.0, 30.0]))
    def set_delay(self, crawl: str, host: str, seconds: float | None) -> None:
        self.run(self.frontier(crawl).set_delay(host, seconds))
        self.shared.set_delay(host, seconds)

    @rule(crawl=crawls, host=hosts, blocked=st.booleans())
    def block(self, crawl: str, host: str, blocked: bool) -> None:
        if blocked:
            self.run(self.frontier(crawl).block(host))
            self.models[crawl].block(host)
        else:
            self.run(self.frontier(crawl).unblock(host))
            self.models[crawl].parked.pop(host, None)

    @rule(crawl=crawls, host=hosts, limits=st.builds(Limits, some, some, some))
    def limit(self, crawl: str, host: str, limits: Limits) -> None:
        self.run(self.frontier(crawl).limit(host, HostLimits(limits.pages, limits.bytes, limits.depth)))
        self.models[crawl].limit(host, limits)

    @rule(crawl=crawls, host=hosts, number=st.integers(0, 3), seconds=pauses)
    def schedule(self, crawl: str, host: str, number: int, seconds: float) -> None:
        new = self.run(self.frontier(crawl).schedule([Candidate(host, f"/{number}", None)], seconds))
        assert new == self.models[crawl].schedule(host, Entry(f"/{number}", 3), milliseconds(seconds))

    @rule(crawl=crawls)
    def check_finished(self, crawl: str) -> None:
        counts = self.models[crawl].counts()
        still_open = counts["queued"] - counts["parked"] + counts["leased"] + counts["later"]
        assert self.run(self.frontier(crawl).finished()) == (still_open == 0)


@pytest.mark.parametrize(
    ("hot_urls", "order", "low_share", "unit"),
    [
        (0, "breadth-first", 0, "name"),
        (8, "depth-first", 0, "origin"),
        (8, "breadth-first", 0.3, "origin"),
        pytest.param(0, "breadth-first", 0, "origin", marks=pytest.mark.slow),
        pytest.param(8, "breadth-first", 0, "name", marks=pytest.mark.slow),
        pytest.param(8, "depth-first", 0.3, "name", marks=pytest.mark.slow),
    ],
)
def test_any_interleaving_matches_the_model(
    redis_url: str, hot_urls: int, order: str, low_share: float, unit: str
) -> None:
    # so that cold buckets are split
    with patch("webcrawl.frontier.cold_bucket.MOST_MARKS", 3):
        run_state_machine_as_test(
            lambda: FrontierMachine(redis_url, hot_urls, order, low_share, unit),
            settings=settings(
                max_examples=6 if hot_urls else 8,
                stateful_step_count=40,
                suppress_health_check=[HealthCheck.too_slow],
                phases=[Phase.reuse, Phase.generate, Phase.shrink],
            ),
        )
