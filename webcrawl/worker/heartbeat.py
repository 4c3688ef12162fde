"""A worker's heartbeat: extends its leases, reclaims the leases of dead workers, and sends vitals and costs."""

from __future__ import annotations

import logging
import math
import resource
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from heapq import nlargest
from pathlib import Path

from webcrawl.errors import EngineUnavailable
from webcrawl.frontier import Crawl, Frontier
from webcrawl.frontier.figures import fetches_by_site, figures
from webcrawl.frontier.history import SAMPLE_SECONDS, History
from webcrawl.frontier.workers import AllVitals, Vitals, WorkerOutlook
from webcrawl.hosts.costs import ALL, Cost, Costs, Load, with_domains
from webcrawl.metrics.totals import DEAD
from webcrawl.stores.backpressure import Backpressure
from webcrawl.worker.leased_hosts import LeasedHosts
from webcrawl.worker.leasing import LeaseSafety
from webcrawl.worker.membership import Membership, Permits
from webcrawl.worker.reporter import Tally
from webcrawl.worker.shard_sharing import ShardLoadMeter

logger = logging.getLogger(__name__)

_BEAT_SECONDS = 2.0
_SPEED_BEATS = 15
_MOST_HOSTS = 10
_PROCESSED_SECONDS, _MOST_PROCESSED = 2.0, 1_000
"""Pages that are processed for longer than these seconds are shown: the oldest, up to this number."""
_STATM = Path("/proc/self/statm")

Processing = Callable[[float], Sequence[tuple[str, float]]]
"""Returns the URLs that were fetched by a monotonic time and are still processed, each with the time of its fetch."""


@dataclass(slots=True)
class Heartbeat:
    """The heartbeat of one worker.

    `finish` is called with the reason "stopped" when an operator has stopped the crawl, and "max_bytes" when the crawl
    has got `max_bytes` (0: no limit).
    """

    frontier: Frontier
    crawl: Crawl
    hosts: LeasedHosts
    membership: Membership
    permits: Permits
    safety: LeaseSafety
    backpressure: Backpressure
    tally: Tally
    vitals: VitalsReports
    max_bytes: int
    finish: Callable[[str], None]
    paused: bool = field(default=False, init=False)
    """An operator paused the crawl."""
    holds: bool = field(default=False, init=False)
    """The stores accept nothing more, and the engine knows it."""
    _stops: int | None = field(default=None, init=False)
    """How often the crawl had been stopped when this worker began."""
    _last: float = field(default=-math.inf, init=False)
    """Monotonic time of the last heartbeat."""

    @property
    def is_registered(self) -> bool:
        """Whether the engine has the first heartbeat."""
        return self._last > -math.inf

    @property
    def is_due(self) -> bool:
        """Whether the next heartbeat should be sent."""
        return time.monotonic() - self._last > min(_BEAT_SECONDS, self.frontier.lease_seconds / 4)

    async def beat(self, *, seeding: bool) -> None:
        """Extends all leases, reclaims the leases of dead workers, updates membership and pause, and sends costs.

        `seeding`: this worker may add more seeds.
        """
        sent = time.monotonic()
        beat = await self.crawl.workers.beat(seeding=seeding)
        self._set_paused(beat.paused)
        if self._stops is None:
            self._stops = beat.stops
        elif beat.stops > self._stops:
            self.finish("stopped")
        self.permits.valid_until = sent + self.crawl.worker_seconds
        await self._extend(sent)
        await self._reap(sent)
        if self.holds:
            await self.crawl.workers.hold(self.backpressure.reason)
        await self.membership.update()
        if self.frontier.traffic is not None:
            fetched, leased = fetches_by_site(await self.crawl.totals()), self.hosts.leased_classes()
            self.frontier.traffic.update(fetched, len(self.membership.peers), leased)
        await self.vitals.send(self.crawl.worker_seconds)
        self._last = sent
        if self.max_bytes and (await self.crawl.totals()).get("bytes", 0) >= self.max_bytes:
            self.finish("max_bytes")

    async def check_engine_age(self) -> None:
        """Leaves hosts to other workers for a while if the engine has just started: it may not know their leases.

        An embedded engine is young whenever a crawl starts, and its workers do not outlive its machine.
        """
        age = await self.frontier.engine.age()
        young = age < self.frontier.lease_seconds and not self.frontier.engine.embedded
        if young and await self.crawl.workers.count_alive():
            # from now, not from the start: the other workers could not ask the engine while it loaded its data
            self.safety.leave_to_others(time.monotonic())

    async def update_hold(self) -> None:
        """Holds while the stores accept nothing more: nothing is fetched, and fetched pages wait."""
        reason = self.backpressure.reason
        if bool(reason) == self.holds:
            return
        # first, so that it is repeated if the engine is unavailable
        await self.crawl.workers.hold(reason)
        self.holds = bool(reason)
        if reason:
            logger.warning("The stores accept nothing more (%s): holding, nothing is lost.", reason)
        else:
            logger.warning("The stores accept pages again; the crawl continues.")

    async def _extend(self, sent: float) -> None:
        lost = await self.frontier.extend([host.lease for host in self.hosts])
        for lease in [host.lease for host in self.hosts]:
            if lease.host in lost:
                self.hosts.lose(lease.host)
            else:
                self.hosts.extend(lease, self.safety.until(sent))

    async def _reap(self, sent: float) -> None:
        """Reclaims the leases of dead workers; `sent` is the time of this heartbeat."""
        if not self.safety.may_reap(sent, self._last):
            return
        # a worker that was suspended or cut off during a request may still get its answer
        hosts, buried = await self.frontier.reap(delay=self.safety.delay, answer=self.safety.reaped_seconds)
        if buried:
            self.tally.counters[f"{DEAD}worker"] += buried
        if hosts:
            logger.warning("Reclaimed %d hosts of dead workers; %d URLs became dead letters.", hosts, buried)

    def _set_paused(self, paused: bool) -> None:
        if paused != self.paused:
            logger.info("The crawl is paused." if paused else "The crawl was resumed.")
        self.paused = paused


