"""Random interleavings of a crawl, moves of idle hosts to the store and back, and kills, compared with plain counts."""

from __future__ import annotations

import asyncio
import random
import struct
from collections import Counter
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from hypothesis import HealthCheck, Phase, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from redis import Redis

from tests.frontier.clock import Clock, Killed
from tests.frontier.cold import cold_hosts_of
from tests.frontier.pages import page
from tests.frontier.test_cold_machine import SlowEngine
from webcrawl.engine.keys import Keys
from webcrawl.frontier import Frontier, LeaseReport, Settlement
from webcrawl.frontier.ledger import BudgetEntry, Ledger
from webcrawl.frontier.trust import Discovery, TrustLedger
from webcrawl.policies.trust import SEED

SHARDS = 2
HOSTS = [f"{scheme}://h{n}.test" for n in range(5) for scheme in ("http", "https")]
OWNERS = [f"h{n}.test" for n in range(5)]
HOUR_MS, FORGET_MS = 3_700_000, 700_000
"""More than the record of a quiet host, and an unused segment, are kept."""

hosts = st.lists(st.sampled_from(HOSTS), min_size=1, max_size=6, unique=True)
worker = st.integers(0, 1)


class ColdHostsMachine(RuleBasedStateMachine):
    """Two workers on one crawl. What is counted here is compared with the records, wherever they are."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.runner = asyncio.Runner()
        self.run = self.runner.run
        self.engine = SlowEngine(url)
        self.run(self.engine.check())
        self.valkey = Redis.from_url(url)
        self.valkey.flushall()
        self.keys = Keys("crawl", SHARDS)
        self.clock = Clock(self.valkey, [*(f"{{s{shard}}}" for shard in range(SHARDS)), "{c:crawl}"])
        self.workers = [Frontier(self.engine, self.keys, f"w{number}") for number in range(2)]
        self.cold = [cold_hosts_of(frontier, Path(self.folder.name)) for frontier in self.workers]
        self.trust = [TrustLedger(self.engine, self.keys) for _ in range(2)]
        self.ledger = Ledger(self.engine, self.keys)
        self.pages, self.spent = Counter[str](), Counter[str]()
        self.linking: dict[str, set[str]] = {}
        self.waiting = Counter[str]()
        self.named: set[str] = set()
        self.number = 0

    def teardown(self) -> None:
        try:
            self.every_url_is_fetched_and_every_seed_has_trust()
        finally:
            self.folder.cleanup()
            self.run(self.engine.close())
            self.runner.close()
            self.valkey.close()

    @rule(some=hosts, worker=worker)
    def add(self, some: list[str], worker: int) -> None:
        self.number += 1
        self.waiting.update(some)
        assert all(self.run(self.workers[worker].add([page(f"{host}/{self.number}") for host in some])))

    @rule(worker=worker, most=st.integers(1, 4), retry=st.booleans())
    def fetch(self, worker: int, most: int, retry: bool) -> None:
        """No host is leased before its record is back."""
        leases = self.run(self.workers[worker].lease(most, 2))
        for lease in leases:
            assert self.in_engine("spent", lease.host, b"0 0").split()[0] == b"%d" % self.pages[lease.host]
            verdict = "retry" if retry else "done"
            done = [Settlement(url.index, verdict, pages=1, bytes=10) for url in lease.urls]
            self.run(self.workers[worker].settle_all([LeaseReport(lease, done, pause=1.0)]))
            self.pages[lease.host] += len(lease.urls)
            if not retry:
                self.waiting[lease.host] -= len(lease.urls)

    @rule(worker=worker, named=hosts, source=st.sampled_from(HOSTS), linked=hosts)
    def pass_trust(self, worker: int, named: list[str], source: str, linked: list[str]) -> None:
        news = Discovery(set(named))
        news.linked[source] |= dict.fromkeys(linked, False)
        self.named |= news.named
        self.run(self.trust[worker].pass_on(news))

    @rule(
        some=st.lists(st.sampled_from(OWNERS), min_size=1), units=st.integers(0, 5), domain=st.integers(0, 3)
    )
    def spend(self, some: list[str], units: int, domain: int) -> None:
        self.spent.update(dict.fromkeys(some, units))
        for owner in some:
            self.linking.setdefault(owner, set()).add(f"d{domain}")
        self.run(self.ledger.add({owner: BudgetEntry(units, {f"d{domain}"}) for owner in some}))

    @rule(ms=st.sampled_from([2000, HOUR_MS]))
    def wait(self, ms: int) -> None:
        self.clock.move(ms)

    @rule(
        steps=st.none() | st.integers(0, 12),
        seed=st.integers(0, 10**6),
        adds=st.booleans(),
        drops=st.booleans(),
        some=hosts,
    )
    def move(self, steps: int | None, seed: int, adds: bool, drops: bool, some: list[str]) -> None:
        """Both workers move hosts and bring them back at once, while URLs come; all may be killed after some steps.

        With `drops`, they also drop outdated records from the store.
        """
        self.number += 1
        candidates = [page(f"{host}/{self.number}") for host in some]
        self.engine.steps, self.engine.chance = steps, random.Random(seed)
        work: list[Any] = [cold.move(shard) for cold in self.cold for shard in range(SHARDS)]
        work += [cold.wake_all(range(SHARDS)) for cold in self.cold]
        work += [cold.forget(shard) for cold in self.cold for shard in range(SHARDS)] if drops else []
        if adds:
            work.append(self.workers[0].add(candidates))
        with patch("webcrawl.frontier.cold_host_move.FORGOTTEN", ()):
            outcomes = self.run(_all(work))
        self.engine.steps = self.engine.chance = None
        for outcome in outcomes:
            if isinstance(outcome, BaseException) and not isinstance(outcome, Killed):
                raise outcome
        if adds:
            self.run(self.workers[1].add(candidates))
            self.waiting.update(some)

    @rule(worker=worker)
    def wake(self, worker: int) -> None:
        self.run(self.cold[worker].wake_all(range(SHARDS)))

    @rule(worker=worker, some=hosts)
    def forget(self, worker: int, some: list[str]) -> None:
        """Hosts whose records are in the store are forgotten, except those that need them now."""
        self.move(None, 0, False, False, [])
        self.add(some[:3], worker)
        asleep = self.run(self.cold[0].read(HOSTS))
        for shard in range(SHARDS):
            self.run(self.cold[worker].forget(shard))
        waking = [self.valkey.smembers(self.keys.queue(shard)[0] + "waking") for shard in range(SHARDS)]
        for host in asleep:
            if host.encode() not in set().union(*waking):
                self.pages[host] = 0

    @rule()
    def delete_unused_segments(self) -> None:
        self.clock.move(FORGET_MS)
        tails = self.cold[0]._tails
        for plan in self.run(tails.plan(range(SHARDS))):
            self.run(tails.carry_out(replace(plan, writes=[], reads=[], burials=[])))

    @invariant()
    def nothing_is_lost(self) -> None:
        cold = self.run(self.cold[0].read([*HOSTS, *OWNERS]))
        for host in HOSTS:
            spent = cold.get(host, {}).get("spent", b"0 0")
            if host not in cold:
                spent = self.in_engine("spent", host, b"0 0")
            assert spent.split()[0] == b"%d" % self.pages[host]
        for owner in OWNERS:
            budget = cold.get(owner, {}).get("budgets") or self.in_engine("budgets", owner, bytes(4))
            assert struct.unpack_from("<I", budget)[0] == self.spent[owner]
            assert len(budget) // 4 - 1 == len(self.linking.get(owner, ()))

    @invariant()
    def the_sum_of_trust_has_what_is_in_the_store(self) -> None:
        total = sum(self.trust_of_hosts().values())
        names = [self.keys.queue(shard)[0] + "trusted" for shard in range(SHARDS)]
        assert abs(total - sum(float(self.valkey.get(name) or 0) for name in names)) < 1e-9

    def trust_of_hosts(self) -> dict[str, float]:
        cold = self.run(self.cold[0].read(HOSTS))
        packed = {
            host: cold[host].get("trust") if host in cold else self.in_engine("trust", host, b"")
            for host in HOSTS
        }
        return {
            host: struct.unpack_from("<d", stored)[0] if stored else 0.0 for host, stored in packed.items()
        }

    def in_engine(self, name: str, host: str, default: bytes) -> bytes:
        return self.valkey.hget(self.keys.queue(self.keys.shard(host))[0] + name, host) or default

    def every_url_is_fetched_and_every_seed_has_trust(self) -> None:
        for turn in range(40):
            self.wait(HOUR_MS)
            self.wake(turn % 2)
            self.fetch(turn % 2, len(HOSTS), False)
            for trust in self.trust:
                self.run(trust.pass_on(Discovery()))
        assert not +self.waiting
        self.nothing_is_lost()
        trust_of = self.trust_of_hosts()
        assert all(trust_of[host] >= SEED for host in self.named)


async def _all(work: list[Any]) -> list[Any]:
    return await asyncio.gather(*work, return_exceptions=True)


def test_no_record_is_lost_whatever_happens(redis_url: str) -> None:
    # so that few hosts make several buckets
    with (
        patch("webcrawl.frontier.cold_host_move.MOST_HOSTS", 2),
        patch("webcrawl.frontier.cold_host_move._BUCKETS_AT_ONCE", 2),
    ):
        run_state_machine_as_test(
            lambda: ColdHostsMachine(redis_url),
            settings=settings(
                max_examples=15,
                stateful_step_count=25,
                suppress_health_check=[HealthCheck.too_slow],
                phases=[Phase.reuse, Phase.generate, Phase.shrink],
                deadline=None,
            ),
        )
