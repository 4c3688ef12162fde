"""Hosts that sink and rise in any order lose no URL, and while others are better their owners wait for their turns."""

from __future__ import annotations

import asyncio
from collections import Counter

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from redis import Redis

from tests.frontier.clock import Clock, ClockedEngine
from tests.frontier.pages import all_done, page
from webcrawl.engine.keys import Keys
from webcrawl.frontier import Frontier, Lease, LeaseReport
from webcrawl.frontier.ledger import Ledger
from webcrawl.policies.budgets import Slowdown

DOMAIN = "trap.test"
HOSTS = [f"https://{letter}.{DOMAIN}" for letter in "abc"] + ["https://honest.test", "http://honest.test"]
DELAY = 1.0
hosts = st.sampled_from(HOSTS)


class SinkingMachine(RuleBasedStateMachine):
    """One worker, one shard, and a clock that only a rule moves."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.engine = ClockedEngine(url)
        self.run(self.engine.check())
        self.valkey = Redis.from_url(url)
        self.valkey.flushall()
        keys = Keys("crawl", 1)
        self.clock = Clock(self.valkey, [keys.own().split(":")[1], "{s0}"])
        self.frontier, self.ledger = (
            Frontier(self.engine, keys, "w1", max_attempts=100),
            Ledger(self.engine, keys),
        )
        self.added, self.fetched = Counter[str](), Counter[str]()
        self.held: dict[str, Lease] = {}
        self.factor, self.since, self.turns = 1.0, self.clock.now, Counter[str]()
        """The factor of gaps, since when, and the turns of owners at the lowest level since then."""

    def run(self, work: object) -> object:
        return self.runner.run(work)  # type: ignore[arg-type]

    def teardown(self) -> None:
        try:
            self.finish()
        finally:
            self.run(self.engine.close())
            self.runner.close()
            self.valkey.close()

    @rule(host=hosts, level=st.integers(-1, 9), number=st.integers(1, 12))
    def add(self, host: str, level: int, number: int) -> None:
        urls = [f"{host}/{self.added[host] + n}" for n in range(number)]
        self.added[host] += number
        assert all(self.run(self.frontier.add([page(url, level=level) for url in urls])))  # type: ignore[call-overload]

    @rule(most=st.integers(1, 4), over=st.sampled_from([None, "name", DOMAIN]))
    def lease_and_release(self, most: int, over: str | None) -> None:
        self.time_passes(2_000)
        self.lease(most)
        self.release([over] * len(self.held), True)

    @rule(most=st.integers(1, 4))
    def lease(self, most: int) -> None:
        for lease in self.run(self.frontier.lease(5, most)):  # type: ignore[attr-defined]
            self.held[lease.host] = lease
            if lease.over and lease.urls[0].rank > 0:
                self.turns[lease.over.partition(" ")[0]] += 1
                if self.factor > 1:
                    assert len(lease.urls) == 1
        self.check_turns()

    def check_turns(self) -> None:
        """An owner may have had a turn for each of its hosts when gaps grew, and then one for each gap."""
        gaps = (self.clock.now - self.since) / (1000 * DELAY * self.factor)
        for turns in self.turns.values() if self.factor > 1 else ():
            assert turns <= len(HOSTS) + 1 + gaps

    @rule(
        over=st.lists(st.sampled_from([None, "", "name", DOMAIN]), min_size=1, max_size=5), done=st.booleans()
    )
    def release(self, over: list[str | None], done: bool) -> None:
        """Releases the first hosts that are held."""
        for host, who in zip(list(self.held), over, strict=False):
            self.release_one(self.held.pop(host), who, done)

    def release_one(self, lease: Lease, over: str | None, done: bool) -> None:
        if over == "name" or over == DOMAIN and not lease.host.endswith(DOMAIN):
            over = lease.host.partition("://")[2]
        over = over and f"{over} 1"
        settled = all_done(lease) if done else ()
        self.fetched.update(url.url for url in lease.urls if done)
        self.run(self.frontier.settle_all([LeaseReport(lease, settled, pause=DELAY, over=over)]))

    @rule(factor=st.sampled_from([1.0, 3.0, 32.0]))
    def slow_down(self, factor: float) -> None:
        if factor != self.factor:
            self.factor, self.since = factor, self.clock.now
            self.turns.clear()
        self.run(self.ledger.slow_down([0], self.slowdown, DELAY))

    @property
    def slowdown(self) -> Slowdown:
        return Slowdown(self.factor, 1.0 if self.factor > 1 else 0.0)

    @rule(ms=st.sampled_from([100, 5000, 40_000]))
    def time_passes(self, ms: int) -> None:
        self.run(self.ledger.slow_down([0], self.slowdown, DELAY))  # a worker repeats it every second
        self.clock.move(ms)
        for host, lease in list(self.held.items()):
            if host in self.run(self.frontier.extend([lease])):  # type: ignore[operator]
                del self.held[host]

    @rule()
    def the_worker_dies(self) -> None:
        self.run(self.frontier.reap(everything=True))
        self.held.clear()

    def finish(self) -> None:
        """Every URL is leased in the end, whether gaps are long or not."""
        self.the_worker_dies()
        for _ in range(sum(self.added.values()) + len(HOSTS)):
            self.clock.move(40_000 * len(HOSTS))
            for lease in self.run(self.frontier.lease(5, 100)):  # type: ignore[attr-defined]
                self.fetched.update(url.url for url in lease.urls)
                self.run(self.frontier.settle_all([LeaseReport(lease, all_done(lease), pause=DELAY)]))
        wanted = Counter(f"{host}/{n}" for host, number in self.added.items() for n in range(number))
        assert self.fetched == wanted
        assert self.run(self.frontier.finished())


def test_sinking_and_rising_lose_nothing(redis_url: str) -> None:
    run_state_machine_as_test(
        lambda: SinkingMachine(redis_url),
        settings=settings(max_examples=15, stateful_step_count=40, deadline=None),
    )
