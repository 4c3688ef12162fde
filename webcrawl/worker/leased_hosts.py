"""The hosts that a worker has leased, their URLs, and the order in which they are due."""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from webcrawl.frontier import Lease, LeasedURL, Report, Settlement
from webcrawl.hosts.politeness import HostTurn
from webcrawl.hosts.turns import Turns
from webcrawl.metrics.observations import Observations
from webcrawl.worker.arrivals import Arrivals
from webcrawl.worker.budgets import Budgets
from webcrawl.worker.dust import Dust
from webcrawl.worker.patterns import Patterns

_LOOK_AGAIN_SECONDS = 0.05


class Settled(NamedTuple):
    """The outcome of a URL, and when it may be reported."""

    settlement: Settlement
    after: int = 0
    """How many discovered URLs the engine must have first; its links are among them."""
    at: float | None = None
    """Monotonic time at which it was settled, if that is observed."""


@dataclass(slots=True)
class LeasedHost:
    """A leased host: URLs not handed out yet, fetches in flight, and outcomes to report."""

    lease: Lease
    turn: HostTurn
    concurrency: int
    urls: deque[LeasedURL] = field(default_factory=deque)
    """The best level first, then in the order of their leases."""
    in_flight: int = 0
    unsettled: int = 0
    """URLs not settled yet, including those in `urls`."""
    settled: list[Settled] = field(default_factory=list)
    """Outcomes not reported yet, in order."""
    drained: bool = False
    """The engine had no further URLs when last asked."""
    frozen: bool = False
    """No more URLs are leased: the engine was restarted and may not know which ones it has handed out."""
    leaving: bool = False
    """No more URLs are handed out, and the host is released when no fetch is in flight."""
    resumes: float = 0.0
    """Monotonic time before which no worker is to ask the host again, besides its politeness."""
    arrivals: Arrivals | None = None
    """When its URLs were leased; None without METRICS_PORT and TRACES."""
    adding: int = 0
    """Pages whose many links are being added; no URLs are handed out meanwhile."""

    @property
    def may_start(self) -> bool:
        """Whether a URL may be handed out, apart from the host's turn."""
        busy = self.in_flight >= self.concurrency or self.adding
        return bool(self.urls) and not (busy or self.leaving)

    def settle(self, settled: Settled) -> None:
        """Records the outcome of a URL."""
        self.settled.append(settled)
        self.unsettled -= 1

    def put_back(self, url: LeasedURL) -> None:
        """Returns a URL to the head of the queue and releases the host: the URL is for another worker."""
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

    def without_sunk(self, urls: Sequence[LeasedURL], patterns: Patterns) -> Sequence[LeasedURL]:
        """Settles those of new URLs whose pattern has sunk; returns the others."""
        sunk = [patterns.sink(url) for url in urls]
        if not any(sunk):
            return urls
        self.settled += [Settled(one) for one in sunk if one]
        return [url for url, one in zip(urls, sunk, strict=True) if not one]

    def without_replaced(self, urls: Sequence[LeasedURL], dust: Dust) -> Sequence[LeasedURL]:
        """Settles those of new URLs instead of which a simpler one is queued; returns the others."""
        if self.lease.host not in dust.active:
            return urls
        kept: list[LeasedURL] = []
        for url in urls:
            if (after := dust.replace(url)) is None:
                kept.append(url)
            else:
                self.settled.append(Settled(Settlement(url.index), after))
        return kept

    def reconsider(self, patterns: Patterns, dust: Dust) -> None:
        """Settles the URLs not handed out whose pattern has sunk, or that are replaced, since they were leased."""
        kept = self.without_sunk(self.without_replaced(self.urls, dust), patterns)
        if len(kept) < len(self.urls):
            self.unsettled -= len(self.urls) - len(kept)
            self.urls = deque(kept)
            self.drained = False

    def report(self, sent: int) -> Report:
        """The settled URLs whose links are among the first `sent` discovered URLs, which the engine has."""
        ready = list(itertools.takewhile(lambda one: one.after <= sent, self.settled))
        return Report(self.lease, tuple(one.settlement for one in ready))


