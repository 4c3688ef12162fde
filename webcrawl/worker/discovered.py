"""The URLs that a worker has found, on their way to the server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace

from webcrawl.frontier import Candidate, Frontier
from webcrawl.frontier.bloom import BloomSeen
from webcrawl.frontier.recent import Recent
from webcrawl.worker.engine_restarts import EngineRestarts

_FLUSH_AT = 2000


class Discovered:
    """Gives each URL to the frontier once, in the order in which they were found, and in batches.

    `count` is told increments of the crawl's totals.
    """

    def __init__(
        self,
        frontier: Frontier,
        restarts: EngineRestarts,
        bloom: BloomSeen | None,
        counters: Counter[str],
    ) -> None:
        self.recent = Recent()
        self.sent = 0
        """URLs that the server has: all that were found when `total` was as large."""
        self._frontier = frontier
        self._restarts = restarts
        self._bloom = bloom
        self._counters = counters
        self._waiting: list[Candidate] = []

    def __len__(self) -> int:
        """URLs that the server does not have yet."""
        return len(self._waiting)

    @property
    def total(self) -> int:
        """URLs found so far."""
        return self.sent + len(self._waiting)

    def add(self, candidate: Candidate) -> bool:
        """Give a URL to the frontier, unless this worker did so lately; False when it did."""
        if candidate.fingerprint is not None:
            if not self.recent.fingerprints.add(candidate.fingerprint) and not candidate.anyway:
                return False
            if self._bloom is not None:
                if self._bloom.add(candidate.fingerprint):
                    self._counters["bloom_seen"] += 1
                elif not candidate.anyway:
                    return False
                candidate = replace(candidate, fingerprint=None)
        self._waiting.append(candidate)
        return True

    async def send(self, between: Callable[[], Awaitable[None]]) -> bool:
        """Send what has been found by now, not what is found meanwhile: a busy worker would never come to report.

        Waits for `between` after each batch; True when something was new to the server.
        """
        end, new = self.total, 0
        while self.sent < end:
            batch = self._waiting[: min(_FLUSH_AT, end - self.sent)]
            verdicts = await self._frontier.add(batch)
            del self._waiting[: len(batch)]
            self._restarts.taken(batch)
            self.sent += len(batch)
            new += sum(verdicts)
            self._counters["discovered"] += sum(verdicts)
            self._counters["known"] += len(verdicts) - sum(verdicts)
            await between()
        if self._bloom is not None and not self._waiting:
            await self._bloom.checkpoint()
        return bool(new)

    def doubt(self, *, reload: bool) -> None:
        """The engine may come back without its last moments: what we believe it has seen, it may have to see again.

        `reload`: go back to the Bloom filter's last checkpoint.
        """
        self.recent.clear()
        if self._bloom is not None and reload:
            self._bloom.reload()

    def resend(self) -> None:
        """The engine was started again: what it took in its last moments is sent again."""
        forgotten = self._restarts.forgotten()
        self._waiting[:0] = forgotten
        self.sent -= len(forgotten)

    def save(self) -> None:
        """The worker ends: keep what is kept in this process."""
        if self._bloom is not None:
            self._bloom.save()
