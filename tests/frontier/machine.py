"""The base of the frontier's state machine: two crawls on the same hosts, their models, and a shared clock."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from redis import Redis

from tests.frontier.clock import Clock, ClockedEngine
from tests.frontier.contents import Contents, Row
from tests.frontier.draws import BLAMES, BRIEF, HOSTS, HOUR, SIBLINGS, jumps
from tests.model import Entry, Hosts, ModelFrontier
from webcrawl.engine.keys import Keys, failures_field
from webcrawl.engine.scripts import script_call
from webcrawl.frontier import Crawl, Frontier
from webcrawl.frontier.cold_seen import ColdSeen
from webcrawl.frontier.tails import Tails

CRAWLS = ("ours", "theirs")
SHARDS = 2
RECORD_EVERY = 1000
"""The most ms by which the scripts' time may go back when a clock is set back; scripts record the time this often."""


class Machine(RuleBasedStateMachine):
    """Two crawls with two workers each; one worker of a crawl has brief leases, the other long ones.

    Only rules move the clock, so everything that depends on time happens in the model at the same ms: leases expire,
    pauses end, dates come, failures and host records expire. Other files test outages, a full engine and the wait
    before reaping (test_outages.py, test_engine.py), and moving slots and failovers (test_cluster.py).
    """

    client: type[Any] = Redis

    def __init__(
        self, url: str, hot_urls: int, order: str, low_share: float = 0.0, unit: str = "name"
    ) -> None:
        super().__init__()
        self.hot_urls = hot_urls
        self.low_share = low_share
        self.folder = TemporaryDirectory()
        self.runner = asyncio.Runner()
        self.engine = ClockedEngine(url)
        self.run(self.engine.check())
        self.valkey = self.client.from_url(url)
        self.valkey.flushall()
        self.keys = {name: Keys(name, SHARDS, unit) for name in CRAWLS}
        # the prefix of the keys of every slot that keeps its own time
        self.prefixes = [self.keys["ours"].queue(shard)[0] for shard in range(SHARDS)]
        self.prefixes += [keys.own() for keys in self.keys.values()]
        self.clock = Clock(
            self.valkey, (prefix[prefix.index("{") : prefix.index("}") + 1] for prefix in self.prefixes)
        )
        self.times = dict.fromkeys(self.prefixes, self.clock.now)
        self.check_the_time()
        self.shared = Hosts(self.time_of, self.keys["ours"].turn)
        self.models = {
            name: ModelFrontier(name, self.shared, BLAMES, order == "depth-first") for name in CRAWLS
        }
        names = [(name, brief) for name in CRAWLS for brief in (False, True)]
        self.frontiers = {
            (name, brief): Frontier(
                self.engine,
                self.keys[name],
                f"{name} {brief}",
                lease_seconds=BRIEF if brief else HOUR,
                max_attempts=BLAMES,
                low_share=low_share,
            )
            for name, brief in names
        }
        self.records = {
            (name, brief): Crawl(self.engine, self.keys[name], f"{name} {brief}") for name, brief in names
        }
        self.tails = {name: self._tails(name, order) for name in CRAWLS}
        for (name, _), frontier in self.frontiers.items():
            frontier.cold = ColdSeen(self.tails[name])
        self.looks_again: dict[tuple[str, str], int] = {}
        """When a crawl will look again at a host that it found held by the other crawl."""
        self.contested: dict[str, int] = {}
        """Hosts that both crawls wanted, with the time: who gets the next lease depends on what each had."""

    def _tails(self, crawl: str, order: str) -> Tails:
        record = Crawl(self.engine, self.keys[crawl], "any worker")
        self.run(record.configure(self.hot_urls, order))
        return Tails(self.engine, self.keys[crawl], record, Path(self.folder.name).as_uri())

    def contents(self, crawl: str) -> Contents:
        return Contents.read(self.valkey, self.keys[crawl], Path(self.folder.name))

    def teardown(self) -> None:
        self.folder.cleanup()
        self.runner.run(self.engine.close())
        self.runner.close()
        self.valkey.close()

    def run(self, work: Any) -> Any:
        return self.runner.run(work)

    def frontier(self, crawl: str, brief: bool = False) -> Frontier:
        return self.frontiers[crawl, brief]

    def shard(self, host: str) -> int:
        return self.keys["ours"].shard(host)

    def is_waited_for(self, crawl: str, host: str) -> bool:
        """Whether another host of the name has found it leased, so that it gets no further URLs."""
        keys = self.keys[crawl]
        return bool(self.valkey.hexists(keys.queue(self.shard(host))[0] + "behind", keys.turn(host)))

    def time_of(self, host: str) -> int:
        return self.times[self.prefixes[self.shard(host)]]

    @rule(ms=jumps)
    def time_passes(self, ms: int) -> None:
        if not ms:
            return
        self.clock.move(ms)
        self.shared.time_passes(ms)
        self.times = {prefix: time + ms for prefix, time in self.times.items()}

    @rule(ms=jumps)
    def set_the_clock_back(self, ms: int) -> None:
        """Set the clock back, or fail over to a server with a slow clock: the scripts' time does not go far back."""
        self.check_the_time()
        self.clock.move(-ms)
        self.shared.time_passes(-ms)
        for host in (*HOSTS, *SIBLINGS):
            for crawl in CRAWLS:
                # the host may become ready at a time that is repeated
                self.looks_again[crawl, host] = max(
                    self.looks_again.get((crawl, host), 0), self.time_of(host)
                )
        before, self.times = self.times, self.times_now()
        for prefix, time in self.times.items():
            assert before[prefix] - RECORD_EVERY < time <= before[prefix]

    @rule()
    def check_the_time(self) -> None:
        assert self.times == self.times_now()

    def times_now(self) -> dict[str, int]:
        """The time as the scripts see it."""
        calls = [script_call("time", [prefix]) for prefix in self.prefixes]
        return dict(zip(self.prefixes, self.run(self.engine.run_all(calls)), strict=True))

    @invariant()
    def structures_match_the_model(self) -> None:
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
            assert counted == counts, "counters do not match the model"

    @invariant()
    def host_records_match_the_model(self) -> None:
        """Compare when each host may be requested, and whether it has a record at all."""
        pipe = self.valkey.pipeline(transaction=False)
        hosts, keys = (*HOSTS, *SIBLINGS), self.keys["ours"]
        for host in hosts:
            pipe.hgetall(keys.host(host))
        for host, found in zip(hosts, pipe.execute(), strict=True):
            for name in ("until", "held", "gap"):
                assert int(found.get(name.encode(), 0)) == getattr(self.shared[host], name), name
            failures = int(found.get(failures_field(keys, host).encode(), 0))
            assert failures == self.shared[host].failures.get(host, 0)


def rows(entry: Entry) -> Row:
    return (entry.path, entry.level, entry.dated, entry.attempts, entry.returns, entry.blames)


def milliseconds(seconds: float) -> int:
    return round(1000 * seconds)
