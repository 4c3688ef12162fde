"""The domains whose nameservers do not answer."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

_FAILURES = 5
"""After so many failed questions in a row, the nameservers of a domain count as dead."""
_FIRST_PAUSE, _LONGEST_PAUSE = 5.0, 60.0
"""How long these are not asked, in seconds; RFC 2308 section 7.2 allows five minutes."""
_MOST_DOMAINS = 10_000


@dataclass(slots=True)
class _Silence:
    failures: int = 0
    pause: float = _FIRST_PAUSE
    until: float = 0.0


class SilentDomains:
    """Tells for which registered domains no question is worth its time (RFC 2308 section 7.2).

    After a pause questions are asked again. If they fail, the next pause is twice as long. Any answer, also that a name
    does not exist, ends it. `clock` returns seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._domains: OrderedDict[str, _Silence] = OrderedDict()

    def until(self, domain: str) -> float:
        """Returns the time until which a domain is not worth a question; 0 if it is."""
        silence = self._domains.get(domain)
        return silence.until if silence is not None and self._clock() < silence.until else 0.0

    def note(self, domain: str, *, answered: bool) -> None:
        """Records the outcome of a question."""
        if answered:
            self._domains.pop(domain, None)
            return
        silence = self._domains.setdefault(domain, _Silence())
        self._domains.move_to_end(domain)
        if len(self._domains) > _MOST_DOMAINS:
            self._domains.popitem(last=False)
        silence.failures += 1
        if silence.failures >= _FAILURES and not self.until(domain):
            silence.until = self._clock() + silence.pause
            silence.pause = min(2 * silence.pause, _LONGEST_PAUSE)
