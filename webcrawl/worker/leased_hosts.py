"""The hosts that a worker has leased, their URLs, and the order in which they are due."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from webcrawl.frontier import Lease, LeasedURL, LeaseReport, Settlement
from webcrawl.hosts.politeness import HostTurn
from webcrawl.hosts.turns import Turns
from webcrawl.metrics.observations import Observations
from webcrawl.policies.traffic import Traffic
from webcrawl.worker.link_intake import LinkIntake

_LOOK_AGAIN_SECONDS = 0.05


class Settled(NamedTuple):
    """The outcome of a URL, and when it may be reported."""

    settlement: Settlement
    after: int = 0
    """How many discovered URLs the engine must have first; its links are among them."""
    at: float | None = None
    """Monotonic time at which it was settled, if that is observed."""


class Arrivals:
    """When the URLs of one lease came to this worker, for metrics and traces.

    Observes how long each URL waits until it is handed out, and then for its acknowledgement.
    """

    def __init__(self, observed: Observations) -> None:
        self.opened = time.monotonic()
        """When the host was leased."""
        self._observed = observed
        self._at: dict[int, float] = {}
        self._handed: dict[int, str] = {}
        """The URLs that were handed out and are not acknowledged yet."""

    def add(self, urls: Iterable[LeasedURL]) -> None:
        """Notes that these URLs were leased now."""
        now = time.monotonic()
        self._at.update((url.index, now) for url in urls)

    def hand_out(self, url: LeasedURL, now: float) -> None:
        """Observes how long a URL has waited, unless it was handed out before and put back."""
        if (at := self._at.pop(url.index, None)) is not None:
            if self._observed.traces is not None:
                self._observed.traces.begin(url, at)
                self._handed[url.index] = url.url
            self._observed.stage("queue", url.url, at, now)
            if url.is_observed and url.queued_at is not None:
                # by the clock of the day, because the worker that queued it may be on another machine
                self._observed.queued.observe(time.time() - url.queued_at)

    def acknowledge(self, settlement: Settlement, at: float, now: float) -> None:
        """Observes that the engine has acknowledged a URL that was settled at a monotonic time."""
        url = self._handed.pop(settlement.index, "")
        self._observed.stage("acknowledgement", url, at, now)
        if self._observed.traces is not None:
            self._observed.traces.end(url, now, settlement)

    def close(self) -> None:
        """Ends the traces of URLs that this worker did not finish: the lease was lost, or they were given back."""
        if self._observed.traces is not None:
            for url in self._handed.values():
                self._observed.traces.end(url, time.monotonic())


@dataclass(slots=True)
class LeasedHost:
    """A leased host: URLs not handed out yet, fetches in flight, and outcomes to report."""

    lease: Lease
    turn: HostTurn
    concurrency: int
    urls: deque[LeasedURL] = field(default_factory=deque)
    """The best rank first, then in the order of their leases."""
    in_flight: int = 0
    unsettled: int = 0
    """Number of URLs not settled yet, including `urls`."""
    settled: list[Settled] = field(default_factory=list)
    """Outcomes not reported yet, in order."""
    drained: bool = False
    """The engine had no further URLs at the last request."""
    classes_asked: float = 0.0
    """Monotonic time at which URLs of the classes were asked for of which few are leased (TRAFFIC)."""
    frozen: bool = False
    """No more URLs are leased: the engine was restarted and may not know which URLs it has handed out."""
    leaving: bool = False
    """No more URLs are handed out, and the host is released when no fetch is in flight."""
    resumes: float = 0.0
    """Monotonic time before which no worker is to ask the host again, besides its politeness."""
    arrivals: Arrivals | None = None
    """When its URLs were leased; None without METRICS_PORT and TRACES."""
    adding: int = 0
    """Pages whose many links are being added; no URLs are handed out meanwhile."""
    passed: int = 0
    """URLs that were handed out before links that had waited for longer."""

    @property
    def classes(self) -> set[str]:
        """The classes of its URLs that were not handed out."""
        return {url.fetch_class for url in self.urls}

    @property
    def may_start(self) -> bool:
        """Whether a URL may be handed out, apart from the host's turn."""
        busy = self.in_flight >= self.concurrency or self.adding
        return bool(self.urls) and not (busy or self.leaving)

    def take(self, low_share: float) -> LeasedURL:
        """Removes and returns the next URL: the best, or in a share of cases the first of the links that it has passed.

        Links of a lower level would otherwise wait here for as long as each page links to a better one.
        """
        best = self.urls[0]
        if self.urls[-1].rank > best.rank and best.is_link:
            self.passed += 1
            if self.passed * low_share >= 1:
                self.passed = 0
                waiting = (url for url in self.urls if url.rank > best.rank and url.is_link)
                best = min(waiting, key=lambda url: url.index, default=best)
                self.urls.remove(best)
                return best
        return self.urls.popleft()

    def take_of_class(self, fetch_class: str) -> LeasedURL:
        """Removes and returns the first URL of a class, or the first of all if it has none of this class now."""
        at = next((at for at, url in enumerate(self.urls) if url.fetch_class == fetch_class), 0)
        url = self.urls[at]
        del self.urls[at]
        return url

    def settle(self, settled: Settled) -> None:
        """Records the outcome of a URL."""
        self.settled.append(settled)
        self.unsettled -= 1

    def put_back(self, url: LeasedURL) -> None:
        """Returns a URL to the head of the queue, for another worker, and releases the host."""
        self.urls.appendleft(url)
        self.leaving = True

    def bury_rest(self, reason: str) -> int:
        """Makes dead letters of the URLs not handed out; returns how many."""
        buried = len(self.urls)
        for url in self.urls:
            self.settle(Settled(Settlement(url.index, "dead", reason=reason)))
        self.urls.clear()
        self.drained = True
        return buried

    def admit(self, urls: Sequence[LeasedURL], intake: LinkIntake) -> Sequence[LeasedURL]:
        """Settles URLs that simpler URLs replace, and URLs whose pattern has sunk; returns the other URLs."""
        if self.lease.host in intake.records.dust.active:
            urls = self._without_replaced(urls, intake)
        sunk = [intake.records.patterns.sink(url) for url in urls]
        if not any(sunk):
            return urls
        self.settled += [Settled(settlement) for settlement in sunk if settlement]
        return [url for url, settlement in zip(urls, sunk, strict=True) if not settlement]

    def _without_replaced(self, urls: Sequence[LeasedURL], intake: LinkIntake) -> Sequence[LeasedURL]:
        kept: list[LeasedURL] = []
        for url in urls:
            if (after := intake.replace(url)) is None:
                kept.append(url)
            else:
                self.settled.append(Settled(Settlement(url.index), after))
        return kept

    def reconsider(self, intake: LinkIntake) -> None:
        """Settles the URLs not handed out that are replaced, or whose pattern has sunk, since they were leased."""
        kept = self.admit(self.urls, intake)
        if len(kept) < len(self.urls):
            self.unsettled -= len(self.urls) - len(kept)
            self.urls = deque(kept)
            self.drained = False

    def report(self, sent: int) -> LeaseReport:
        """Reports the settled URLs whose links are among the first `sent` discovered URLs, which the engine has."""
        ready = itertools.takewhile(lambda settled: settled.after <= sent, self.settled)
        return LeaseReport(self.lease, tuple(settled.settlement for settled in ready))


