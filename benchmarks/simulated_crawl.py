"""A crawl without a network: the frontier, the intake of links and their Lua as they are, by a virtual clock.

The clock is the record of the time that each shard keeps (webcrawl/engine/lua/common/entries.lua), which says by how
much the shard is ahead of its server. It is written before each group of calls; within a group, time goes on as it
does. The politeness records of hosts expire by the server's clock, so the time after which they do is scaled by the
pace of the crawl.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.command import size_of
from benchmarks.frontier_bench import cpu_seconds, embedded_server
from benchmarks.power_law_web import PowerLawWeb, Reals, numbers_of
from tests.cluster import LocalCluster
from webcrawl.config import DEFAULTS
from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.engine.replication import Command
from webcrawl.frontier import Candidate, Crawl, Frontier, Lease, LeasedURL, LeaseReport, Settlement
from webcrawl.frontier.ledger import Ledger
from webcrawl.frontier.tails import Tails
from webcrawl.frontier.trust import TrustLedger
from webcrawl.policies.priorities import Prioritizer, Prospect
from webcrawl.policies.terms import Importance, Length, LinkDepth, Parameters, PathDepth
from webcrawl.urls.canonical import Canonicalizer, split
from webcrawl.worker.budgets import Budgets
from webcrawl.worker.host_records import Dust, HostRecords, KnownPatterns
from webcrawl.worker.link_intake import LinkIntake
from webcrawl.worker.page_credit import PageCredit
from webcrawl.worker.trust import Trust

SLICE = 10
"""URLs for which a host keeps its place, as in webcrawl.worker.leased_host."""
TOGETHER = 250
"""Reports in a round trip."""
SOONEST, LATEST, EVERY = 0.25, 5.0, 0.5
"""When credit is paid: as webcrawl.worker.page_credit does, by the virtual clock."""
QUIET_SECONDS = 3600.0
PAUSE = 0.75
"""The part of the delay after which a host is due, so that it is due at the next step, although calls take time."""
BEGIN = 1_700_000_000.0
_BUFFERS = ("mem_aof_buffer", "mem_clients_normal", "mem_total_replication_buffers", "mem_cluster_links")
_TERMS = (LinkDepth, PathDepth, Length, Parameters, Importance)


@dataclass(frozen=True, slots=True)
class SimulatedEngine:
    """The engine, and the processes of its primaries and replicas, whose data are in a folder."""

    engine: Engine
    primaries: Sequence[int]
    replicas: Sequence[int]
    folder: Path

    async def memory(self) -> int:
        """Bytes of the data of all primaries, without buffers of connections, replicas and files."""
        everywhere = {"target_nodes": "primaries"} if self.engine.is_cluster else {}
        infos = await self.engine.client.info("memory", **everywhere)
        by_server = infos.values() if self.engine.is_cluster else [infos]
        return sum(
            int(info["used_memory"]) - sum(int(info.get(name, 0)) for name in _BUFFERS) for info in by_server
        )

    def disk(self) -> int:
        """Bytes of the files: append-only files of a single server, and the tails of long queues."""
        return size_of(self.folder)

    def cpu(self) -> tuple[Reals, Reals]:
        """Processor time of each primary, and of each replica."""
        return np.array([*map(cpu_seconds, self.primaries)]), np.array([*map(cpu_seconds, self.replicas)])


@dataclass(slots=True)
class Place:
    """A leased host: its next URL, and the URLs that it gave in this lease."""

    lease: Lease
    url: LeasedURL | None
    given: int = 0


@dataclass(slots=True)
class SimulatedCrawl:
    """A worker with a window of hosts that each get a page in each step of `delay` seconds."""

    web: PowerLawWeb
    at: SimulatedEngine
    frontier: Frontier
    intake: LinkIntake
    prioritizer: Prioritizer
    tails: Tails
    window: int
    delay: float
    slice: int = SLICE
    now: float = BEGIN
    began: float = field(default_factory=time.monotonic)
    cpu: float = 0.0
    """Processor time of the worker, without the web and the figures."""
    leased: dict[str, Place] = field(default_factory=dict)
    free_at: dict[str, float] = field(default_factory=dict)
    """When hosts that were released may be asked again."""
    late: list[float] = field(default_factory=list)
    """Seconds by which hosts were leased later than they might have been asked."""
    order: list[tuple[int, int]] = field(default_factory=list)
    """Host and page of each fetch."""
    _canonical: Canonicalizer = field(default_factory=Canonicalizer)
    _pay_at: float = BEGIN

    async def set_clock(self) -> None:
        ahead, now = round(1000 * (self.now - time.time())), round(1000 * self.now)
        names = [self.frontier.keys.clock(shard) for shard in range(self.frontier.keys.shards)]
        await self.at.engine.change_all([Command(name, ("SET", name, f"{now} {ahead}")) for name in names])

    async def seed(self, urls: Sequence[str]) -> None:
        """Adds URLs that no page links to; Lambda's credit moves to their shards."""
        for url in urls:
            self.intake.add(Candidate(*split(url), self._canonical.fingerprint(url), level=3))
        await self._send()
        await self._pay()

    async def step(self) -> int:
        """Lets each leased host fetch a page, and returns the number of pages. The clock moves on by the delay."""
        await self._counted(self._lease())
        urls = [place.url for place in self.leased.values() if place.url]
        if urls:
            numbers = [numbers_of(url.host, url.path) for url in urls]
            self.order += numbers
            hosts, pages = np.array(numbers).T
            links = self.web.links(hosts, pages)
            await self._counted(self._take_in(urls, links))
            await self._counted(self._settle(urls))
        if self.now >= self._pay_at:
            self._pay_at = self.now + min(max(SOONEST, EVERY * (self.now - BEGIN)), LATEST)
            await self._counted(self._pay())
        self.now += self.delay
        return len(urls)

    async def _counted(self, work: Awaitable[None]) -> None:
        begun = time.process_time()
        await work
        self.cpu += time.process_time() - begun

    async def _lease(self) -> None:
        await self.set_clock()
        room = self.window - len(self.leased)
        leases = await self.frontier.lease(room - room // 4, 1, new=room // 4) if room else []
        if left := room - len(leases):
            leases += await self.frontier.lease(left, 1)
        for lease in leases:
            self.intake.records.open(lease)
            self.leased[lease.host] = Place(lease, lease.urls[0])
            if (free_at := self.free_at.pop(lease.host, None)) is not None:
                self.late.append(self.now - free_at)

    async def _take_in(self, urls: Sequence[LeasedURL], links: Sequence[Sequence[str]]) -> None:
        for url, targets in zip(urls, links, strict=True):
            self.intake.begin(url)
            new = self.intake.unknown(targets)
            self._add(new, url, len(targets))
            self.intake.count_links(
                (url.host, url.path),
                targets,
                new=len(new),
                refused=set(),
                uncredited=set(),
                url=url.url,
                depth=url.depth + 1,
            )
        await self._send()

    def _add(self, links: Sequence[str], url: LeasedURL, number: int) -> None:
        credit = self.intake.credit
        worth = credit.of_link(url.url, number) if credit else None
        prospect = Prospect("", "", url.depth + 1, url.url, self.now, worth=worth)
        rises = credit.rise(worth) if credit else None
        for link in links:
            prospect.url, (host, prospect.path) = link, split(link)
            level, mark = self.prioritizer.level(prospect), self._canonical.fingerprint(link)
            self.intake.add(Candidate(host, prospect.path, mark, level, url.depth + 1, url.url, rise=rises))
            self.intake.recent.links.add(link)

    async def _send(self) -> None:
        while len(self.intake):
            await self.set_clock()
            await self.intake.send(self.set_clock)

    async def _settle(self, urls: Sequence[LeasedURL]) -> None:
        quiet = max(60.0, QUIET_SECONDS * (time.monotonic() - self.began) / max(1.0, self.now - BEGIN))
        reports = []
        for url in urls:
            place = self.leased[url.host]
            place.url, place.given = None, place.given + 1
            links = self.intake.end(url.url, fetched=True)
            done = [Settlement(url.index, pages=1, bytes=30_000, links=links)]
            if place.given >= self.slice:
                reports.append(self._last(place, quiet, done))
            else:  # for the best URL of the host: a worker takes better URLs before those leased ahead
                reports.append(LeaseReport(place.lease, done, more=1))
        await self._report(reports)
        ended = [place for place in self.leased.values() if not place.url and place.given < self.slice]
        await self._report([self._last(place, quiet) for place in ended])
        for host in [host for host, place in self.leased.items() if not place.url]:
            del self.leased[host]
            self.intake.records.close(host)
            self.free_at[host] = self.now + self.delay

    def _last(self, place: Place, quiet: float, done: Sequence[Settlement] = ()) -> LeaseReport:
        """A report that releases the host."""
        return LeaseReport(place.lease, done, pause=PAUSE * self.delay, quiet=quiet)

    async def _report(self, reports: Sequence[LeaseReport]) -> None:
        for start in range(0, len(reports), TOGETHER):
            await self.set_clock()
            await self.frontier.settle_all(reports[start : start + TOGETHER], self._settled)

    def _settled(self, report: LeaseReport, urls: Sequence[LeasedURL] | None, credits: Sequence[int]) -> None:
        if self.intake.credit:
            self.intake.credit.divide(report, credits)
        if urls:
            self.leased[report.lease.host].url = urls[0]

    async def _pay(self) -> None:
        shards = range(self.frontier.keys.shards)
        await self.set_clock()
        if self.intake.credit:
            await self.intake.credit.pay(shards)
        await self.intake.send_worth_if_due(shards, lambda _: None)
        await self.set_clock()
        for plan in await self.tails.plan(shards):
            if plan:
                await self.tails.carry_out(plan)


@contextmanager
def servers(folder: Path, primaries: int) -> Iterator[tuple[str, list[int], list[int]]]:
    """Starts one server like that of an embedded engine, or a cluster with a replica of each primary."""
    if primaries > 1:
        with LocalCluster(primaries) as cluster:
            leaders = [node for node in cluster.nodes if node.is_primary]
            others = [node.process.pid for node in cluster.nodes if node not in leaders]
            yield cluster.url, [node.process.pid for node in leaders], others
    else:
        with embedded_server(folder) as (url, pid):
            yield url, [pid], []


@asynccontextmanager
async def simulated_crawl(
    web: PowerLawWeb,
    *,
    primaries: int,
    shards: int,
    importance: str,
    window: int,
    delay: float,
    slice: int = SLICE,
) -> AsyncIterator[SimulatedCrawl]:
    """Starts servers with an empty frontier, and ends them afterwards."""
    with (
        tempfile.TemporaryDirectory(prefix="simulate") as folder,
        servers(Path(folder), primaries) as (url, leaders, replicas),
    ):
        engine = Engine(url)
        try:
            await engine.check()
            at = SimulatedEngine(engine, leaders, replicas, Path(folder))
            crawl = await _begun(web, at, shards, importance, window, delay)
            crawl.slice = slice
            yield crawl
        finally:
            await engine.close()


async def _begun(
    web: PowerLawWeb, at: SimulatedEngine, shards: int, importance: str, window: int, delay: float
) -> SimulatedCrawl:
    """Makes the parts of a worker as a crawl with default settings does."""
    keys, credited = Keys("simulated", shards, DEFAULTS["POLITENESS_UNIT"]), importance != "off"
    crawl = Crawl(at.engine, keys, "simulated")
    await crawl.configure(DEFAULTS["FRONTIER_HOT_URLS"], DEFAULTS["FRONTIER_ORDER"], importance=credited)
    frontier = Frontier(at.engine, keys, "simulated", lease_seconds=max(60.0, 30 * SLICE * delay))
    prioritizer = Prioritizer.from_config({**DEFAULTS, "IMPORTANCE": importance}, _TERMS)
    trust = Trust(TrustLedger(at.engine, keys), delay, limited=False) if importance == "trusted" else None
    budgets = Budgets(Ledger(at.engine, keys), delay, trust)
    frontier.over = budgets.over
    intake = LinkIntake(
        frontier,
        Counter(),
        HostRecords(KnownPatterns(sinks_leased=not credited), Dust(), budgets),
        credit=PageCredit(frontier, prioritizer.level) if credited else None,
    )
    tails = Tails(at.engine, keys, crawl, (at.folder / "tails").as_uri())
    return SimulatedCrawl(web, at, frontier, intake, prioritizer, tails, window, delay)
