"""Random interleavings of everything that workers and operators do, compared with a model after each step."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from redis import Redis

from tests.frontier.contents import Contents
from tests.frontier.draws import (
    BLAMES,
    BRIEF,
    NEVER,
    crawls,
    hosts,
    pauses,
    sent,
    settlements,
    some,
    urls,
    workers,
)
from tests.frontier.pages import hash_of, past
from tests.model import Entry, Hosts, Limits, ModelFrontier
from webcrawl.engine import Engine
from webcrawl.frontier import Candidate, Crawl, Frontier, HostLimits, Keys, Lease, Settlement
from webcrawl.frontier.spill import Plan, Tails

Settled = tuple[int, str, bool, str, int, int]
"""Index, verdict, whether a retry is due at once, reason, pages and bytes got."""


class FrontierMachine(RuleBasedStateMachine):
    """Two crawls on the same hosts, two workers each; leases are kept for ever, so that stale ones are used too.

    `sent` is how often a call is made: once more when its reply was lost. What a reply would have said then is compared
    too, as it is that of another worker's call.

    The model knows only times that are long past or far off. What happens at a time, that is when leases run out,
    pauses end and dates come, is in test_frontier.py, test_limits.py and test_worker.py; outages, a full engine and how
    long reaping waits after them are in test_worker.py and test_engine.py, slots and failovers in test_cluster.py.
    """

    client: type[Any] = Redis

    def __init__(self, url: str, hot_urls: int, order: str, low_share: float = 0.0) -> None:
        super().__init__()
        self.hot_urls = hot_urls
        self.folder = TemporaryDirectory()
        self.runner = asyncio.Runner()
        self.engine = Engine(url)
        self.run(self.engine.check())
        self.valkey = self.client.from_url(url)
        self.valkey.flushall()
        self.shared = Hosts()
        self.models = {
            name: ModelFrontier(name, self.shared, BLAMES, order == "depth-first", low_share)
            for name in ("ours", "theirs")
        }
        self.frontiers = {
            (name, brief): Frontier(
                self.engine,
                Keys(name, 2),
                f"{name} {brief}",
                lease_seconds=BRIEF if brief else NEVER,
                max_attempts=BLAMES,
                low_share=low_share,
            )
            for name in self.models
            for brief in (False, True)
        }
        self.records = {
            (name, brief): Crawl(self.engine, Keys(name, 2), f"{name} {brief}")
            for name in self.models
            for brief in (False, True)
        }
        self.tails = {name: self._tails(name, order) for name in self.models}
        self.plans: list[tuple[str, Plan]] = []
        """What workers found to do for the tails of queues; some did it, some died before or are late."""
        self.leases: list[tuple[str, Lease]] = []
        self.put_off: set[tuple[str, str]] = set()
        """Hosts that a crawl found held by the other one: it will look again, but not at once."""
        self.shared_out: set[str] = set()
        """Hosts that both crawls wanted at once: whose turn it is depends on what each had, and on time."""
        self.adds = 0
        self.place = 0
        """Dates are in the order of what asked for them."""

    def _tails(self, crawl: str, order: str) -> Tails:
        keys = Keys(crawl, 2)
        record = Crawl(self.engine, keys, "any worker")
        self.run(record.configure(self.hot_urls, order))
        return Tails(self.engine, keys, record, Path(self.folder.name).as_uri())

    def contents(self, crawl: str) -> Contents:
        return Contents.read(self.valkey, Keys(crawl, 2), Path(self.folder.name))

    def teardown(self) -> None:
        self.folder.cleanup()
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
        if self.hot_urls:
            self.add_many("ours", "http://a.test", 3, 40)
            self.serve_tails("ours")

    @rule(crawl=crawls, batch=st.lists(urls, min_size=1, max_size=8), sent=sent)
    def add(self, crawl: str, batch: list[tuple[str, int, int, bool, int]], sent: int = 1) -> None:
        candidates, expected = [], []
        for host, number, level, tested, depth in batch:
            self.adds += 1
            path = f"/{number}" if tested else f"/{number}?again={self.adds % 50}"
            fingerprint = hash_of(host + path) if tested else None
            candidates.append(Candidate(host, path, fingerprint, level, depth))
            expected.append((host, Entry(path, level, depth), fingerprint))
        for _ in range(sent):
            assert self.run(self.frontier(crawl).add(candidates)) == self.models[crawl].add(expected)

    @rule(crawl=crawls, host=hosts, level=st.sampled_from([3, 3, 7]), number=st.integers(5, 30))
    def add_many(self, crawl: str, host: str, level: int, number: int) -> None:
        self.add(crawl, [(host, 0, level, False, 0)] * number)

    @rule(worker=workers, wanted=st.integers(1, 4), count=st.integers(1, 4))
    def lease(self, worker: tuple[str, bool], wanted: int, count: int) -> None:
        self.time_passes()
        crawl, brief = worker
        model = self.models[crawl]
        waiting = self.contents(crawl).waiting
        leases = self.run(self.frontier(*worker).lease(wanted, count))
        taken = [lease.host for lease in leases]
        self._wake(crawl, everywhere=len(taken) < wanted)
        self._see_parked(crawl, waiting, everywhere=len(taken) < wanted)
        ready = model.ready()
        certain = {host for host in ready if self.is_free(crawl, host)} - waiting
        assert len(taken) == len(set(taken)) <= wanted
        assert set(taken) <= ready.keys(), "a host that may not be asked"
        if len(taken) < wanted:
            assert certain <= set(taken), "a host that was not found"
        shard = self.frontier(crawl).keys.shard
        for host in taken:
            left = [ready[one] for one in certain - set(taken) if shard(one) == shard(host)]
            higher = model.low_share or ready[host] <= min(left, default=9)
            assert higher, "a host of a higher level was passed over"
        for lease in leases:
            self._compare_lease(crawl, lease, count, brief)
        self.put_off -= {(crawl, host) for host in taken}
        for host, record in self.shared.records.items():
            if record.held:
                self.put_off.add((crawl, host))
                if not (record.holder and model.holds(host, record.holder[1])):
                    self.shared_out.add(host)

    def is_free(self, crawl: str, host: str) -> bool:
        """Whether a lease call must find the host, if it is ready."""
        return (crawl, host) not in self.put_off and host not in self.shared_out

    def _wake(self, crawl: str, *, everywhere: bool) -> None:
        """A lease call that finds enough need not look into every shard, where retries may have become due."""
        model, keys = self.models[crawl], self.frontier(crawl).keys
        found = self.contents(crawl)
        for shard in range(keys.shards):
            later = [host for host, _, _ in model.later if keys.shard(host) == shard]
            dated = [host for host, _ in model.scheduled if keys.shard(host) == shard]
            fewer = found.later[shard] < len(later) or found.scheduled[shard] < len(dated)
            if fewer or everywhere:
                model.wake({*later, *dated})

    def _see_parked(self, crawl: str, waiting: set[str], *, everywhere: bool) -> None:
        """A lease call parks the hosts that it comes upon and whose budget is spent, perhaps not all of them."""
        model, found = self.models[crawl], self.contents(crawl).parked
        exhausted, parked = model.exhausted(), found.keys() - model.parked.keys()
        assert parked <= exhausted, "a host parked without need"
        if everywhere:
            assert {host for host in exhausted if self.is_free(crawl, host)} - waiting <= parked
        model.parked |= dict.fromkeys(parked, "budget")

    def _compare_lease(self, crawl: str, lease: Lease, count: int, brief: bool) -> None:
        record = self.shared[lease.host]
        assert (lease.failures, lease.delay) == (record.failures, record.delay)
        taken = self._most(crawl, lease.host, count, len(lease.urls))
        levels = [url.level for url in lease.urls]
        model = self.models[crawl].lease(lease.host, lease.token, taken, brief=brief, levels=levels)
        assert {url.index: (url.path, url.level, url.attempts, url.returns) for url in lease.urls} == {
            index: (one.path, one.level, one.attempts, one.returns) for index, one in model.entries.items()
        }
        self.leases.append((crawl, lease))

    def dated(self, settled: list[Settled]) -> list[Settlement]:
        """What is due at once is due in the order of indexes, and before whatever comes after it."""
        self.place += 10
        return [
            Settlement(index, verdict, (self.place + index - 1e6) if due else NEVER, reason, pages, size)
            if verdict == "again"
            else Settlement(index, verdict, 0.0 if due else NEVER, reason, pages, size)
            for index, verdict, due, reason, pages, size in settled
        ]

    def _most(self, crawl: str, host: str, asked: int, got: int) -> int:
        """How many URLs a worker has to get: fewer than asked for only while the next ones are in the store."""
        short = got < min(asked, len(self.models[crawl].queues.get(host, [])))
        return got if short and host in self.contents(crawl).waiting else asked

    def _some_lease(self, data: st.DataObject) -> tuple[str, Lease] | None:
        if not self.leases:
            return None
        # mostly a late one, which may still be good
        place = data.draw(st.integers(0, len(self.leases) - 1) | st.just(len(self.leases) - 1))
        return self.leases[place]

    @rule(
        data=st.data(),
        settled=settlements,
        more=st.integers(0, 4),
        brief=st.booleans(),
        sent=sent,
    )
    def acknowledge(
        self,
        data: st.DataObject,
        settled: list[Settled],
        more: int,
        brief: bool,
        sent: int,
    ) -> None:
        if (chosen := self._some_lease(data)) is None:
            return
        real = self.dated(settled)
        for _ in range(sent):
            self._acknowledge(*chosen, settled, real, more, brief)

    def _acknowledge(
        self,
        crawl: str,
        lease: Lease,
        settled: list[Settled],
        real: list[Settlement],
        more: int,
        brief: bool,
    ) -> None:
        model, host, expected = self.models[crawl], lease.host, None
        urls = self.run(self.frontier(crawl, brief).acknowledge(lease, real, more=more))
        if model.holds(host, lease.token):
            model.settle(host, settled, place=self.place)
            if host in self.shared_out and not urls:
                more = 0
            levels = [url.level for url in urls or []]
            more = self._most(crawl, host, more, len(levels))
            kept = model.keep(host, more, brief=brief, levels=levels)
            expected = [(index, one.path) for index, one in kept]
        else:
            model.refused += 1
        assert (None if urls is None else [(url.index, url.path) for url in urls]) == expected

    @rule(data=st.data(), settled=settlements, pause=pauses, failures=st.integers(0, 3), sent=sent)
    def release(
        self, data: st.DataObject, settled: list[Settled], pause: float, failures: int, sent: int
    ) -> None:
        if (chosen := self._some_lease(data)) is None:
            return
        for _ in range(sent):
            self._release(*chosen, settled, pause, failures)

    @rule(worker=workers, pages=st.integers(0, 3), sent=sent)
    def tally(self, worker: tuple[str, bool], pages: int, sent: int) -> None:
        record, model = self.records[worker], self.models[worker[0]]
        tally = record.tally({"pages": pages})
        for _ in range(sent):
            self.run(self.engine.run(tally))
        model.pages += pages
        assert self.run(record.totals()).get("pages", 0) == model.pages

    @rule(crawl=crawls, times=st.integers(1, 6), tended=st.booleans())
    def fetch(self, crawl: str, times: int, tended: bool) -> None:
        """A worker that does its work, and so comes far into the queues."""
        for _ in range(times):
            for plan in self.run(self.tails[crawl].plan([0, 1])) if tended else []:
                self.run(self.tails[crawl].carry_out(plan))
            known = len(self.leases)
            self.lease((crawl, False), 4, 8)
            for _, lease in self.leases[known:]:
                done = [(url.index, "done", True, "", 0, 0) for url in lease.urls]
                self._release(crawl, lease, done, 0.0, 0)

    def _release(
        self,
        crawl: str,
        lease: Lease,
        settled: list[Settled],
        pause: float,
        failures: int,
    ) -> None:
        model, lease.failures = self.models[crawl], failures
        good = model.holds(lease.host, lease.token)
        real = self.dated(settled)
        model.refused += not good
        if good:
            model.settle(lease.host, settled, place=self.place)
        model.release(lease.host, lease.token, failures=failures, blocked=pause > 0)
        assert self.run(self.frontier(crawl).release(lease, real, pause=pause)) == good

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
        for token in good:
            assert leases[token].delay == self.shared[leases[token].host].delay

    @rule(crawl=crawls, everything=st.booleans(), delay=pauses)
    def reap(self, crawl: str, everything: bool, delay: float) -> None:
        self.time_passes()
        reaped = self.run(self.frontier(crawl).reap(everything=everything, delay=delay))
        assert reaped == self.models[crawl].reap(everything=everything, blocked=delay > 0)

    @rule(crawl=crawls, host=hosts)
    def condemn(self, crawl: str, host: str) -> None:
        assert self.run(self.frontier(crawl).condemn(host, "z")) == self.models[crawl].condemn(host, "z")
        # what is in the store becomes dead letters when it has been read
        tails = self.tails[crawl]
        while any((plan := one).burials for one in self.run(tails.plan([0, 1]))):
            self.run(tails.carry_out(plan))

    @rule(crawl=crawls, shard=st.integers(0, 1))
    def look_after_tails(self, crawl: str, shard: int) -> None:
        self.plans += [(crawl, plan) for plan in self.run(self.tails[crawl].plan([shard])) if plan]

    @rule(data=st.data())
    def carry_out(self, data: st.DataObject) -> None:
        if self.plans:
            # mostly the last one, but also late ones, and some twice
            place = data.draw(st.just(len(self.plans) - 1) | st.integers(0, len(self.plans) - 1))
            crawl, plan = self.plans[place]
            self.run(self.tails[crawl].carry_out(plan))

    @rule(crawl=crawls)
    def serve_tails(self, crawl: str) -> None:
        """Until nothing is left to do: then the engine has no more of a queue than it may."""
        tails = self.tails[crawl]
        while plans := [plan for plan in self.run(tails.plan([0, 1])) if plan]:
            for plan in plans:
                self.run(tails.carry_out(plan))
        found = self.contents(crawl)
        assert not found.waiting
        returned = 8  # what a lease gives back
        assert not self.hot_urls or found.longest <= self.hot_urls + returned

    @rule(crawl=crawls, data=st.data(), reason=st.sampled_from(["", "", "x", "worker", "z"]))
    def requeue(self, crawl: str, data: st.DataObject, reason: str) -> None:
        model = self.models[crawl]
        known = sorted({(host, entry.path) for host, entry, _ in model.dead})
        host, path = data.draw(st.sampled_from([*known, ("http://a.test", "/unknown")]))
        queued = self.run(self.frontier(crawl).requeue([(host, host + path)], reason))
        assert queued == model.requeue({(host, path)}, reason)

    @rule(host=hosts, seconds=pauses)
    def block_until(self, host: str, seconds: float) -> None:
        for crawl, model in self.models.items():
            self.run(self.frontier(crawl).block_until(host, seconds))
            model.block_until(host, ever=seconds > 0)
        self.put_off -= {(crawl, host) for crawl in self.models}

    @rule(host=hosts)
    def silence_ends(self, host: str) -> None:
        """As if the time had come until which the host is left alone."""
        self.valkey.hdel(Keys("ours", 2).host(host), "until")
        self.shared[host].blocked = False
        self.block_until(host, 0.0)

    @rule(crawl=crawls, host=hosts, seconds=st.sampled_from([None, 0.0, NEVER]))
    def set_delay(self, crawl: str, host: str, seconds: float | None) -> None:
        self.run(self.frontier(crawl).set_delay(host, seconds))
        self.shared[host].delay = seconds

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

    @rule(crawl=crawls, host=hosts, number=st.integers(0, 3), due=st.booleans())
    def schedule(self, crawl: str, host: str, number: int, due: bool) -> None:
        self.place += 10
        candidate = Candidate(host, f"/{number}", None)
        new = self.run(self.frontier(crawl).schedule([candidate], self.place - 1e6 if due else NEVER))
        assert new == self.models[crawl].schedule(host, Entry(f"/{number}", 3), due=due, place=self.place)

    @rule(crawl=crawls)
    def is_it_finished(self, crawl: str) -> None:
        counts = self.models[crawl].counts()
        still_open = counts["queued"] - counts["parked"] + counts["leased"] + counts["later"]
        assert self.run(self.frontier(crawl).finished()) == (still_open == 0)

    @invariant()
    def the_structures_are_the_models(self) -> None:
        for crawl, model in self.models.items():
            found = self.contents(crawl)
            assert found.queues == {
                h: [rows(one) for one in queue] for h, queue in model.queues.items() if queue
            }
            assert found.leases == {
                host: {index: rows(one) for index, one in lease.entries.items()}
                for host, lease in model.leases.items()
            }
            counts = model.counts()
            assert (sum(found.later.values()), found.seen) == (counts["later"], counts["seen"])
            assert (sum(found.scheduled.values()), found.parked) == (counts["scheduled"], model.parked)
            assert found.spent == {
                host: f"{pages} {size}" for host, (pages, size) in model.spent.items() if pages or size
            }
            assert sorted(url for url, _ in found.dead) == sorted(
                host + one.path for host, one, _ in model.dead
            )
            counted = {name: found.counters.get(name, 0) for name in counts}
            assert counted == counts, "counters that lie"


def rows(entry: Entry) -> tuple[str, int, int, int, int]:
    return (entry.path, entry.level, entry.attempts, entry.returns, entry.blames)


@pytest.mark.parametrize(
    ("hot_urls", "order", "low_share"),
    [
        (0, "breadth-first", 0),
        (8, "breadth-first", 0),
        (8, "depth-first", 0),
        (8, "breadth-first", 0.3),
        (8, "depth-first", 0.3),
    ],
)
def test_any_interleaving_is_as_the_model_says(
    redis_url: str, hot_urls: int, order: str, low_share: float
) -> None:
    run_state_machine_as_test(
        lambda: FrontierMachine(redis_url, hot_urls, order, low_share),
        settings=settings(
            max_examples=20 if hot_urls else 30,
            stateful_step_count=40,
            suppress_health_check=[HealthCheck.too_slow],
            phases=[Phase.reuse, Phase.generate, Phase.shrink],
        ),
    )
