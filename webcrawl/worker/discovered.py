"""The URLs that a worker discovered, on their way to the engine."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from webcrawl.frontier import Candidate, Frontier
from webcrawl.frontier.bloom import BloomSeen
from webcrawl.frontier.recent import Recent
from webcrawl.hosts.duty_cycle import DutyCycle
from webcrawl.worker.engine_restarts import EngineRestarts

_BATCH = 1000
_MOST_SECONDS = 0.1
_LINKS_SHARE = 0.2
"""The share of the time in which links of pages with many of them are added."""


class Discovered:
    """Sends discovered URLs to the frontier: each one once, in order, in batches."""

    def __init__(
        self,
        frontier: Frontier,
        restarts: EngineRestarts,
        bloom: BloomSeen | None,
        counters: Counter[str],
    ) -> None:
        self.recent = Recent()
        self.turn = DutyCycle(_LINKS_SHARE).turn
        """Held by the page that adds a batch of many links."""
        self.sent = 0
        """Number of discovered URLs that the engine has."""
        self.sent_at = time.monotonic()
        """When it got the last ones."""
        self._frontier = frontier
        self._restarts = restarts
        self._bloom = bloom
        self._counters = counters
        self._waiting: list[Candidate] = []

    def __len__(self) -> int:
        """Number of URLs that the engine does not have yet."""
        return len(self._waiting)

    @property
    def total(self) -> int:
        """Number of URLs discovered so far."""
        return self.sent + len(self._waiting)

    def unknown(self, links: Sequence[str]) -> list[str]:
        """Returns the links, as written in pages, that this worker has not added recently."""
        found = self.recent.links.absent(links)
        self._counters["cache_hits"] += len(links) - len(found)
        return found

    def add(self, candidate: Candidate) -> bool:
        """Queues a URL to be sent; returns False if this worker added it recently."""
        if candidate.fingerprint is not None:
            if not self.recent.fingerprints.add(candidate.fingerprint) and not candidate.anyway:
                self._counters["cache_hits"] += 1
                return False
            if self._bloom is not None:
                if self._bloom.add(candidate.fingerprint):
                    self._counters["bloom_seen"] += 1
                elif not candidate.anyway:
                    self._counters["known"] += 1
                    return False
                candidate = replace(candidate, fingerprint=None)
        self._waiting.append(candidate)
        return True

    async def send(self, between: Callable[[], Awaitable[None]]) -> bool:
        """Sends the URLs discovered so far; returns True if any was new to the engine.

        URLs discovered meanwhile wait for the next call, as do the rest after _MOST_SECONDS, so that a busy worker gets
        to report. `between` is awaited after each batch.
        """
        end, new, until = self.total, 0, time.monotonic() + _MOST_SECONDS
        while self.sent < end:
            batch = self._waiting[: min(_BATCH, end - self.sent)]
            verdicts = await self._frontier.add(batch)
            del self._waiting[: len(batch)]
            self._restarts.record(batch)
            self.sent += len(batch)
            self.sent_at = time.monotonic()
            new += sum(verdicts)
            self._counters["discovered"] += sum(verdicts)
            self._counters["known"] += len(verdicts) - sum(verdicts)
            await between()
            if time.monotonic() > until:
                break
        if self._bloom is not None and not self._waiting:
            await self._bloom.checkpoint()
        return bool(new)

    def doubt(self, *, reload: bool) -> None:
        """Forgets which URLs were added recently, because the engine may have lost its last writes.

        `reload` returns to the last checkpoint of the Bloom filter.
        """
        self.recent.clear()
        if self._bloom is not None and reload:
            self._bloom.reload()

    def resend(self) -> None:
        """Queues the URLs that a restarted engine may have lost."""
        lost = self._restarts.take_recent()
        self._waiting[:0] = lost
        self.sent -= len(lost)

    def save(self) -> None:
        """Saves the Bloom filter when the worker closes."""
        if self._bloom is not None:
            self._bloom.save()
