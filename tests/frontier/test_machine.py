"""Random interleavings of everything that workers and operators do, compared with a model after each step."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import HealthCheck, Phase, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from redis import Redis

from tests.frontier.contents import Contents
from tests.frontier.pages import hash_of, past
from tests.model import Entry, Hosts, ModelFrontier
from webcrawl.engine import Engine
from webcrawl.frontier import Candidate, Frontier, Keys, Lease, Settlement

NEVER = 3600.0
"""A pause, delay or block that does not end while the test runs."""
BRIEF = 0.001
BLAMES = 3

hosts = st.sampled_from([f"http://{letter}.test" for letter in "abcd"])
crawls = st.sampled_from(["ours", "theirs"])
# of each crawl: a worker whose leases last, and one whose leases run out at once
workers = st.tuples(crawls, st.booleans())
pauses = st.sampled_from([0.0, 0.0, NEVER])
urls = st.tuples(hosts, st.integers(0, 5), st.sampled_from([0, 3, 3, 7]), st.booleans())
verdicts = st.tuples(
    st.integers(1, 6), st.sampled_from(["done", "retry", "dead"]), st.booleans(), st.sampled_from(["x", "y"])
)
settlements = st.lists(verdicts, max_size=4, unique_by=lambda one: one[0])


class FrontierMachine(RuleBasedStateMachine):
    """Two crawls on the same hosts, two workers each; leases are kept for ever, so that stale ones are used too."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.engine = Engine(url)
        self.valkey = Redis.from_url(url)
        self.valkey.flushall()
        self.shared = Hosts()
        self.models = {name: ModelFrontier(name, self.shared, BLAMES) for name in ("ours", "theirs")}
        self.frontiers = {
            (name, brief): Frontier(
                self.engine,
                Keys(name, 2),
                f"{name} {brief}",
                lease_seconds=BRIEF if brief else NEVER,
                max_attempts=BLAMES,
                low_share=0,
            )
            for name in self.models
            for brief in (False, True)
        }
        self.leases: list[tuple[str, Lease]] = []
        self.put_off: set[tuple[str, str]] = set()
        """Hosts that a crawl found held by the other one: it will look again, but not at once."""
        self.adds = 0

    def teardown(self) -> None:
        self.runner.run(self.engine.close())
        self.runner.close()
        self.valkey.close()

    def run(self, work: Any) -> Any:
        return self.runner.run(work)

    def frontier(self, crawl: str, brief: bool = False) -> Frontier:
        return self.frontiers[crawl, brief]

    def time_passes(self) -> None:
        """What is meant to run out has done so."""
        self.run(past(self.engine, BRIEF))
        self.shared.time_passes()

    @initialize(delays=st.dictionaries(hosts, st.sampled_from([0.0, NEVER]), max_size=2))
    def set_delays(self, delays: dict[str, float]) -> None:
        for host, delay in delays.items():
            self.set_delay("ours", host, delay)

    @rule(crawl=crawls, batch=st.lists(urls, min_size=1, max_size=8))
    def add(self, crawl: str, batch: list[tuple[str, int, int, bool]]) -> None:
        candidates, expected = [], []
        for host, number, level, tested in batch:
            self.adds += 1
            path = f"/{number}" if tested else f"/{number}?again={self.adds % 2}"
            fingerprint = hash_of(host + path) if tested else None
            candidates.append(Candidate(host, path, fingerprint, level))
            expected.append((host, Entry(path, level), fingerprint))
        assert self.run(self.frontier(crawl).add(candidates)) == self.models[crawl].add(expected)

    @rule(worker=workers, wanted=st.integers(1, 4), count=st.integers(1, 4))
    def lease(self, worker: tuple[str, bool], wanted: int, count: int) -> None:
        self.time_passes()
        crawl, brief = worker
        model = self.models[crawl]
        leases = self.run(self.frontier(*worker).lease(wanted, count))
        taken = [lease.host for lease in leases]
        self._wake(crawl, everywhere=len(taken) < wanted)
        ready = model.ready()
        certain = {host for host in ready if (crawl, host) not in self.put_off}
        assert len(taken) == len(set(taken)) <= wanted
        assert set(taken) <= ready.keys(), "a host that may not be asked"
        if len(taken) < wanted:
            assert certain <= set(taken), "a host that was not found"
        shard = self.frontier(crawl).keys.shard
        for host in taken:
            left = [ready[one] for one in certain - set(taken) if shard(one) == shard(host)]
            assert ready[host] <= min(left, default=9), "a host of a higher level was passed over"
        for lease in leases:
            self._compare_lease(crawl, lease, count, brief)
        self.put_off -= {(crawl, host) for host in taken}
        self.put_off |= {(crawl, host) for host, record in self.shared.records.items() if record.held}

    def _wake(self, crawl: str, *, everywhere: bool) -> None:
        """A lease call that finds enough need not look into every shard, where retries may have become due."""
        model, keys = self.models[crawl], self.frontier(crawl).keys
        found = Contents.read(self.valkey, keys).later
        for shard in range(keys.shards):
            here = [one for one in model.later if keys.shard(one[0]) == shard]
            if found[shard] < len(here) or everywhere:
                model.wake({host for host, _, _ in here})

    def _compare_lease(self, crawl: str, lease: Lease, count: int, brief: bool) -> None:
        record = self.shared[lease.host]
        assert (lease.failures, lease.delay) == (record.failures, record.delay)
        model = self.models[crawl].lease(lease.host, lease.token, count, brief=brief)
        assert {url.index: (url.path, url.level, url.attempts, url.returns) for url in lease.urls} == {
            index: (one.path, one.level, one.attempts, one.returns) for index, one in model.entries.items()
        }
        self.leases.append((crawl, lease))

    def _some_lease(self, data: st.DataObject) -> tuple[str, Lease] | None:
        if not self.leases:
            return None
        # mostly a late one, which may still be good
        place = data.draw(st.integers(0, len(self.leases) - 1) | st.just(len(self.leases) - 1))
        return self.leases[place]

    @rule(data=st.data(), settled=settlements, more=st.integers(0, 4), brief=st.booleans())
    def acknowledge(
        self, data: st.DataObject, settled: list[tuple[int, str, bool, str]], more: int, brief: bool
    ) -> None:
        if (chosen := self._some_lease(data)) is None:
            return
        crawl, lease = chosen
        model, host = self.models[crawl], lease.host
        expected = None
        if model.holds(host, lease.token):
            model.settle(host, settled)
            expected = [(index, one.path) for index, one in model.keep(host, more, brief=brief)]
        urls = self.run(self.frontier(crawl, brief).acknowledge(lease, real(settled), more=more))
        assert (None if urls is None else [(url.index, url.path) for url in urls]) == expected

    @rule(data=st.data(), settled=settlements, pause=pauses, failures=st.integers(0, 3))
    def release(
        self, data: st.DataObject, settled: list[tuple[int, str, bool, str]], pause: float, failures: int
    ) -> None:
        if (chosen := self._some_lease(data)) is None:
            return
        crawl, lease = chosen
        model, lease.failures = self.models[crawl], failures
        good = model.holds(lease.host, lease.token)
        if good:
            model.settle(lease.host, settled)
            model.release(lease.host, failures=failures, blocked=pause > 0)
        assert self.run(self.frontier(crawl).release(lease, real(settled), pause=pause)) == good

    @rule(crawl=crawls, brief=st.booleans())
    def extend(self, crawl: str, brief: bool) -> None:
        model = self.models[crawl]
        leases = {lease.token: lease for name, lease in self.leases if name == crawl}
        good = {token for token, lease in leases.items() if model.holds(lease.host, token)}
        for token in good:
            host = leases[token].host
            model.leases[host].brief = self.shared[host].brief = brief
            self.shared[host].held = True
        lost = {leases[token].host for token in leases.keys() - good}
        assert self.run(self.frontier(crawl, brief).extend(list(leases.values()))) == lost

    @rule(crawl=crawls, everything=st.booleans(), delay=pauses)
    def reap(self, crawl: str, everything: bool, delay: float) -> None:
        self.time_passes()
        reaped = self.run(self.frontier(crawl).reap(everything=everything, delay=delay))
        assert reaped == self.models[crawl].reap(everything=everything, blocked=delay > 0)

    @rule(crawl=crawls, host=hosts)
    def condemn(self, crawl: str, host: str) -> None:
        assert self.run(self.frontier(crawl).condemn(host, "z")) == self.models[crawl].condemn(host, "z")

    @rule(crawl=crawls, data=st.data())
    def requeue(self, crawl: str, data: st.DataObject) -> None:
        model = self.models[crawl]
        known = sorted({(host, entry.path) for host, entry, _ in model.dead})
        host, path = data.draw(st.sampled_from([*known, ("http://a.test", "/unknown")]))
        assert self.run(self.frontier(crawl).requeue([(host, host + path)])) == model.requeue({(host, path)})

    @rule(host=hosts, seconds=pauses)
    def block_until(self, host: str, seconds: float) -> None:
        for crawl in self.models:
            self.run(self.frontier(crawl).block_until(host, seconds))
        self.shared[host].blocked = seconds > 0
        self.put_off -= {(crawl, host) for crawl in self.models}

    @rule(crawl=crawls, host=hosts, seconds=st.sampled_from([None, 0.0, NEVER]))
    def set_delay(self, crawl: str, host: str, seconds: float | None) -> None:
        self.run(self.frontier(crawl).set_delay(host, seconds))
        self.shared[host].delay = seconds

    @rule(crawl=crawls)
    def is_it_finished(self, crawl: str) -> None:
        counts = self.models[crawl].counts()
        still_open = counts["queued"] + counts["leased"] + counts["later"]
        assert self.run(self.frontier(crawl).finished()) == (still_open == 0)

    @invariant()
    def the_structures_are_the_models(self) -> None:
        for crawl, model in self.models.items():
            found = Contents.read(self.valkey, Keys(crawl, 2))
            assert found.queues == {
                h: [rows(one) for one in queue] for h, queue in model.queues.items() if queue
            }
            assert found.leases == {
                host: {index: rows(one) for index, one in lease.entries.items()}
                for host, lease in model.leases.items()
            }
            counts = model.counts()
            assert (sum(found.later.values()), found.seen) == (counts["later"], counts["seen"])
            assert sorted(url for url, _ in found.dead) == sorted(
                host + one.path for host, one, _ in model.dead
            )
            counted = {name: found.counters.get(name, 0) for name in counts}
            assert counted == counts, "counters that lie"


def real(settled: list[tuple[int, str, bool, str]]) -> list[Settlement]:
    return [
        Settlement(index, verdict, 0.0 if due else NEVER, reason) for index, verdict, due, reason in settled
    ]


def rows(entry: Entry) -> tuple[str, int, int, int, int]:
    return (entry.path, entry.level, entry.attempts, entry.returns, entry.blames)


def test_any_interleaving_is_as_the_model_says(redis_url: str) -> None:
    run_state_machine_as_test(
        lambda: FrontierMachine(redis_url),
        settings=settings(
            max_examples=60,
            stateful_step_count=40,
            suppress_health_check=[HealthCheck.too_slow],
            phases=[Phase.reuse, Phase.generate, Phase.shrink],
        ),
    )