@dataclass(slots=True)
class VitalsReports:
    """Tells the engine how a worker is doing, and what its hosts cost. One worker of the crawl also takes samples.

    The samples are the history of the crawl. `costs`: what hosts have cost since the last heartbeat. `processing`
    returns the pages that are processed.
    """

    frontier: Frontier
    crawl: Crawl
    hosts: LeasedHosts
    membership: Membership
    permits: Permits
    costs: Costs
    processing: Processing
    loads: ShardLoadMeter = field(init=False)
    outlook: WorkerOutlook = field(default_factory=WorkerOutlook, init=False)
    """The worker's latest look at the crawl, which is set from outside."""
    _started: float = field(default_factory=time.time, init=False)
    _pages: deque[tuple[float, int]] = field(init=False)
    """The last heartbeats: monotonic time and number of finished pages."""
    _sampled: float = field(default=-math.inf, init=False)

    def __post_init__(self) -> None:
        self._pages = deque([(time.monotonic(), 0)], maxlen=_SPEED_BEATS)
        self.loads = ShardLoadMeter(self.crawl.keys)

    async def send(self, seconds: float) -> None:
        """Sends costs, stores the vitals for `seconds`, and takes a sample if one is due."""
        await self._send_costs()
        crawl = self.crawl
        with suppress(EngineUnavailable):  # a full engine refuses what is only shown
            await AllVitals(crawl.engine, crawl.keys).put(crawl.worker, self._vitals(), seconds)
        if crawl.worker == min(self.membership.peers) and time.monotonic() - self._sampled >= SAMPLE_SECONDS:
            await self._sample()

    async def send_last(self) -> None:
        """Sends the last costs, and takes the last sample."""
        await self._send_costs()
        await self._sample()

    async def _send_costs(self) -> None:
        """Sends the costs and present loads of hosts; the costs are not lost when this raises."""
        taken = self.costs.take()
        self.loads.note(taken, self.hosts.unasked())
        await self.crawl.costs.add(taken)
        with suppress(EngineUnavailable):  # a full engine refuses what is only shown
            await self.crawl.costs.show(with_domains(self._loads(taken)))

    def _loads(self, taken: dict[str, Cost]) -> Iterator[tuple[str, Load]]:
        """The loads of the hosts that use something, and of the hosts and domains of `taken` that wait for a share."""
        for host in self.hosts:
            connections = host.turn.in_flight
            processed = host.unsettled - len(host.urls) - host.in_flight
            if connections or processed > 0:
                yield host.lease.host, Load(connections, max(0, processed))
        for name, cost in taken.items():
            if cost.waits and name != ALL and "://" not in name:
                yield name, Load(waits=cost.waits)

    async def _sample(self) -> None:
        """Adds the current figures to the history of the crawl."""
        self._sampled = time.monotonic()
        history = History(self.crawl.engine, self.crawl.keys)
        await history.add(await figures(self.frontier, self.crawl))

    def _vitals(self) -> Vitals:
        hosts, pages = list(self.hosts), self.permits.pages
        self._pages.append((now := time.monotonic(), pages))
        since, before = self._pages[0]
        slowest = nlargest(_MOST_HOSTS, hosts, key=lambda host: host.turn.latency)
        busiest = nlargest(_MOST_HOSTS, hosts, key=lambda host: host.turn.in_flight)
        waiting = nlargest(_MOST_HOSTS, hosts, key=lambda host: host.turn.wait(now))
        return Vitals(
            self._started,
            _resident_bytes(),
            len(hosts),
            sum(len(host.urls) for host in hosts),
            sum(host.turn.in_flight for host in hosts),
            max(0, sum(host.unsettled - len(host.urls) - host.in_flight for host in hosts)),
            pages,
            (pages - before) / (now - since) if now > since else 0.0,
            [(host.lease.host, host.turn.latency) for host in slowest if host.turn.latency],
            {host.lease.host: host.turn.pace(now) for host in (*slowest, *busiest, *waiting)},
            self._long_processed(now),
            self.outlook,
            len(self.membership.served()),
            self.loads.loads(),
        )

    def _long_processed(self, now: float) -> list[tuple[str, float]]:
        """The pages that are processed for long, with the Unix time at which they were fetched."""
        pages = self.processing(now - _PROCESSED_SECONDS)[:_MOST_PROCESSED]
        offset = time.time() - now
        return [(url, fetched + offset) for url, fetched in pages]


def _resident_bytes() -> int:
    """The resident memory of this process; its peak where the system does not tell the present size."""
    try:
        return int(_STATM.read_text().split()[1]) * resource.getpagesize()
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
