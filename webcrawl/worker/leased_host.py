"""A host that a worker has leased: its URLs, and what became of them."""

from __future__ import annotations

import itertools
import math
import time
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from webcrawl.frontier import Lease, LeasedURL, LeaseReport, Settlement
from webcrawl.hosts.politeness import HostTurn
from webcrawl.metrics.observations import Observations
from webcrawl.worker.link_intake import LinkIntake

_RANK = attrgetter("rank")

SLICE_URLS, SLICE_SECONDS = 10, 30.0
"""A host keeps its place for so many URLs, but no longer than these seconds, although other hosts wait for it."""


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
    let_go: bool = False
    """The engine has released the host; its lease is only for the URLs that are not settled."""
    resumes: float = 0.0
    """Monotonic time before which no worker is to ask the host again, besides its politeness."""
    arrivals: Arrivals | None = None
    """When its URLs were leased; None without METRICS_PORT and TRACES."""
    adding: int = 0
    """Pages whose many links are being added; no URLs are handed out meanwhile."""
    passed: int = 0
    """URLs that were handed out before links that had waited for longer."""
    opened: float = field(default_factory=time.monotonic)
    """Monotonic time of its lease."""
    handed: int = 0
    """URLs that were handed out."""
    due: float = math.inf
    """Monotonic time at which the last of them could have been asked for."""

    @property
    def classes(self) -> set[str]:
        """The classes of its URLs that were not handed out."""
        return {url.fetch_class for url in self.urls}

    @property
    def may_start(self) -> bool:
        """Whether a URL may be handed out, apart from the host's turn."""
        busy = self.in_flight >= self.concurrency or self.adding
        return bool(self.urls) and not (busy or self.leaving)

    def slice_over(self, now: float) -> bool:
        """Whether the host has had its slice of the worker's time, and gives its place to a host that waits."""
        return self.handed >= SLICE_URLS or now - self.opened >= SLICE_SECONDS

    def take(self, low_share: float) -> LeasedURL:
        """Removes and returns the next URL: the best, or in a share of cases the first of the links that it has passed.

        Links of a lower level would otherwise wait here for as long as each page links to a better one.
        """
        best = self.urls[0]
        if min(map(_RANK, self.urls)) < best.rank:
            self.passed = 0  # the engine has put it before better ones: this is the share of lower levels
        elif self.urls[-1].rank > best.rank and best.is_link:
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

    def let_go_of(self, indexes: Collection[int]) -> None:
        """Notes that the engine has released the host, and has these URLs back, which were not handed out."""
        kept = deque(url for url in self.urls if url.index not in indexes)
        self.unsettled -= len(self.urls) - len(kept)
        self.urls, self.let_go = kept, True

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
