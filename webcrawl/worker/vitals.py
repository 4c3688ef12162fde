"""Tells the engine how a worker is doing, and writes the history of its crawl."""

from __future__ import annotations

import math
import resource
import sys
import time
from collections import deque
from contextlib import suppress
from heapq import nlargest
from pathlib import Path

from webcrawl.errors import EngineUnavailable
from webcrawl.frontier.figures import figures
from webcrawl.frontier.history import SAMPLE_SECONDS, History
from webcrawl.frontier.vitals import AllVitals, Vitals
from webcrawl.worker.state import WorkerState

_SPEED_BEATS = 15
_MOST_HOSTS = 10
_PROCESSED_SECONDS, _MOST_PROCESSED = 2.0, 1_000
"""Pages that are processed for so long are told, the oldest ones."""
_STATM = Path("/proc/self/statm")


class VitalsReports:
    """Sends the vitals of one worker with each heartbeat. One worker of the crawl also takes samples."""

    def __init__(self, state: WorkerState) -> None:
        self._state = state
        self._all = AllVitals(state.crawl.engine, state.crawl.keys)
        self._history = History(state.crawl.engine, state.crawl.keys)
        self._started = time.time()
        self._pages: deque[tuple[float, int]] = deque([(time.monotonic(), 0)], maxlen=_SPEED_BEATS)
        self._sampled = -math.inf

    async def send(self, seconds: float) -> None:
        """Stores the vitals for so many seconds, and takes a sample if one is due."""
        crawl, peers = self._state.crawl, self._state.membership.peers
        with suppress(EngineUnavailable):  # a full engine refuses what is only shown
            await self._all.put(crawl.worker, self._vitals(), seconds)
        if crawl.worker == min(peers) and time.monotonic() - self._sampled >= SAMPLE_SECONDS:
            await self.sample()

    async def sample(self) -> None:
        """Adds the figures of now to the history of the crawl."""
        self._sampled = time.monotonic()
        await self._history.add(await figures(self._state.frontier, self._state.crawl))

    def _vitals(self) -> Vitals:
        hosts, pages = list(self._state.hosts), self._state.pages
        self._pages.append((now := time.monotonic(), pages))
        since, before = self._pages[0]
        slowest = nlargest(_MOST_HOSTS, hosts, key=lambda host: host.turn.latency)
        busiest = nlargest(_MOST_HOSTS, hosts, key=lambda host: host.turn.in_flight)
        waiting = nlargest(_MOST_HOSTS, hosts, key=lambda host: host.turn.wait(now))
        return Vitals(
            self._started,
            memory_bytes(),
            len(hosts),
            sum(len(host.urls) for host in hosts),
            sum(host.turn.in_flight for host in hosts),
            max(0, sum(host.unsettled - len(host.urls) - host.in_flight for host in hosts)),
            pages,
            (pages - before) / (now - since) if now > since else 0.0,
            [(host.lease.host, host.turn.latency) for host in slowest if host.turn.latency],
            {host.lease.host: host.turn.pace(now) for host in (*slowest, *busiest, *waiting)},
            self._processing(now),
        )

    def _processing(self, now: float) -> list[tuple[str, float]]:
        """The pages that are processed for long, with the time since 1970 at which they were fetched."""
        found = self._state.processing(now - _PROCESSED_SECONDS)[:_MOST_PROCESSED]
        offset = time.time() - now
        return [(url, fetched + offset) for url, fetched in found]


def memory_bytes() -> int:
    """The memory that this process has resident; where the system does not tell it, the most it ever had."""
    try:
        return int(_STATM.read_text().split()[1]) * resource.getpagesize()
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
