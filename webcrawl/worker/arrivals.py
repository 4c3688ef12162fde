"""How long the URLs of a leased host wait in the worker; observed only for metrics."""

from __future__ import annotations

import time
from collections.abc import Iterable

from webcrawl.frontier import LeasedURL
from webcrawl.metrics.observations import Histogram


class Arrivals:
    """When the URLs of one lease came to this worker. Their waits go to `waits` when they are handed out."""

    def __init__(self, waits: Histogram) -> None:
        self.opened = time.monotonic()
        """When the host was leased."""
        self._waits = waits
        self._at: dict[int, float] = {}

    def add(self, urls: Iterable[LeasedURL]) -> None:
        """Notes that these URLs were leased now."""
        now = time.monotonic()
        self._at.update((url.index, now) for url in urls)

    def hand_out(self, url: LeasedURL, now: float) -> None:
        """Observes the wait of a URL; one that was put back has waited for nothing since."""
        if (at := self._at.pop(url.index, None)) is not None:
            self._waits.observe(now - at)
