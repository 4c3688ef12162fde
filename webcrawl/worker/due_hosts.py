"""The order in which leased hosts are due, and how late they are asked."""

from __future__ import annotations

import heapq
import itertools
import math
import time

from webcrawl.policies.traffic import Traffic
from webcrawl.worker.leased_host import LeasedHost

_LATE_REQUESTS, _LATE_SECONDS = 64, 2.0
"""The lateness of hosts is the mean of about so many requests, and 0 without a request for some seconds."""


class Lateness:
    """By which share of their gap hosts were asked later than they could have been: the mean of the last requests.

    Each request counts as a full gap at most, so that a pause of the whole process does not outweigh the others.
    """

    def __init__(self) -> None:
        self._share = 0.0
        self._at = -math.inf

    def note(self, late: float, gap: float) -> None:
        """Notes a request that was `late` seconds late, to a host with a gap; requests without a gap do not count."""
        if gap > 0:
            self._share += (min(max(late / gap, 0.0), 1.0) - self._share) / _LATE_REQUESTS
            self._at = time.monotonic()

    def share(self, now: float) -> float:
        """Returns the mean at the monotonic time `now`; 0 if the last request was long ago."""
        return self._share if now - self._at < _LATE_SECONDS else 0.0


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

    def take(self, now: float) -> tuple[float, str, str] | None:
        """Removes and returns a host that is due, or None.

        Returns when it was due, the host, and the class of its next fetch ("" without `traffic`).
        """
        due = [key for key, heap in self._heaps.items() if self._is_due(heap, now)]
        if not due:
            return None
        if self._traffic is not None and len(due) > 1:
            shares = {site: self._traffic.of_site(site) for site, _ in due}
            due.sort(key=lambda key: shares[key[0]].passed(key[1]))
            first = {key[0]: key for key in reversed(due)}
            due = sorted(first.values(), key=lambda key: self._heaps[key][0])
        at, _, name = heapq.heappop(self._heaps[due[0]])
        self._latest.pop(name, None)
        return at, name, due[0][1]

    def _is_due(self, heap: list[tuple[float, int, str]], now: float) -> bool:
        """Whether the first host of a heap is due, after removing the entries before it that do not count."""
        if self._traffic is not None:
            while heap and heap[0][0] <= now and self._latest.get(heap[0][2]) != heap[0][1]:
                heapq.heappop(heap)
        return bool(heap) and heap[0][0] <= now

    def next_at(self) -> float:
        """Returns the monotonic time at which the next host is due; infinite without hosts."""
        return min((heap[0][0] for heap in self._heaps.values() if heap), default=math.inf)
