"""Which requests get a connection when a worker has fewer connections than requests."""

from __future__ import annotations

import asyncio
import math
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import TypeAlias

SLOW_SECONDS = 0.75
"""Seconds after which a request counts as slow."""
SILENT_SECONDS = 0.1
"""The same for a request to a new host, of which there may be thousands that never answer."""
_LOOK_SECONDS = 0.1
_PEAK_SECONDS = 10.0


@dataclass(slots=True, eq=False)
class Held:
    """The connection of one request. `new`: the host never answered, or its last request failed."""

    new: bool
    since: float = 0.0
    is_slow: bool = False


_Waiting: TypeAlias = tuple[int, asyncio.Future[None], Held]
"""A request that waits: its number in the order of arrival, what admits it, and its connection."""


class Connections:
    """Lets `total` requests have a connection; 0 means any number.

    A request that takes longer than SLOW_SECONDS no longer counts for the total, up to `most_slow` such requests: a
    server that sends little for a long time costs hardly more than an open connection, and must not hold up others.
    Half of `most_slow` is for hosts that answered. `on_lent` is called when slow requests have made room.

    A host is "new" if it never answered or failed last: it may hold a connection until the timeout, and its requests
    are slow after SILENT_SECONDS, unless the event loop itself is late. A quarter of the total is for new hosts, in
    turn with known hosts. Beyond this quarter, known hosts come first. New hosts then get the total minus the peak of
    connections that known hosts held or waited for in the last seconds; the peak counts as at least a quarter of the
    total. `clock` returns seconds.
    """

    def __init__(
        self,
        total: int,
        clock: Callable[[], float] = time.monotonic,
        most_slow: int = 0,
        on_lent: Callable[[], None] = lambda: None,
    ) -> None:
        self._total = total or sys.maxsize
        self._clock = clock
        self._most_slow = most_slow
        self._on_lent = on_lent
        self._held: tuple[dict[Held, None], dict[Held, None]] = {}, {}
        """The connections that count for the total, the oldest first: to hosts that answered, and to new hosts."""
        self._slow = [0, 0]
        """How many slow requests do not count for the total: to hosts that answered, and to new hosts."""
        self._look: asyncio.TimerHandle | None = None
        self._look_at = 0.0
        self._order = 0
        self._waiting: deque[_Waiting] = deque()
        self._new_waiting: deque[_Waiting] = deque()
        self._peak = self._last_peak = 0
        self._peak_until = -math.inf

    @property
    def has_room(self) -> bool:
        """Whether a connection is free."""
        return self._counted < self._total

    @property
    def _counted(self) -> int:
        return len(self._held[False]) + len(self._held[True])

    @property
    def silent(self) -> int:
        """How many slow requests to new hosts have a connection that does not count for the total."""
        return self._slow[True]

    @property
    def slow(self) -> int:
        """How many slow requests have a connection that does not count for the total."""
        return sum(self._slow)

    @property
    def most_new(self) -> int:
        """How many connections hosts that never answered may hold now."""
        self._turn_peak()
        kept = max(self._total // 4, self._peak, self._last_peak)
        return max(self._least_new, self._total - kept)

    @property
    def _least_new(self) -> int:
        return max(1, self._total // 4)

    async def take(self, held: Held) -> None:
        """Waits for a connection; call `give` afterwards."""
        admitted = asyncio.get_running_loop().create_future() if self._must_wait(held.new) else None
        if admitted is None:
            self._hold(held)
        else:
            self._order += 1
            (self._new_waiting if held.new else self._waiting).append((self._order, admitted, held))
        if not held.new:
            self._note_demand()
        if admitted is None:
            return
        self._admit()
        try:
            await admitted
        except asyncio.CancelledError:
            if admitted.done() and not admitted.cancelled():
                self.give(held)
            raise

    async def take_again(self, held: Held) -> None:
        """Waits for a connection; a request that is cancelled meanwhile takes one too, because it will return it."""
        try:
            await self.take(held)
        except asyncio.CancelledError:
            self._hold(held)
            raise

    def give(self, held: Held) -> None:
        """Returns a connection."""
        if held.is_slow:
            self._slow[held.new] -= 1
        else:
            del self._held[held.new][held]
        self._admit()

    def lend(self, late: float = 0.0) -> None:
        """Gives the connections of requests that have become slow to other requests.

        `late`: seconds by which the event loop is late. Its delay says nothing about the hosts.
        """
        silent_seconds = SILENT_SECONDS if late < SILENT_SECONDS else SLOW_SECONDS
        now, lent = self._clock(), False
        for connections, seconds in zip(self._held, (SLOW_SECONDS, silent_seconds), strict=True):
            slow = [held for held in _before(now - seconds, connections) if self._is_lent(held)]
            for held in slow:
                del connections[held]
            lent = lent or bool(slow)
        if lent:
            self._admit()
            self._on_lent()

    def _is_lent(self, held: Held) -> bool:
        """Lets a request count as slow, up to `most_slow` requests."""
        if self.slow < self._most_slow and not (held.new and 2 * self._slow[True] >= self._most_slow):
            held.is_slow = True
            self._slow[held.new] += 1
        return held.is_slow

    def _must_wait(self, new: bool) -> bool:
        if self._waiting or self._new_waiting or not self.has_room:
            return True
        return new and len(self._held[True]) >= self.most_new

    def _hold(self, held: Held) -> None:
        held.since, held.is_slow = self._clock(), False
        self._held[held.new][held] = None
        self._look_later()

    def _look_later(self) -> None:
        """Looks for slow requests later, if half of the connections are used."""
        if self._most_slow and self._look is None and 2 * self._counted >= self._total:
            loop, now = asyncio.get_running_loop(), self._clock()
            slow = [
                next(iter(connections)).since + seconds - now
                for connections, seconds in zip(self._held, (SLOW_SECONDS, SILENT_SECONDS), strict=True)
                if connections
            ]
            self._look_at = loop.time() + max(_LOOK_SECONDS, min(slow))
            self._look = loop.call_at(self._look_at, self._look_now)

    def _look_now(self) -> None:
        self._look = None
        self.lend(asyncio.get_running_loop().time() - self._look_at)
        self._look_later()

    def _admit(self) -> None:
        """Gives free connections to requests that wait."""
        while self.has_room and (queue := self._next()) is not None:
            _, admitted, held = queue.popleft()
            self._hold(held)
            admitted.set_result(None)

    def _next(self) -> deque[_Waiting] | None:
        """Returns the queue whose first request gets the next connection; None if no request may have it."""
        others, new = _living(self._waiting), _living(self._new_waiting)
        if new and len(self._held[True]) < self._least_new and not (others and others[0] < new[0]):
            return new
        if others:
            return others
        return new if new and len(self._held[True]) < self.most_new else None

    def _note_demand(self) -> None:
        self._turn_peak()
        self._peak = max(self._peak, len(self._held[False]) + len(self._waiting))

    def _turn_peak(self) -> None:
        """Begins a new period when the last is over; the peak of the last period counts too."""
        now = self._clock()
        if now >= self._peak_until:
            is_next = now < self._peak_until + _PEAK_SECONDS
            self._last_peak, self._peak = self._peak if is_next else 0, 0
            self._peak_until = now + _PEAK_SECONDS


def _before(latest: float, connections: Iterable[Held]) -> Iterator[Held]:
    """Returns the connections, sorted by age, that are held since `latest` or longer."""
    return takewhile(lambda held: held.since <= latest, connections)


def _living(queue: deque[_Waiting]) -> deque[_Waiting]:
    """Removes the first requests of a queue if they were cancelled."""
    while queue and queue[0][1].done():
        queue.popleft()
    return queue
