"""Credit: no call, repetition, lost reply or dead worker changes the sum; and no URL is lost or handed out twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, Phase, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from redis import Redis

from tests.frontier.clock import Clock, ClockedEngine
from tests.frontier.credits import Credits
from tests.frontier.pages import hash_of, page
from webcrawl.engine.keys import Keys
from webcrawl.engine.scripts import Call
from webcrawl.errors import EngineUnavailable
from webcrawl.frontier import Candidate, Crawl, Frontier, Lease, LeaseReport, Settlement
from webcrawl.frontier.credit import Purse, number_of, queue_again, worths
from webcrawl.policies.importance import TOTAL, give, part_of_lambda, rise, worth

HOSTS = [f"http://{name}.test" for name in "abcd"]
SHARDS = 3
KEYS = Keys("crawl", SHARDS)
IDLE = 10.0

urls = st.tuples(st.sampled_from(HOSTS), st.integers(0, 5))
sent = st.sampled_from([1, 1, 2])
numbers = st.integers(0, 3)


class LosingEngine(ClockedEngine):
    """Loses the replies to the call after the next `good` ones, or the call itself if `late`."""

    good = -1
    late = False

    async def run_all(self, calls: Sequence[Call], *, some: bool = False) -> list[Any]:
        self.good -= 1
        if self.good != -1:
            return await super().run_all(calls, some=some)
        if not self.late:
            await super().run_all(calls[: len(calls) // 2 + 1])
        raise EngineUnavailable("the connection was lost")


@dataclass
class Worker:
    frontier: Frontier
    purse: Purse
    leases: list[Lease] = field(default_factory=list)


class CreditMachine(RuleBasedStateMachine):
    """Workers that may die at any time, on an engine that loses replies."""

    def __init__(self, url: str, hot_urls: int = 0) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.engine = LosingEngine(url)
        self.run(self.engine.check())
        self.valkey = Redis.from_url(url)
        self.valkey.flushall()
        self.clock = Clock(self.valkey, [f"{{s{shard}}}" for shard in range(SHARDS)])
        self.run(Crawl(self.engine, KEYS, "w").configure(hot_urls, "breadth-first", importance=True))
        self.workers = [self.new_worker() for _ in range(2)]
        self.added: set[str] = set()
        self.fetched: Counter[str] = Counter()

    def new_worker(self) -> Worker:
        purse = Purse(self.engine, KEYS)
        return Worker(Frontier(self.engine, KEYS, "w", lease_seconds=3600.0, purse=purse.name), purse)

    def teardown(self) -> None:
        try:
            self.everything_is_fetched_once()
        finally:
            self.runner.run(self.engine.close())
            self.runner.close()
            self.valkey.close()

    def run(self, work: Any) -> Any:
        return self.runner.run(work)

    @rule(
        batch=st.lists(urls, min_size=1, max_size=6), level=st.integers(0, 7), sent=sent, plain=st.booleans()
    )
    def add(self, batch: list[tuple[str, int]], level: int, sent: int, plain: bool) -> None:
        extra, change = (None, -2) if plain else (b"\x80", None)
        candidates = [
            Candidate(host, f"/{n}", hash_of(f"{host}/{n}"), level, 1, extra=extra, rise=change)
            for host, n in batch
        ]
        for _ in range(sent):
            self.run(self.workers[0].frontier.add(candidates))
        self.added |= {f"{host}/{n}" for host, n in batch}

    @rule(who=numbers, hosts=st.integers(1, 3), count=st.integers(1, 3))
    def lease(self, who: int, hosts: int, count: int) -> None:
        worker = self.workers[who % 2]
        worker.leases += self.run(worker.frontier.lease(hosts, count))

    @rule(
        who=numbers,
        links=st.lists(urls, max_size=5, unique=True),
        sent=sent,
        verdict=st.sampled_from(["done", "done", "again", "dead"]),
        keep=st.booleans(),
    )
    def fetch(self, who: int, links: list[tuple[str, int]], sent: int, verdict: Any, keep: bool) -> None:
        worker = self.workers[who % 2]
        if not worker.leases:
            self.lease(who, 1, 2)
        if not worker.leases:
            return
        self.add(links, 5, 1, True)
        lease = worker.leases.pop(0)
        targets = [f"{host}/{n}" for host, n in links]
        settled = [Settlement(url.index, verdict, 3600.0, links=targets) for url in lease.urls]
        self.fetched.update(url.url for url in lease.urls)
        replies: list[Any] = []
        for _ in range(sent):
            report = LeaseReport(lease, settled, more=2 if keep else 0)
            self.run(worker.frontier.settle_all([report], lambda *one: replies.append(one)))
        # the reply to the last call is the one that arrives
        for amount in replies[-1][2]:
            worker.purse.owe(lease.host, amount, targets)
        further = [url for _, more, _ in replies for url in more]
        self.fetched.update(url.url for url in further)
        self.run(worker.frontier.release(lease, [Settlement(url.index) for url in further]))

    @rule(
        who=numbers,
        pages=st.lists(st.lists(urls, min_size=1, max_size=3, unique=True), min_size=2, max_size=6),
        good=st.sampled_from([-1, -1, 1, 2]),
    )
    def crawl(self, who: int, pages: list[list[tuple[str, int]]], good: int) -> None:
        """Fetch several pages, and divide their credit."""
        self.add(pages[0], 5, 1, True)
        for links in pages:
            self.fetch(who, links, 1, "done", False)
        self.settle(who, good, False)

    @rule(who=numbers, good=st.sampled_from([-1, -1, 0, 1, 2]), late=st.booleans())
    def settle(self, who: int, good: int, late: bool) -> None:
        worker = self.workers[who % 2]
        self.engine.good, self.engine.late = good, late
        try:
            better = self.run(worker.purse.settle(range(who % 2, SHARDS, 2)))
        except EngineUnavailable:
            assert good >= 0
            return
        finally:
            self.engine.good = -1
        worker.frontier.purse = worker.purse.name
        raised = []
        for url, value in better:
            host, _, path = url.rpartition("/")
            level = max(0, 3 - rise(value))
            raised.append(Candidate(host, f"/{path}", None, level, 1, rise=rise(value)))
        self.run(queue_again(self.engine, KEYS, raised))

    @rule(who=numbers)
    def kill(self, who: int) -> None:
        """The worker dies; another has its leases, which the frontier's own tests reap."""
        leases = self.workers[who % 2].leases
        self.workers[who % 2] = self.new_worker()
        self.workers[who % 2].leases = leases

    @rule(seconds=st.sampled_from([1.0, IDLE, 2 * IDLE]))
    def collect(self, seconds: float) -> None:
        self.clock.move(int(seconds * 1000))
        self.run(self.workers[0].purse.collect(range(SHARDS), IDLE))

    @invariant()
    def no_credit_is_lost(self) -> None:
        assert Credits.read(self.valkey, KEYS).total == TOTAL

    def everything_is_fetched_once(self) -> None:
        worker = self.workers[0]
        for one in self.workers:
            for lease in one.leases:
                self.fetched.update(url.url for url in lease.urls)
                self.run(one.frontier.release(lease, [Settlement(url.index) for url in lease.urls]))
        while leases := self.run(worker.frontier.lease(4, 10)):
            for lease in leases:
                self.fetched.update(url.url for url in lease.urls)
                self.run(worker.frontier.release(lease, [Settlement(url.index) for url in lease.urls]))
        assert self.fetched == dict.fromkeys(self.added, 1)
        counts = self.run(worker.frontier.counts())
        assert (counts.queued, counts.overtaken, counts.leased) == (0, 0, 0)
        assert not self.valkey.keys("*:overtaken")
        assert Credits.read(self.valkey, KEYS).waiting == 0


