"""How long the URLs of a leased host wait in the worker, and for their acknowledgement; only for metrics and traces."""

from __future__ import annotations

import time
from collections.abc import Iterable

from webcrawl.frontier import LeasedURL, Settlement
from webcrawl.metrics.observations import Observations


class Arrivals:
    """When the URLs of one lease came to this worker. Their waits are observed when they are handed out."""

    def __init__(self, observed: Observations) -> None:
        self.opened = time.monotonic()
        """When the host was leased."""
        self._observed = observed
        self._at: dict[int, float] = {}
        self._handed: dict[int, str] = {}
        """The URLs that were handed out and are not acknowledged."""

    def add(self, urls: Iterable[LeasedURL]) -> None:
        """Notes that these URLs were leased now."""
        now = time.monotonic()
        self._at.update((url.index, now) for url in urls)

    def hand_out(self, url: LeasedURL, now: float) -> None:
        """Observes the waits of a URL; one that was put back has waited for nothing since."""
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
        """Ends the ways of URLs that this worker did not finish: its lease was lost, or they were given back."""
        if self._observed.traces is not None:
            for url in self._handed.values():
                self._observed.traces.end(url, time.monotonic())
