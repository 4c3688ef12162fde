"""Checkpoints of a frontier: whatever workers do meanwhile, nothing is lost, and nothing settled comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from redis import Redis

from tests.frontier.contents import Contents
from tests.frontier.pages import all_done, hash_of, page
from webcrawl.errors import StoreError
from webcrawl.frontier import Crawl, Frontier, HostLimits, Keys, Lease, Settlement
from webcrawl.frontier.checkpoint import Exporter, Record
from webcrawl.frontier.restore import Importer
from webcrawl.frontier.spill import Tails

Frontiers = Callable[..., Frontier]
Step = tuple[str, int]

HOSTS = [f"http://{letter}.test" for letter in "abcdef"]
NEVER = 3600.0


def exporter_of(
    frontier: Frontier, name: str = "x", *, batch: int = 1000, root: Path = Path("/none")
) -> Exporter:
    """An exporter of a crawl whose segments, if there are any, are below `root`."""
    tails = Tails(frontier.engine, frontier.keys, Crawl(frontier.engine, frontier.keys, "w1"), root.as_uri())
    return Exporter(frontier.engine, frontier.keys, name, tails, batch)


async def records_of(exporter: Exporter) -> AsyncIterator[tuple[int | None, Record]]:
    """Every record of a checkpoint and its shard, as it comes back from a file; anything may happen in between."""
    sources = [(None, exporter.crawl()), *((n, exporter.shard(n)) for n in range(exporter.keys.shards))]
    for shard, records in sources:
        async for record in records:
            kind, *rest = msgpack.unpackb(msgpack.packb(record), raw=True, strict_map_key=False)
            yield shard, [kind.decode(), *rest]


async def restore(frontier: Frontier, taken: list[tuple[int | None, Record]]) -> None:
    """Put all that was taken into another crawl, file by file."""
    importer = Importer(frontier.engine, frontier.keys, "restorer")
    for shard in dict.fromkeys(shard for shard, _ in taken):
        await importer.load(lambda mine=shard: [record for one, record in taken if one == mine])  # type: ignore[misc]


async def copied(crawl: Frontier, copy: Frontier, **options: Any) -> Exporter:
    """Take a checkpoint of a crawl at rest, and restore it as another one."""
    exporter = exporter_of(crawl, **options)
    await exporter.begin()
    taken = [one async for one in records_of(exporter)]
    await exporter.end()
    await restore(copy, taken)
    return exporter


async def serve(tails: Tails | None, shards: int) -> bool:
    """Do what there is to do for queues that are continued in the store; False when there is nothing."""
    plans = [plan for plan in await tails.plan(range(shards)) if plan] if tails else []
    for plan in plans:
        assert tails
        await tails.carry_out(plan)
    return bool(plans)


async def drained(frontier: Frontier, tails: Tails | None = None) -> list[str]:
    """All that a crawl still has, in the order of leases: with dead letters, and what is parked or waits for a date."""
    for name in ("later", "scheduled"):
        for shard in range(frontier.keys.shards):
            key = frontier.keys.queue(shard)[0] + name
            for member in await frontier.engine.client.zrange(key, 0, -1):
                await frontier.engine.client.zadd(key, {member: 0})
    for host in HOSTS:
        await frontier.unblock(host)
    letters = [letter.url async for letter in frontier.dead_letters()]
    await frontier.requeue([("/".join(url.split("/")[:3]), url) for url in letters])
    found: list[str] = []
    for _ in range(3000):
        leases = await frontier.lease(10, 3)
        if not leases and not await serve(tails, frontier.keys.shards):
            return found
        for lease in leases:
            found += [url.url for url in lease.urls]
            await frontier.release(lease, all_done(lease))
    raise AssertionError("there is no end to it")


@dataclass
class Crawling:
    """A crawl that does what it is told, and remembers what became of each URL."""

    frontier: Frontier
    leases: list[Lease] = field(default_factory=list)
    added: set[str] = field(default_factory=set)
    settled: set[str] = field(default_factory=set)
    hosts: list[str] = field(default_factory=lambda: HOSTS)
    together: int = 6
    """URLs that are added at once."""
    root: Path | None = None
    """Where queues are continued."""
    order: str = "breadth-first"

    def tails_of(self, frontier: Frontier) -> Tails | None:
        if self.root is None:
            return None
        record = Crawl(frontier.engine, frontier.keys, "w1")
        return Tails(frontier.engine, frontier.keys, record, self.root.as_uri(), kept_seconds=0.001)

    async def configure(self, frontier: Frontier) -> None:
        """A crawl has at most 8 URLs of a host and level in the engine, if a store was given."""
        hot = 8 if self.root else 0
        await Crawl(frontier.engine, frontier.keys, "w1").configure(hot, self.order)

    async def do(self, verb: str, number: int) -> None:
        hosts = self.hosts
        host = hosts[number % len(hosts)]
        match verb:
            case "add":
                places = range(number // 7, number // 7 + self.together)
                urls = [f"{hosts[(number + n) % len(hosts)]}/{place}" for n, place in enumerate(places)]
                self.added.update(urls)
                await self.frontier.add([page(url, level=number % 3 * 3) for url in urls])
            case "lease":
                self.leases += await self.frontier.lease(1 + number % 3, 1 + number % 4)
            case "serve":
                await serve(self.tails_of(self.frontier), self.frontier.keys.shards)
            case "reap":
                await self.frontier.reap(everything=True)
                self.leases.clear()
            case "condemn":
                await self.frontier.condemn(host, "given up")
            case "block":
                await (self.frontier.unblock if number % 3 else self.frontier.block)(host)
            case "requeue":
                letters = [one.url async for one in self.frontier.dead_letters()][: number % 4]
                await self.frontier.requeue([("/".join(url.split("/")[:3]), url) for url in letters])
            case _ if self.leases:
                await self._settle(verb, self.leases[number % len(self.leases)], number)

    async def _settle(self, verb: str, lease: Lease, number: int) -> None:
        if verb == "more":
            lease.urls += await self.frontier.acknowledge(lease, more=2) or []
            return
        settled = []
        for url in lease.urls[: 1 + number % 3]:
            verdict = ("done", "retry", "dead", "again")[(number + url.index) % 4]
            settled.append(Settlement(url.index, verdict, 0.0 if number % 2 else NEVER))  # type: ignore[arg-type]
        done = {lease.urls[n].url for n, one in enumerate(settled) if one.verdict == "done"}
        if verb == "release":
            self.leases.remove(lease)
            good = await self.frontier.release(lease, settled)
        else:
            good = await self.frontier.acknowledge(lease, settled) is not None
            del lease.urls[: len(settled)]
        if good:
            self.settled |= done


VERBS = ["add", "settle", "release", "more", "reap", "condemn", "requeue", "block", *["lease"] * 3]
verbs = st.tuples(st.sampled_from(VERBS), st.integers(0, 60))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    st.lists(verbs, max_size=15),
    st.lists(st.lists(verbs, max_size=2), max_size=40),
    st.integers(1, 4),
    st.integers(1, 5),
)
def test_what_was_to_be_crawled_when_it_began_comes_out_whatever_happens_meanwhile(
    frontier_of: Frontiers,
    runner: asyncio.Runner,
    valkey: Redis,
    before: list[Step],
    meanwhile: list[list[Step]],
    shards: int,
    others: int,
) -> None:
    valkey.flushall()
    one = frontier_of(lease_seconds=NEVER)
    crawl, copy = (replace(one, keys=Keys(*keys)) for keys in (("crawl", shards), ("copy", others)))
    runner.run(compare(Crawling(crawl), copy, valkey, [("add", 3), *before], meanwhile))
    runner.run(one.engine.close())


@pytest.mark.parametrize("verb", ["lease", "settle", "reap", "requeue"])
async def test_each_verb_between_any_two_steps(frontier_of: Frontiers, valkey: Redis, verb: str) -> None:
    """URLs are in every place they can be in; the verb moves some of them before, between or after places are read."""
    one = frontier_of(lease_seconds=NEVER)
    for place, times in product(range(20), (1, 4)):
        valkey.flushall()
        crawl, copy = replace(one, keys=Keys("crawl", 1)), replace(one, keys=Keys("copy", 2))
        crawling = Crawling(crawl)
        for number in (0, 3):
            await crawling.do("add", number)
        *leases, kept = await crawl.lease(5, 1)
        crawling.leases = [kept]
        for lease, verdict in zip(leases, ["retry", "dead", "again", "done"], strict=True):
            await crawl.release(lease, [Settlement(1, verdict)])  # type: ignore[arg-type]
            crawling.settled |= {url.url for url in lease.urls if verdict == "done"}
        meanwhile: list[list[Step]] = [[] for _ in range(place)]
        await compare(crawling, copy, valkey, [], [*meanwhile, [(verb, number) for number in range(times)]])


async def compare(
    crawling: Crawling, copy: Frontier, valkey: Redis, before: list[Step], meanwhile: list[list[Step]]
) -> None:
    for frontier in (crawling.frontier, copy):
        await crawling.configure(frontier)
    for verb, number in before:
        await crawling.do(verb, number)
    exporter = exporter_of(crawling.frontier, batch=2, root=crawling.root or Path("/none"))
    todo = iter(meanwhile)
    await exporter.begin()
    left, settled = crawling.added - crawling.settled, set(crawling.settled)
    taken = []
    async for step in records_of(exporter):
        taken.append(step)
        for verb, number in next(todo, ()):
            await crawling.do(verb, number)
    await exporter.end()
    assert not [key for key in valkey.scan_iter() if key.endswith((b":copying", b":moved", b":reading"))]

    await restore(copy, taken)
    while await serve(crawling.tails_of(copy), copy.keys.shards):
        pass
    check_counters(Contents.read(valkey, copy.keys, crawling.root))
    # a crawl of its own on these hosts, without the politeness that is left from the other one
    for key in valkey.scan_iter("wc:*:host:*"):
        valkey.delete(key)
    marks = {int(mark) for key in valkey.scan_iter("wc:*:c:copy:seen:*") for mark in valkey.smembers(key)}
    seen = {url for url in crawling.added if copy.keys.mark(url.rpartition("/")[0], hash_of(url)) in marks}
    found = await drained(copy, crawling.tails_of(copy))
    assert left <= set(found), "lost"
    assert not settled & set(found), "settled, and yet to be crawled"
    assert left | settled <= seen, "forgotten"
    assert seen <= set(found) | settled, "seen, but neither settled nor to be crawled"
    assert len(found) == len(set(found)), "twice"


def check_counters(contents: Contents) -> None:
    urls = {host: len(rows) for host, rows in contents.queues.items()}
    counted = {
        "queued": sum(urls.values()),
        "parked": sum(n for host, n in urls.items() if host in contents.parked),
        "leased": 0,
        "later": sum(contents.later.values()),
        "scheduled": sum(contents.scheduled.values()),
        "seen": contents.seen,
        "dead": len(contents.dead),
    }
    assert {name: contents.counters.get(name, 0) for name in counted} == counted


@pytest.mark.parametrize("shards", [1, 7])
async def test_a_long_queue_keeps_its_order(frontier_of: Frontiers, shards: int) -> None:
    crawl, copy = frontier_of(), frontier_of("copy", shards=shards)
    urls = [f"{HOSTS[0]}/{n}" for n in range(2500)]
    await crawl.add([page(url) for url in urls])
    await crawl.lease(1, 20)
    await copied(crawl, copy, batch=100)
    assert await drained(copy) == urls


async def test_a_long_queue_is_read_while_it_is_added_to_and_taken_from(frontier_of: Frontiers) -> None:
    crawl, copy = frontier_of(lease_seconds=NEVER), frontier_of("copy", shards=1)
    urls = [f"{HOSTS[0]}/{n}" for n in range(1000)]
    await crawl.add([page(url) for url in urls])
    lease = (await crawl.lease(1, 5))[0]
    exporter = exporter_of(crawl, batch=50)
    await exporter.begin()
    taken, more = [], 0
    async for step in records_of(exporter):
        taken.append(step)
        await crawl.add([page(f"{HOSTS[0]}/new{more + n}") for n in range(30)])
        await crawl.acknowledge(lease, all_done(lease), more=20)
        more += 30
    await restore(copy, taken)
    found = await drained(copy)
    assert set(urls) <= set(found)
    assert len(found) == len(set(found))
    assert not await crawl.engine.client.keys("*:reading")


async def test_a_full_engine_is_copied(frontier_of: Frontiers, valkey: Redis) -> None:
    crawl, copy = frontier_of(), frontier_of("copy")
    urls = [f"{HOSTS[0]}/{n}" for n in range(30)]
    await crawl.add([page(url) for url in urls])
    exporter = exporter_of(crawl, batch=5)
    valkey.script_flush()
    valkey.config_set("maxmemory", "1")
    try:
        await exporter.begin()
        taken = [one async for one in records_of(exporter)]
    finally:
        valkey.config_set("maxmemory", "0")
    await restore(copy, taken)
    assert await drained(copy) == urls


async def test_what_operators_and_pages_told_is_restored(frontier_of: Frontiers) -> None:
    crawl, copy = frontier_of(), frontier_of("copy", shards=3)
    crawls = [Crawl(one.engine, one.keys, "w1") for one in (crawl, copy)]
    blocked, limited, later = HOSTS[:3]
    await crawl.add([page(f"{host}/{n}") for host in HOSTS for n in range(3)])
    await crawl.block(blocked)
    await crawl.limit(limited, HostLimits(pages=5, depth=2))
    await crawl.set_delay(limited, 7.0)
    await crawl.block_until(later, 900.0)
    await crawl.schedule([page(f"{later}/again")], NEVER)
    lease = next(one for one in await crawl.lease(9, 2) if one.host == limited)
    await crawl.acknowledge(lease, [Settlement(url.index, pages=1, bytes=500) for url in lease.urls])
    await crawls[0].pause()
    await crawls[0].limits_changed(HostLimits(pages=44))
    await crawls[0].set_scope_kind("host")
    await crawls[0].remember("scope", ["a.test"])
    await crawls[0].remember("seeds", ["a.test 80"])
    await crawls[0].meet(HOSTS)
    await crawls[0].beat(counted={"pages": 12})
    await crawl.engine.change(crawl.keys.near(3), "HSET", b"12345678", "first")
    await crawl.engine.change(crawl.keys.checksum(b"digest00"), "HSET", b"digest00", b"1.0 first")
    exporter = exporter_of(crawl)
    await exporter.begin()
    taken = [one async for one in records_of(exporter)]
    for key in await crawl.engine.client.keys("wc:*:host:*"):
        await crawl.engine.client.delete(key)
    await restore(copy, taken)

    assert (await copy.host(blocked)).parked == "blocked"
    state = await copy.host(limited)
    assert (state.limits, state.pages, state.bytes) == (HostLimits(pages=5, depth=2), 2, 1000)
    assert (state.delay, state.leased, state.queued) == (7.0, False, 1)
    assert 800 < (await copy.host(later)).waits <= 900
    counts = await copy.counts()
    assert (counts.parked, counts.scheduled, counts.done, counts.added) == (3, 1, 2, 18)
    assert await crawls[1].paused()
    assert not await crawls[1].limits_changed(HostLimits(pages=44))
    assert await crawls[1].scope_kind() == "host"
    assert await crawls[1].recall("scope") == {"a.test"}
    assert await crawls[1].recall("seeds") == {"a.test 80"}
    assert await crawls[1].hosts_met() == len(HOSTS)
    assert (await crawls[1].totals())["pages"] == 12
    assert await copy.engine.client.hgetall(copy.keys.near(3)) == {b"12345678": b"first"}
    assert await copy.engine.client.hget(copy.keys.checksum(b"digest00"), b"digest00") == b"1.0 first"


async def test_a_crawl_is_exported_by_one_at_a_time(frontier: Frontier) -> None:
    await frontier.add([page(f"{host}/") for host in HOSTS])
    first, second = (exporter_of(frontier, name) for name in ("first", "second"))
    await first.begin()
    with pytest.raises(StoreError, match="another checkpoint .* is being written .first."):
        await second.begin()
    await first.renew()
    await first.end()
    await second.begin()
    # the crawl is cleared, or nobody heard of the checkpoint for a minute
    await frontier.clear()
    with pytest.raises(StoreError, match="begin anew"):
        async for _ in records_of(second):
            pass


async def test_a_checkpoint_is_void_when_the_engine_was_started_anew(
    frontier_of: Frontiers, durable_server: Any
) -> None:
    frontier = frontier_of(url=f"unix://{durable_server.unix_socket_path}")
    await frontier.add([page(f"{host}/") for host in HOSTS])
    exporter = exporter_of(frontier)
    await exporter.begin()
    durable_server.terminate()
    durable_server.start()
    with pytest.raises(StoreError, match="anew"):
        await frontier.engine.patiently(lambda: exporter.end([0]))
