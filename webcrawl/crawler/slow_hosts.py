"""The hosts that hold a crawl up: those with most time left, at the pace at which they may be asked and answer."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from webcrawl.crawler.ending import about
from webcrawl.frontier import Frontier
from webcrawl.worker.stages import LeasedHostState, Stage

_ASKED = 16
"""Hosts whose queues are looked up at a time."""
_KEPT = 3
_LEAST_SECONDS = 60.0
"""A host that takes less is not shown."""
_LEAST_SHARE = 0.5
"""A host is shown if it takes this share of the slowest one's time."""


@dataclass(frozen=True, slots=True)
class SlowHost:
    """A host with `urls` to fetch, one each `gap` seconds at most."""

    host: str
    urls: int
    gap: float

    @property
    def seconds(self) -> float:
        """The time that its URLs take at least."""
        return self.urls * self.gap


class SlowHosts:
    """Finds the slowest hosts that this worker has leased: each look compares a few more with the slowest so far."""

    def __init__(self) -> None:
        self._slowest: list[SlowHost] = []
        self._from = 0

    async def look(self, frontier: Frontier, states: Sequence[LeasedHostState]) -> list[SlowHost]:
        """Returns the hosts to show, the slowest first; raises UNAVAILABLE."""
        before = {one.host for one in self._slowest}
        asked = [one for one in states if one.host in before] + self._next(states)
        gone = [LeasedHostState(one.host, Stage.DUE, one.gap, 0, has_more=True) for one in self._slowest]
        known = {one.host: one for one in gone + asked}
        queued = await frontier.queue_lengths(list(known))
        found = [SlowHost(one.host, one.urls + queued[one.host], one.gap) for one in known.values()]
        self._slowest = heapq.nlargest(_KEPT, found, key=lambda one: one.seconds)
        return shown(self._slowest)

    def _next(self, states: Sequence[LeasedHostState]) -> list[LeasedHostState]:
        """The next few hosts of which the engine may have more URLs."""
        more = [one for one in states if one.has_more and one.gap > 0]
        first = self._from % max(1, len(more))
        self._from = first + _ASKED
        return (more[first:] + more[:first])[:_ASKED]


def shown(slowest: Sequence[SlowHost]) -> list[SlowHost]:
    """Returns those of the slowest hosts, in order, that take long and not much less than the first one."""
    least = max(_LEAST_SECONDS, _LEAST_SHARE * max((one.seconds for one in slowest), default=0.0))
    return [one for one in slowest if one.seconds >= least]


def hosts_line(hosts: Sequence[SlowHost]) -> str:
    """The hosts in words: "held up by http://a.example (1,200 URLs, 10 s apart: about 3 h), ..."."""
    return "held up by " + ", ".join(
        f"{one.host} ({one.urls:,} URLs, {one.gap:.3g} s apart: {about(one.seconds)})" for one in hosts
    )
