"""Limits the questions to nameservers: which names come first when many wait, and which domains are not asked."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from cachetools import FIFOCache

from webcrawl.hosts.costs import Costs

_FAILURES = 5
"""Failed questions in a row after which the nameservers of a domain count as dead."""
_FIRST_PAUSE, _LONGEST_PAUSE = 5.0, 60.0
"""How long dead nameservers are not asked, in seconds; RFC 2308 section 7.2 allows five minutes."""
_MOST_DOMAINS = 10_000


class Questions:
    """Lets at most `most` questions to nameservers be in flight.

    A registered domain has at most a quarter of the questions, so that its nameservers cannot hold up all others.
    Waiting domains take turns. A quarter is kept for names that had an answer before, which never wait for others.
    """

    def __init__(self, most: int, costs: Costs) -> None:
        self.costs = costs
        """Counts the questions that wait because their domain has used up its share."""
        self._most = most
        self._most_new = most - most // 4
        self._most_of_domain = max(1, most // 4)
        self._in_flight = 0
        self._new = 0
        self._of_domain: Counter[str] = Counter()
        self._known_waiting: deque[asyncio.Future[None]] = deque()
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        """Domain -> its waiting questions; the domain whose turn is next comes first."""

    @asynccontextmanager
    async def turn(self, domain: str, *, known: bool) -> AsyncIterator[None]:
        """Waits until a question for a name of a domain may be sent. `known`: the name had an answer before."""
        admitted = asyncio.get_running_loop().create_future()
        queue = self._known_waiting if known else self._waiting.setdefault(domain, deque())
        queue.append(admitted)
        self._admit()
        if not (known or admitted.done()) and self._of_domain[domain] >= self._most_of_domain:
            self.costs.of(domain).waits += 1
        try:
            await admitted
        except asyncio.CancelledError:
            if admitted.done() and not admitted.cancelled():
                self._leave(domain, known=known)
            raise
        try:
            yield
        finally:
            self._leave(domain, known=known)

    def _leave(self, domain: str, *, known: bool) -> None:
        self._in_flight -= 1
        if not known:
            self._new -= 1
            self._of_domain[domain] -= 1
            if not self._of_domain[domain]:
                del self._of_domain[domain]
        self._admit()

    def _admit(self) -> None:
        """Lets waiting questions go ahead, as far as the limits allow."""
        while self._in_flight < self._most and self._known_waiting:
            self._in_flight += _let_go(self._known_waiting.popleft())
        while self._in_flight < self._most and self._new < self._most_new:
            domain = self._next_domain()
            if domain is None:
                return
            queue = self._waiting[domain]
            admitted = _let_go(queue.popleft())
            self._in_flight += admitted
            self._new += admitted
            self._of_domain[domain] += admitted
            if queue:
                self._waiting.move_to_end(domain)
            else:
                del self._waiting[domain]

    def _next_domain(self) -> str | None:
        # a short search, because at most four domains can have their full share
        return next(
            (domain for domain in self._waiting if self._of_domain[domain] < self._most_of_domain), None
        )


def _let_go(admitted: asyncio.Future[None]) -> bool:
    """Wakes a waiting question; returns False if its caller was cancelled."""
    if admitted.done():
        return False
    admitted.set_result(None)
    return True


@dataclass(slots=True)
class _Silence:
    failures: int = 0
    pause: float = _FIRST_PAUSE
    until: float = 0.0


class SilentDomains:
    """The registered domains whose nameservers do not answer, and are not asked for a while (RFC 2308 section 7.2).

    After a pause, questions are sent again. If they fail, the next pause is twice as long. Any answer ends
    the pauses, even the answer that a name does not exist. `clock` returns seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._domains: FIFOCache[str, _Silence] = FIFOCache(_MOST_DOMAINS)

    def until(self, domain: str) -> float:
        """Returns the time until which a domain is not asked; 0 if it may be asked now."""
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
