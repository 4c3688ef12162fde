"""The slot of an IP address: the requests that wait for it, and this worker's turn there."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field

from webcrawl.hosts.address_turn import LEAD, AddressTurn

_CONNECT_SECONDS = 1.0
"""Seconds after which a request that is still connecting no longer keeps other requests from connecting."""
_LOOK_AGAIN_SECONDS = 1.0
_RELEASED_SECONDS = 0.05
"""Seconds after which a worker in its window asks again whether other workers have returned connections."""


@dataclass(slots=True)
class AddressSlot:
    """The requests that wait for an address, and this worker's turn at the address.

    queue     requests that wait, each with a future that admits it
    ahead     requests that connect -> since when
    ready     requests that wait on an open connection
    changed   done when a state that requests wait for has changed
    pace      seconds between two requests of this worker
    put_off   when the last host that was put off may come again
    """

    address: str
    turn: AddressTurn
    queue: deque[tuple[Hashable, asyncio.Future[None]]] = field(default_factory=deque)
    ahead: dict[Hashable, float] = field(default_factory=dict)
    ready: int = 0
    changed: asyncio.Future[None] | None = None
    driver: asyncio.Task[None] | None = None
    pace: float = 0.0
    put_off: float = 0.0
    sent: int = 0
    """Requests in the present window."""

    @property
    def waiting(self) -> int:
        """Requests that need a window now or soon."""
        return len(self.queue) + self.ready

    @property
    def is_idle(self) -> bool:
        return not (self.waiting or self.ahead or self.turn.in_flight or self.driver)

    def wake(self) -> None:
        """Wakes all callers of `wait`."""
        if self.changed is not None and not self.changed.done():
            self.changed.set_result(None)
        self.changed = None

    async def wait(self, until: float) -> None:
        """Waits for a change, or until a time."""
        if self.changed is None:
            self.changed = asyncio.get_running_loop().create_future()
        seconds = min(max(0.0005, until - time.monotonic()), _LOOK_AGAIN_SECONDS)
        await asyncio.wait([self.changed], timeout=seconds)

    def admit(self, now: float) -> None:
        """Lets the first requests of the queue connect, as many as can be sent soon."""
        connecting = sum(now - since < _CONNECT_SECONDS for since in self.ahead.values())
        while self.queue and connecting < self.turn.most_ahead:
            key, admitted = self.queue.popleft()
            if not admitted.done():
                self.ahead[key] = now
                admitted.set_result(None)
                connecting += 1

    def note_window(self, since_last: float | None) -> None:
        """Estimates the pace at a new window, which begins `since_last` seconds after the last; None after a break."""
        turn, sent = self.turn, self.sent
        self.sent = 0
        if since_last is None:
            self.pace = turn.delay
        else:
            # if no request waited, more requests could have been sent
            served = sent if sent and self.queue else turn.most_in_window
            self.pace = (self.pace + max(turn.delay, since_last / served)) / 2

    def next_look(self, now: float) -> float:
        """Returns when the window changes next, if nothing changes from outside."""
        turn = self.turn
        if now >= turn.begins and turn.is_full:
            return now + _RELEASED_SECONDS
        return min(
            look for look in (turn.begins - LEAD, turn.begins, turn.ends + 0.001, now + 1.0) if look > now
        )