def test_no_credit_is_lost_whatever_happens(redis_url: str) -> None:
    run_state_machine_as_test(
        lambda: CreditMachine(redis_url),
        settings=settings(
            max_examples=12,
            stateful_step_count=30,
            suppress_health_check=[HealthCheck.too_slow],
            phases=[Phase.reuse, Phase.generate, Phase.shrink],
        ),
    )


async def test_scripts_compute_as_the_policies_do(
    frontier_of: Callable[..., Frontier], valkey: Redis
) -> None:
    frontier = frontier_of(shards=1)
    keys, purse = frontier.keys, Purse(frontier.engine, frontier.keys)
    frontier.purse = purse.name
    await Crawl(frontier.engine, keys, "w").configure(0, "breadth-first", importance=True)
    seeds = [f"http://a.test/{number}" for number in range(3)]
    links = [f"http://b.test/{number}" for number in range(7)]
    await frontier.add([page(url) for url in seeds])
    pool, waiting, credit, counted = TOTAL, 3, Counter[str](), Counter[str]()
    for seed in seeds:
        [lease] = await frontier.lease(1, 1)
        await frontier.add([page(url, rise=-2, level=5) for url in links])
        waiting += len(links) if seed == seeds[0] else 0
        replies: list[Sequence[int]] = []
        report = LeaseReport(lease, [Settlement(lease.urls[0].index, links=links)], pause=0.0)
        await frontier.settle_all([report], lambda *one, to=replies: to.append(one[2]))
        part = part_of_lambda(pool, waiting)
        given = give(part, len(links))
        pool, waiting = pool - part + given.rest, waiting - 1
        purse.owe(lease.host, replies[0][0], links)
        better = await purse.settle([0])
        for url in links:
            credit[url] += given.each
        value = worth(credit[links[0]], waiting)
        counted.update(links)
        found = Credits.read(valkey, keys)
        assert found.pools == [pool]
        assert {found.urls[number_of(url)].amount for url in links} == set(credit.values())
        assert {one.url: one.worth for one in better} == dict.fromkeys(
            links if rise(value) > -2 else [], value
        )
        assert await worths(frontier.engine, keys, links) == [value] * len(links)
    [lease] = await frontier.lease(1, 1)
    assert lease.urls[0].worth == worth(credit[links[0]], waiting)
    await frontier.release(lease, [Settlement(lease.urls[0].index)])
    assert await worths(frontier.engine, keys, [lease.urls[0].url, "http://b.test/unknown"]) == [
        worth(credit[links[0]], waiting),
        None,
    ]