class LeasedHosts:
    """Hands out URLs in the order in which their hosts are due. `wake` is called when that order changes.

    Each leased host is open in `turns`.
    """

    def __init__(
        self,
        turns: Turns,
        wake: Callable[[], None],
        patterns: Patterns,
        dust: Dust,
        budgets: Budgets | None,
        observed: Observations | None = None,
    ) -> None:
        self.report: Callable[[str], None] = lambda _: None
        """Called with a host that is to be released because it is over a budget."""
        self.budgets = budgets
        self._turns = turns
        self.patterns, self.dust = patterns, dust
        self._wake = wake
        self._lost: list[str] = []
        self._hosts: dict[str, LeasedHost] = {}
        self._due: list[tuple[float, int, str]] = []
        self._order = itertools.count()
        self.observed = observed

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
        turn = self._turns.places.open(
            lease.host,
            failures=lease.failures,
            delay=lease.delay,
            valid_until=until,
            answered=lease.answered,
            gap=lease.gap,
        )
        host = LeasedHost(lease, turn, self._turns.config_of(lease.host).concurrency)
        if self.observed is not None:
            host.arrivals = Arrivals(self.observed)
        self._hosts[lease.host] = host
        self.patterns.open(lease.host, lease.patterns)
        self.dust.open(lease.host, lease.dust, lease.dust_off)
        self.add_urls(host, lease.urls)

    def extend(self, lease: Lease, until: float) -> bool:
        """Extends a lease; returns True if an operator has changed the host's delay."""
        self._turns.places.extend(lease.host, until)
        return self._turns.set_delay(lease.host, lease.delay)

    def add_urls(self, host: LeasedHost, urls: Sequence[LeasedURL]) -> None:
        """Adds URLs, sorted by level, behind those of the same level.

        Those whose pattern has sunk, and those that are replaced by simpler ones, are settled.
        """
        urls = host.without_sunk(host.without_replaced(urls, self.dust), self.patterns)
        overtaken = bool(urls and host.urls and urls[0].level < host.urls[-1].level)
        host.urls.extend(urls)
        if host.arrivals is not None:
            host.arrivals.add(urls)
        if overtaken:
            host.urls = deque(sorted(host.urls, key=lambda url: url.level))
        host.unsettled += len(urls)
        self._schedule(host)

    def drop(self, name: str) -> None:
        """Removes a host that was released."""
        if (arrivals := self._hosts.pop(name).arrivals) is not None:
            arrivals.close()
        self._turns.places.close(name)
        self.patterns.close(name)
        self.dust.close(name)

    def lose(self, name: str) -> None:
        """Removes a host whose lease was lost."""
        self._lost.append(name)
        self.drop(name)

    def take_lost(self) -> list[str]:
        """Returns the hosts whose leases were lost since the last call."""
        lost, self._lost = self._lost, []
        return lost

    def next(self, now: float, allowed: Callable[[], bool]) -> LeasedURL | None:
        """Returns a URL whose host may be asked at the monotonic time `now`, or None.

        `allowed` is called before a URL is handed out, and may prevent it.
        """
        while self._due and self._due[0][0] <= now:
            _, _, name = heapq.heappop(self._due)
            host = self._hosts.get(name)
            if host is None or not host.may_start:
                continue
            if not host.turn.may_start(now):
                self._schedule(host)
                continue
            if self.budgets and self.budgets.sinks(host.lease):
                host.leaving = True
                self.report(name)
                continue
            if not allowed():
                heapq.heappush(self._due, (now, next(self._order), name))
                return None
            host.in_flight += 1
            url = host.urls.popleft()
            if host.arrivals is not None:
                host.arrivals.hand_out(url, now)
            self._schedule(host)
            return url
        return None

    def next_at(self) -> float:
        """Returns the monotonic time at which `next` may have a URL; infinite when nothing is scheduled."""
        return self._due[0][0] if self._due else math.inf

    def due(self, seconds: float) -> int:
        """Returns how many URLs may be handed out within so many seconds, before any fetch ends."""
        until = time.monotonic() + seconds
        return sum(
            min(len(host.urls), host.concurrency - host.in_flight)
            for host in self
            if host.urls and not host.leaving and host.turn.ready_at <= until
        )

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
                # another request to the host is in flight, such as its robots.txt, and its end is not announced
                due = time.monotonic() + _LOOK_AGAIN_SECONDS
            heapq.heappush(self._due, (due, next(self._order), host.lease.host))
            self._wake()
