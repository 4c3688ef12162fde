"""The domains whose nameservers do not answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cachetools import FIFOCache

_FAILURES = 5
"""After so many failed questions in a row, the nameservers of a domain count as dead."""
_FIRST_PAUSE, _LONGEST_PAUSE = 5.0, 60.0
"""How long dead nameservers are not asked, in seconds; RFC 2308 section 7.2 allows five minutes."""
_MOST_DOMAINS = 10_000


@dataclass(slots=True)
class _Silence:
    failures: int = 0
    pause: float = _FIRST_PAUSE
    until: float = 0.0


class SilentDomains:
    """Tells for which registered domains no question is worth its time (RFC 2308 section 7.2).

    After a pause questions are asked again. If they fail, the next pause is twice as long. Any answer ends
    it, also the answer that a name does not exist. `clock` returns seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._domains: FIFOCache[str, _Silence] = FIFOCache(_MOST_DOMAINS)

    def until(self, domain: str) -> float:
        """Returns the time until which a domain is not worth a question; 0 if it is."""
        silence = self._domains.get(domain)
        return silence.until if silence is not None and self._clock() < silence.until else 0.0

    def note(self, domain: str, *, answered: bool) -> None:
        """Records the outcome of a question."""
        if answered:
            self._domains.pop(domain, None)
            return
        # set again, so that the domain that failed last is forgotten last
        self._domains[domain] = silence = self._domains.get(domain) or _Silence()
        silence.failures += 1
        if silence.failures >= _FAILURES and not self.until(domain):
            silence.until = self._clock() + silence.pause
            silence.pause = min(2 * silence.pause, _LONGEST_PAUSE)