async def test_a_full_engine_keeps_credit_small(frontier_of: Callable[..., Frontier], valkey: Redis) -> None:
    """Thousands of URLs split the buckets, and none loses its record."""
    frontier = frontier_of(shards=2)
    await Crawl(frontier.engine, frontier.keys, "w").configure(0, "breadth-first", importance=True)
    urls = [f"http://{number % 50}.test/{number}" for number in range(5000)]
    await frontier.add([page(url, rise=0) for url in urls])
    found = Credits.read(valkey, frontier.keys)
    assert found.waiting == len(found.urls) == len({number_of(url) for url in urls})
    assert found.total == TOTAL
    keys = [key for shard in (0, 1) for key in valkey.scan_iter(f"{frontier.keys.queue(shard)[0]}credit:*")]
    assert {valkey.object("encoding", key) for key in keys} == {b"listpack"}
    assert sum(valkey.memory_usage(key, samples=0) for key in keys) / len(urls) < 16


async def test_dead_letters_give_their_credit_to_lambda(
    frontier_of: Callable[..., Frontier], valkey: Redis
) -> None:
    frontier = frontier_of(shards=1)
    await Crawl(frontier.engine, frontier.keys, "w").configure(0, "breadth-first", importance=True)
    await frontier.add([page(f"http://a.test/{number}") for number in range(5)])
    await frontier.condemn("http://a.test", "given up")
    found = Credits.read(valkey, frontier.keys)
    assert (found.waiting, found.pools) == (0, [TOTAL])
    assert all(one.fetched for one in found.urls.values())
    await frontier.requeue([("http://a.test", "http://a.test/1")])
    [lease] = await frontier.lease(1, 5)
    assert [url.path for url in lease.urls] == ["/1"]


async def test_a_url_that_is_queued_again_keeps_its_depth(frontier_of: Callable[..., Frontier]) -> None:
    frontier = frontier_of(shards=1)
    await Crawl(frontier.engine, frontier.keys, "w").configure(0, "breadth-first", importance=True)
    depths = {"/near": 1, "/" + "far" * 30: 127, "/deep": 128, "/deepest": 255, "/seed": 0}
    urls = {f"http://a.test{path}": depth for path, depth in depths.items()}
    await frontier.add([page(url, level=5, depth=depth, rise=-2) for url, depth in urls.items()])
    again = [page(url, level=1, depth=9, referrer="http://b.test/", rise=1) for url in urls]
    assert await queue_again(frontier.engine, frontier.keys, again) == len(urls)
    assert await queue_again(frontier.engine, frontier.keys, again) == 0
    counts = await frontier.counts()
    assert (counts.queued, counts.overtaken) == (2 * len(urls), len(urls))
    assert (await frontier.host("http://a.test")).queued == len(urls)
    [lease] = await frontier.lease(1, 20)
    assert {url.url: (url.level, url.depth, url.referrer) for url in lease.urls} == {
        url: (1, depth, "http://b.test/") for url, depth in urls.items()
    }
    assert await frontier.acknowledge(lease, [Settlement(url.index) for url in lease.urls], more=9) == []
    assert (await frontier.counts()).queued == 0