class DueHosts:
    """The leased hosts that have URLs to hand out, by the time at which they may be asked.

    With `traffic`, a host is with the hosts of each class of which it has URLs. Of the classes with hosts that are due,
    the one with the next turn comes first.
    """

    def __init__(self, traffic: Traffic | None = None) -> None:
        self._traffic = traffic
        self._heaps: dict[tuple[str, str], list[tuple[float, int, str]]] = {}
        """Site and class, both "" without `traffic` -> (time, number, host)."""
        self._order = itertools.count()
        self._latest: dict[str, int] = {}
        """Host -> the number of its entries that count, with `traffic`: those that were added last."""

    def add(self, at: float, host: LeasedHost) -> None:
        """Adds a host that may be asked at the monotonic time `at`."""
        number, name = next(self._order), host.lease.host
        if self._traffic is None:
            return heapq.heappush(self._heaps.setdefault(("", ""), []), (at, number, name))
        self._latest[name] = number
        site = self._traffic.site_of(name)
        for fetch_class in host.classes:
            heapq.heappush(self._heaps.setdefault((site, fetch_class), []), (at, number, name))

    def take(self, now: float) -> tuple[str, str] | None:
        """Removes and returns a host that is due, and the class of its next fetch ("" without `traffic`), or None."""
        due = [key for key, heap in self._heaps.items() if self._is_due(heap, now)]
        if not due:
            return None
        if self._traffic is not None and len(due) > 1:
            shares = {site: self._traffic.of_site(site) for site, _ in due}
            due.sort(key=lambda key: shares[key[0]].passed(key[1]))
            first = {key[0]: key for key in reversed(due)}
            due = sorted(first.values(), key=lambda key: self._heaps[key][0])
        name = heapq.heappop(self._heaps[due[0]])[2]
        self._latest.pop(name, None)
        return name, due[0][1]

    def _is_due(self, heap: list[tuple[float, int, str]], now: float) -> bool:
        """Whether the first host of a heap is due, after removing the entries before it that do not count."""
        if self._traffic is not None:
            while heap and heap[0][0] <= now and self._latest.get(heap[0][2]) != heap[0][1]:
                heapq.heappop(heap)
        return bool(heap) and heap[0][0] <= now

    def next_at(self) -> float:
        """Returns the monotonic time at which the next host is due; infinite without hosts."""
        return min((heap[0][0] for heap in self._heaps.values() if heap), default=math.inf)


