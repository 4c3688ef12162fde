"""The hosts that a worker has leased, their URLs, and the order in which they are due."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

from webcrawl.frontier import Lease, LeasedURL
from webcrawl.hosts.turns import Turns
from webcrawl.metrics.observations import Observations
from webcrawl.policies.traffic import Traffic
from webcrawl.worker.due_hosts import DueHosts, Lateness
from webcrawl.worker.leased_host import SLICE_URLS, Arrivals, LeasedHost
from webcrawl.worker.link_intake import LinkIntake

_LOOK_AGAIN_SECONDS = 0.05


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
        self.handed_over: set[str] = set()
        """Hosts that the engine has released before all their URLs were settled."""
        self._turns = turns
        self._intake = intake
        self._wake = wake
        self._changed = changed or asyncio.Event()
        self._observed, self._traffic, self._low_share = observed, traffic, low_share
        self._hosts: dict[str, LeasedHost] = {}
        self._due = DueHosts(traffic)
        self.lateness = Lateness()
        self._begun: dict[str, LeasedHost] = {}
        """The hosts that were new when they were leased, and whose slice is not over, in the order of their leases."""

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

    def may_ask(self, name: str, token: int) -> bool:
        """Whether requests to a host may be sent under this token: it is leased, and was not handed over."""
        host = self.of(name, token)
        return host is not None and not host.let_go

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
        if not lease.answered:
            self._begun[lease.host] = host
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
        self._begun.pop(name, None)
        self.handed_over.discard(name)
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

    def hand_over(self, name: str, back: Collection[int]) -> None:
        """Closes a host that the engine has released apart from its lease; it has the URLs `back`, by index."""
        self._hosts[name].let_go_of(back)
        self.handed_over.add(name)
        self._turns.host_slots.close(name)
        self.report(name)

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
            at, name, fetch_class = due
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
                self._due.add(at, host)
                return None
            host.in_flight += 1
            host.due = at if host.handed else math.inf  # the first request waits for robots.txt
            host.handed += 1
            if host.handed == SLICE_URLS:
                self._begun.pop(name, None)
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

    def begun(self, now: float) -> int:
        """Returns how many leased hosts were new when they were leased, and have not had their slice."""
        while self._begun and (first := next(iter(self._begun.values()))).slice_over(now):
            del self._begun[first.lease.host]
        return len(self._begun)

    def next_at(self) -> float:
        """Returns the monotonic time at which `next` may have a URL; infinite when nothing is scheduled."""
        return self._due.next_at()

    def due(self, seconds: float) -> int:
        """Returns how many URLs may be handed out within `seconds`, before any fetch ends."""
        due = self._due_hosts(time.monotonic() + seconds)
        return sum(min(len(host.urls), host.concurrency - host.in_flight) for host in due)

    def unasked(self) -> list[str]:
        """Returns the hosts that may be asked now."""
        due = self._due_hosts(time.monotonic())
        return [host.lease.host for host in due if host.in_flight < host.concurrency]

    def _due_hosts(self, until: float) -> Iterator[LeasedHost]:
        return (host for host in self if host.urls and not host.leaving and host.turn.ready_at <= until)

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
        if host.turn.started >= host.due:  # it was asked
            self.lateness.note(host.turn.started - host.due, host.turn.gap)
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
            due, now = host.turn.ready_at, time.monotonic()
            if math.isinf(due):
                # another request to the host is in flight, as for its robots.txt, and nothing announces its end
                due = now + _LOOK_AGAIN_SECONDS
            self._due.add(max(due, now), host)
            self._wake()
