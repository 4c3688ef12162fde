"""Which requests get a worker's connections when there are fewer than requests that want one."""

from __future__ import annotations

import asyncio
import math
import sys
import time
from collections import deque
from collections.abc import Callable

_PEAK_SECONDS = 10.0


class Connections:
    """Lets `total` requests have a connection; 0 means any number.

    Hosts that never answered ("new" ones) may each hold a connection until its timeout. They get at most what the
    others leave, which is the total without the connections that the others held or waited for at once in the last
    seconds, and without a quarter of the total. A quarter of the total is theirs in turn with the others; beyond it,
    the others come first. `clock` returns seconds.
    """

    def __init__(self, total: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._total = total or sys.maxsize
        self._clock = clock
        self._held = 0
        self._new = 0
        self._order = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._new_waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._peak = self._last_peak = 0
        self._peak_until = -math.inf

    @property
    def has_room(self) -> bool:
        """Whether one is free."""
        return self._held < self._total

    @property
    def most_new(self) -> int:
        """How many connections hosts that never answered may hold now."""
        self._turn_peak()
        kept = max(self._total // 4, self._peak, self._last_peak)
        return max(self._least_new, self._total - kept)

    @property
    def _least_new(self) -> int:
        return max(1, self._total // 4)

    async def take(self, *, new: bool) -> None:
        """Waits for a connection; call `give` afterwards. `new`: its host never answered."""
        queue = self._new_waiting if new else self._waiting
        place = asyncio.get_running_loop().create_future() if self._must_wait(new) else None
        if place is None:
            self._hold(new)
        else:
            self._order += 1
            queue.append((self._order, place))
        if not new:
            self._note_demand()
        if place is None:
            return
        self._admit()
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.give(new=new)
            raise

    async def take_again(self, *, new: bool) -> None:
        """Waits for a connection; a request that is cancelled meanwhile takes one too, because it will return it."""
        try:
            await self.take(new=new)
        except asyncio.CancelledError:
            self._hold(new)
            raise

    def give(self, *, new: bool) -> None:
        """Returns a connection, with `new` as it was taken."""
        self._held -= 1
        self._new -= new
        self._admit()

    def _must_wait(self, new: bool) -> bool:
        if self._waiting or self._new_waiting or not self.has_room:
            return True
        return new and self._new >= self.most_new

    def _hold(self, new: bool) -> None:
        self._held += 1
        self._new += new

    def _admit(self) -> None:
        """Gives free connections to those that wait."""
        while self.has_room and (queue := self._next()) is not None:
            _, place = queue.popleft()
            self._hold(queue is self._new_waiting)
            place.set_result(None)

    def _next(self) -> deque[tuple[int, asyncio.Future[None]]] | None:
        """The queue whose first request gets the next connection; None if nobody may have it."""
        others, new = _living(self._waiting), _living(self._new_waiting)
        if new and self._new < self._least_new and not (others and others[0] < new[0]):
            return new
        if others:
            return others
        return new if new and self._new < self.most_new else None

    def _note_demand(self) -> None:
        self._turn_peak()
        self._peak = max(self._peak, self._held - self._new + len(self._waiting))

    def _turn_peak(self) -> None:
        """Begins a new period when one is over; the peak of the period before counts too."""
        now = self._clock()
        if now >= self._peak_until:
            is_next = now < self._peak_until + _PEAK_SECONDS
            self._last_peak, self._peak = self._peak if is_next else 0, 0
            self._peak_until = now + _PEAK_SECONDS


def _living(queue: deque[tuple[int, asyncio.Future[None]]]) -> deque[tuple[int, asyncio.Future[None]]]:
    """Removes the first requests of a queue if they were cancelled."""
    while queue and queue[0][1].done():
        queue.popleft()
    return queue
