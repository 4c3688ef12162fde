"""The hosts that a worker has leased: what is still to be fetched of each, and whose turn it is."""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from webcrawl.frontier import Lease, LeasedURL, Report, Settlement
from webcrawl.hosts.politeness import HostTurn
from webcrawl.hosts.turns import Turns

_LOOK_AGAIN_SECONDS = 0.05


class Settled(NamedTuple):
    """What became of a URL, and when that may be told."""

    settlement: Settlement
    after: int = 0
    """So many of the URLs that this worker found have to be on the server first: its links are among them."""


@dataclass(slots=True)
class LeasedHost:
    """A leased host: URLs not handed out yet, how many are in the air, what can be reported."""

    lease: Lease
    turn: HostTurn
    concurrency: int
    urls: deque[LeasedURL] = field(default_factory=deque)
    in_air: int = 0
    unsettled: int = 0
    """URLs not settled yet, those in `urls` among them."""
    settled: list[Settled] = field(default_factory=list)
    """Not reported yet, in their order."""
    drained: bool = False
    """The server had no further URLs when last asked."""
    leaving: bool = False
    """Nothing more is handed out: it is to be given back as soon as nothing of it is in the air."""

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

    def report(self, sent: int) -> Report:
        """The settled URLs whose links are among the first `sent` discovered URLs, which the engine has."""
        ready = list(itertools.takewhile(lambda one: one.after <= sent, self.settled))
        return Report(self.lease, tuple(one.settlement for one in ready))


class LeasedHosts:
    """Hands out URLs in the order in which their hosts may be asked. `wake` is called when that order changes.

    Each host has a place among the `turns` for as long as it is leased.
    """

    def __init__(self, turns: Turns, wake: Callable[[], None]) -> None:
        self._turns = turns
        self._wake = wake
        self._lost: list[str] = []
        self._hosts: dict[str, LeasedHost] = {}
        self._due: list[tuple[float, int, str]] = []
        self._order = itertools.count()

    def __len__(self) -> int:
        return len(self._hosts)

    def __iter__(self) -> Iterator[LeasedHost]:
        return iter(self._hosts.values())

    def __getitem__(self, name: str) -> LeasedHost:
        return self._hosts[name]

    def __contains__(self, name: str) -> bool:
        return name in self._hosts

    def of(self, name: str, token: int) -> LeasedHost | None:
        """The host, if it is still leased under this token."""
        host = self._hosts.get(name)
        return host if host is not None and host.lease.token == token else None

    def token(self, name: str) -> int:
        """The fencing token of a host's lease; -1 when there is none."""
        host = self._hosts.get(name)
        return host.lease.token if host else -1

    def open(self, lease: Lease, until: float) -> None:
        """A host was leased, until this monotonic time at least: hand out the URLs of its lease."""
        turn = self._turns.open(lease.host, failures=lease.failures, delay=lease.delay, valid_until=until)
        host = LeasedHost(lease, turn, self._turns.config_of(lease.host).concurrency)
        self._hosts[lease.host] = host
        self.add_urls(host, lease.urls)

    def extend(self, lease: Lease, until: float) -> bool:
        """A lease lasts longer than was known; True when an operator has set another delay for the host."""
        self._turns.extend(lease.host, until)
        return self._turns.set_delay(lease.host, lease.delay)

    def add_urls(self, host: LeasedHost, urls: Sequence[LeasedURL]) -> None:
        host.urls.extend(urls)
        host.unsettled += len(urls)
        self._schedule(host)

    def drop(self, name: str) -> None:
        """The host is no longer leased."""
        del self._hosts[name]
        self._turns.close(name)

    def lose(self, name: str) -> None:
        """The host is no longer leased, and not because it was given back."""
        self._lost.append(name)
        self.drop(name)

    def take_lost(self) -> list[str]:
        """The names of those that were lost since last asked."""
        lost, self._lost = self._lost, []
        return lost

    def next(self, now: float, allowed: Callable[[], bool]) -> LeasedURL | None:
        """A URL whose host may be asked at the monotonic time `now`, if one more is `allowed`, or None."""
        while self._due and self._due[0][0] <= now:
            _, _, name = heapq.heappop(self._due)
            host = self._hosts.get(name)
            if host is None or not host.urls or host.in_air >= host.concurrency or host.leaving:
                continue
            if not host.turn.may_start(now):
                self._schedule(host)
                continue
            if not allowed():
                heapq.heappush(self._due, (now, next(self._order), name))
                return None
            host.in_air += 1
            url = host.urls.popleft()
            self._schedule(host)
            return url
        return None

    def next_at(self) -> float:
        """The monotonic time at which `next` may have something; infinite when nothing is scheduled."""
        return self._due[0][0] if self._due else math.inf

    def finish_fetch(self, host: LeasedHost) -> None:
        """A fetch is over, well or not."""
        host.in_air -= 1
        self._schedule(host)

    def reschedule(self, name: str) -> None:
        """The host, if it is leased, may be asked at another time than was thought."""
        if host := self._hosts.get(name):
            self._schedule(host)

    def _schedule(self, host: LeasedHost) -> None:
        if host.urls and host.in_air < host.concurrency and not host.leaving:
            due = host.turn.ready_at
            if math.isinf(due):
                # something else of the host is on its way, such as its robots.txt: nobody tells when it lands
                due = time.monotonic() + _LOOK_AGAIN_SECONDS
            heapq.heappush(self._due, (due, next(self._order), host.lease.host))
            self._wake()