class LeasedHosts:
    """Hands out URLs in the order in which their hosts are due.

    turns     in which each leased host is open
    intake    knows which leased URLs sink or are replaced, and which hosts are over a budget
    wake      is called when the order changes in which hosts are due
    changed   is set when a host has something to report
    observed  gets what metrics and traces need; None without them
    traffic   counts the fetches of each class, and has the shares of the classes; None without TRAFFIC
    low_share the share of links of a host that are handed out before better ones that came later
    """

    def __init__(
        self,
        turns: Turns,
        intake: LinkIntake,
        wake: Callable[[], None],
        changed: asyncio.Event | None = None,
        observed: Observations | None = None,
        traffic: Traffic | None = None,
        low_share: float = 0.0,
    ) -> None:
        self.to_report: set[str] = set()
        """Hosts to include in the next report. A host may not be leased any more."""
        self.lost: list[str] = []
        """Hosts whose leases were lost, and that are not logged yet."""
        self._turns = turns
        self._intake = intake
        self._wake = wake
        self._changed = changed or asyncio.Event()
        self._observed, self._traffic, self._low_share = observed, traffic, low_share
        self._hosts: dict[str, LeasedHost] = {}
        self._due = DueHosts(traffic)

    def __len__(self) -> int:
        return len(self._hosts)

    def __iter__(self) -> Iterator[LeasedHost]:
        return iter(self._hosts.values())

    def __getitem__(self, name: str) -> LeasedHost:
        return self._hosts[name]

    def __contains__(self, name: str) -> bool:
        return name in self._hosts

    def of(self, name: str, token: int) -> LeasedHost | None:
        """Returns the host if it is still leased under this token."""
        host = self._hosts.get(name)
        return host if host is not None and host.lease.token == token else None

    def token(self, name: str) -> int:
        """Returns the fencing token of a host's lease; -1 if it has none."""
        host = self._hosts.get(name)
        return host.lease.token if host else -1

    def open(self, lease: Lease, until: float) -> None:
        """Adds a leased host with its URLs; the lease lasts until the monotonic time `until`."""
        turn = self._turns.host_slots.open(
            lease.host,
            failures=lease.failures,
            delay=lease.delay,
            valid_until=until,
            answered=lease.answered,
            gap=lease.gap,
        )
        host = LeasedHost(lease, turn, self._turns.config_of(lease.host).concurrency)
        if self._observed is not None:
            host.arrivals = Arrivals(self._observed)
        self._hosts[lease.host] = host
        self._intake.records.open(lease)
        self.add_urls(host, lease.urls)
        if host.settled:  # URLs that have sunk or were replaced
            self.report(lease.host)

    def extend(self, lease: Lease, until: float) -> None:
        """Extends a lease to a monotonic time, and takes the delay that an operator has set."""
        self._turns.host_slots.extend(lease.host, until)
        if self._turns.set_delay(lease.host, lease.delay):
            self.delay_changed(lease.host)

    def add_urls(self, host: LeasedHost, urls: Sequence[LeasedURL]) -> None:
        """Adds URLs, sorted by rank, behind the URLs of the same rank; with TRAFFIC, behind all.

        URLs whose pattern has sunk, and URLs that simpler URLs replace, are settled.
        """
        urls = host.admit(urls, self._intake)
        by_rank = self._traffic is None
        overtaken = bool(by_rank and urls and host.urls and urls[0].rank < host.urls[-1].rank)
        host.urls.extend(urls)
        if host.arrivals is not None:
            host.arrivals.add(urls)
        if overtaken:
            host.urls = deque(sorted(host.urls, key=lambda url: url.rank))
        host.unsettled += len(urls)
        self._schedule(host)

    def drop(self, name: str) -> None:
        """Removes a host that was released."""
        if (arrivals := self._hosts.pop(name).arrivals) is not None:
            arrivals.close()
        self._turns.host_slots.close(name)
        self._intake.records.close(name)

    def lose(self, name: str) -> None:
        """Removes a host whose lease was lost."""
        self.lost.append(name)
        self.drop(name)

    def report(self, name: str) -> None:
        """Includes a host in the next report."""
        self.to_report.add(name)
        self._changed.set()

    def release(self, name: str) -> None:
        """Hands out no more URLs of a host, and releases it when no fetch is in flight."""
        self._hosts[name].leaving = True
        self.report(name)

    def give_way(self, unit: str) -> None:
        """Releases the host that takes turns as this unit, if it is leased: a crawl wants it that comes before all."""
        name = self._turns.host_slots.leased_of(unit)
        if name is not None and name in self._hosts:
            self.release(name)

    def release_all(self) -> None:
        """Releases each host as soon as its fetches in flight are done."""
        for host in self:
            if not host.leaving:
                self.release(host.lease.host)

    def reconsider(self, *names: str) -> None:
        """Settles the URLs of hosts that sink or are replaced now, and reports what their pages have told."""
        for name in names:
            if (host := self._hosts.get(name)) is not None:
                host.reconsider(self._intake)
                self.report(name)

    def delay_changed(self, name: str) -> None:
        """Reschedules a host whose delay has changed, and reports the new delay."""
        self.reschedule(name)
        self.report(name)

    def next(self, now: float, allowed: Callable[[], bool]) -> LeasedURL | None:
        """Returns a URL whose host may be asked at the monotonic time `now`, or None.

        `allowed` is called before a URL is handed out, and may prevent it.
        """
        budgets = self._intake.records.budgets
        while (due := self._due.take(now)) is not None:
            name, fetch_class = due
            host = self._hosts.get(name)
            if host is None or not host.may_start:
                continue
            if not host.turn.may_start(now):
                self._schedule(host)
                continue
            if budgets and budgets.sinks(host.lease):
                self.release(name)
                continue
            if not allowed():
                self._due.add(now, host)
                return None
            host.in_flight += 1
            if self._traffic is None:
                url = host.take(self._low_share)
            else:
                url = host.take_of_class(fetch_class)
                self._traffic.of(name).start(url.fetch_class)
            if host.arrivals is not None:
                host.arrivals.hand_out(url, now)
            self._schedule(host)
            return url
        return None

    def next_at(self) -> float:
        """Returns the monotonic time at which `next` may have a URL; infinite when nothing is scheduled."""
        return self._due.next_at()

    def due(self, seconds: float) -> int:
        """Returns how many URLs may be handed out within `seconds`, before any fetch ends."""
        until = time.monotonic() + seconds
        return sum(
            min(len(host.urls), host.concurrency - host.in_flight)
            for host in self
            if host.urls and not host.leaving and host.turn.ready_at <= until
        )

    def leased_classes(self) -> dict[str, list[str]]:
        """Returns the classes of the URLs that were not handed out, by site of TRAFFIC."""
        classes: dict[str, list[str]] = {}
        if self._traffic is not None:
            for host in self:
                of_site = classes.setdefault(self._traffic.site_of(host.lease.host), [])
                of_site += [url.fetch_class for url in host.urls]
        return classes

    def hosts_of_classes(self) -> Counter[str]:
        """Returns how many of the hosts have URLs of each class that were not handed out."""
        return Counter(name for host in self for name in host.classes)

    def finish_fetch(self, host: LeasedHost) -> None:
        """Ends a fetch, successful or not."""
        host.in_flight -= 1
        self._schedule(host)

    @contextmanager
    def adding_links(self, name: str) -> Iterator[None]:
        """Hands out no URL of a host, if it is leased, while many links of one of its pages are added."""
        host = self._hosts.get(name)
        if host is None:
            yield
            return
        host.adding += 1
        try:
            with self._turns.unread_page():
                yield
        finally:
            host.adding -= 1
            self.reschedule(name)

    def reschedule(self, name: str) -> None:
        """Updates when a host is due, if it is leased."""
        if host := self._hosts.get(name):
            self._schedule(host)

    def _schedule(self, host: LeasedHost) -> None:
        if host.may_start:
            due = host.turn.ready_at
            if math.isinf(due):
                # another request to the host is in flight, as for its robots.txt, and nothing announces its end
                due = time.monotonic() + _LOOK_AGAIN_SECONDS
            self._due.add(due, host)
            self._wake()
