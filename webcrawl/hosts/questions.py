"""Which names are asked for first when more of them wait than nameservers may be asked at once."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from webcrawl.hosts.costs import Costs


class Questions:
    """Lets at most `most` questions to nameservers be in flight.

    One registered domain has at most a quarter of them, so that its nameservers cannot hold them all, and waiting
    domains take turns. A quarter is kept for names that had an answer before; these never wait for others.
    """

    def __init__(self, most: int, costs: Costs) -> None:
        self.costs = costs
        """Counts when a question waits because its domain has its share."""
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
        """Waits until a name of a domain may be asked for. `known`: it had an answer before."""
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
        """Lets those go ahead that may."""
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
        # at most four domains have as many as they may
        return next(
            (domain for domain in self._waiting if self._of_domain[domain] < self._most_of_domain), None
        )


def _let_go(admitted: asyncio.Future[None]) -> bool:
    """Wakes a waiting question; returns False if its caller was cancelled."""
    if admitted.done():
        return False
    admitted.set_result(None)
    return True
