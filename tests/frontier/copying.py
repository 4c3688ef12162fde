"""A crawl that continues while a checkpoint is taken, and checks of the restored copy."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgpack
from redis import Redis

from tests.frontier.contents import Contents
from tests.frontier.pages import all_done, hash_of, page
from webcrawl.frontier import Crawl, Frontier, Lease, Settlement
from webcrawl.frontier.checkpoint.export import Exporter, Record
from webcrawl.frontier.checkpoint.restore import Importer
from webcrawl.frontier.credit import queue_again
from webcrawl.frontier.tails import Tails
from webcrawl.policies.traffic import CLASSES

Frontiers = Callable[..., Frontier]
Step = tuple[str, int]
Interleaved = Callable[..., None]
"""See the fixture `interleaved`."""

HOSTS = [f"http://{letter}.test" for letter in "abcdef"]
NEVER = 3600.0
VERBS = ["add", "settle", "release", "more", "reap", "condemn", "requeue", "block", *["lease"] * 3]
"""Operations of a crawl; with a store, tests add "serve" to work on the tails of queues."""


def exporter_of(
    frontier: Frontier, name: str = "x", *, batch: int = 1000, root: Path = Path("/none")
) -> Exporter:
    """An exporter of a crawl whose segments, if any, are below `root`."""
    tails = Tails(frontier.engine, frontier.keys, Crawl(frontier.engine, frontier.keys, "w1"), root.as_uri())
    return Exporter(frontier.engine, frontier.keys, name, tails, batch)


async def records_of(exporter: Exporter) -> AsyncIterator[tuple[int | None, Record]]:
    """Yields every record of a checkpoint with its shard, as read back from a file; the crawl may go on meanwhile."""
    sources = [(None, exporter.crawl()), *((n, exporter.shard(n)) for n in range(exporter.keys.shards))]
    for shard, records in sources:
        async for record in records:
            kind, *rest = msgpack.unpackb(msgpack.packb(record), raw=True, strict_map_key=False)
            yield shard, [kind.decode(), *rest]


async def restore(frontier: Frontier, taken: list[tuple[int | None, Record]]) -> None:
    """Import all records into another crawl, shard by shard."""
    importer = Importer(frontier.engine, frontier.keys, "restorer")
    for shard in dict.fromkeys(shard for shard, _ in taken):
        await importer.load(lambda mine=shard: [record for one, record in taken if one == mine])  # type: ignore[misc]


async def copied(crawl: Frontier, copy: Frontier, **options: Any) -> Exporter:
    """Take a checkpoint of an idle crawl and restore it as another crawl."""
    exporter = exporter_of(crawl, **options)
    await exporter.begin()
    taken = [one async for one in records_of(exporter)]
    await exporter.end()
    await restore(copy, taken)
    return exporter


async def serve(tails: Tails | None, shards: int) -> bool:
    """Carry out the pending plans for tails in the store; returns False if there were none."""
    plans = [plan for plan in await tails.plan(range(shards)) if plan] if tails else []
    for plan in plans:
        assert tails
        await tails.carry_out(plan)
    return bool(plans)


async def drained(frontier: Frontier, tails: Tails | None = None) -> list[str]:
    """All URLs left in a crawl, in the order of leases, including dead letters and parked or dated URLs."""
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
    raise AssertionError("the crawl does not run empty")


@dataclass
class Crawling:
    """A crawl driven step by step; records which URLs were added and settled."""

    frontier: Frontier
    leases: list[Lease] = field(default_factory=list)
    added: set[str] = field(default_factory=set)
    settled: set[str] = field(default_factory=set)
    hosts: list[str] = field(default_factory=lambda: HOSTS)
    together: int = 6
    """Number of URLs in each `add`."""
    root: Path | None = None
    """The folder of the store for tails, if any."""
    order: str = "breadth-first"
    importance: bool = False
    """URLs have credit, and the verb "better" queues some of them again at better levels."""
    by_class: bool = False
    """URLs are of several classes of fetches, which have queues of their own."""

    def tails_of(self, frontier: Frontier) -> Tails | None:
        if self.root is None:
            return None
        record = Crawl(frontier.engine, frontier.keys, "w1")
        return Tails(frontier.engine, frontier.keys, record, self.root.as_uri(), kept_seconds=0.001)

    async def configure(self, frontier: Frontier) -> None:
        """Limit the engine to 8 URLs of a host and level if there is a store."""
        hot = 8 if self.root else 0
        await Crawl(frontier.engine, frontier.keys, "w1").configure(
            hot, self.order, importance=self.importance, traffic="{}" if self.by_class else ""
        )

    async def do(self, verb: str, number: int) -> None:
        hosts = self.hosts
        host = hosts[number % len(hosts)]
        match verb:
            case "add":
                places = range(number // 7, number // 7 + self.together)
                urls = [f"{hosts[(number + n) % len(hosts)]}/{place}" for n, place in enumerate(places)]
                self.added.update(urls)
                level, rise = (3, -7, 12)[number % 3], -2 if self.importance else None
                name = CLASSES[number % 5 if self.by_class else 0]
                await self.frontier.add([page(url, level=level, rise=rise, fetch_class=name) for url in urls])
            case "better":
                url = sorted(self.added)[number % len(self.added)]
                again = page(url, level=number % 3, seen_test=False, rise=0)
                await queue_again(self.frontier.engine, self.frontier.keys, [again])
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
    # drop the politeness state of the original crawl, which shares the hosts
    for key in valkey.scan_iter("wc:*:name:*"):
        valkey.delete(key)
    marks = {int(mark) for key in valkey.scan_iter("wc:*:c:copy:seen:*") for mark in valkey.smembers(key)}
    seen = {url for url in crawling.added if copy.keys.mark(url.rpartition("/")[0], hash_of(url)) in marks}
    found = await drained(copy, crawling.tails_of(copy))
    assert left <= set(found), "URLs were lost"
    assert not settled & set(found), "settled URLs are queued again"
    assert left | settled <= seen, "URLs are missing from the seen set"
    assert seen <= set(found) | settled, "seen URLs are neither settled nor queued"
    assert len(found) == len(set(found)), "URLs are queued twice"


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
