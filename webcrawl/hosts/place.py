"""The place of a host, or of the hosts of a name, among the turns of a worker."""

from __future__ import annotations

import asyncio
import math
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from webcrawl.errors import Abandoned, LeaseLost
from webcrawl.hosts.connections import Held
from webcrawl.hosts.politeness import HostTurn

_LOOK_AGAIN_SECONDS = 1.0
"""How long waiting requests may take to notice a shorter delay."""


@dataclass(slots=True)
class Place:
    """The slots of a host for requests at the same time, and its turn."""

    host: str
    """The leased host, or the first one that was asked without a lease; its failures are those of the turn."""
    turn: HostTurn
    slots: asyncio.Semaphore
    valid_until: float
    connections: list[Held] = field(default_factory=list)
    """One for each turn that is taken."""
    leaving: bool = False
    """No further request starts: the host is released when none is in flight."""
    sending: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by the request that is sent next; it has a connection."""
    sent: float = -math.inf
    """When the last request was written."""
    surplus: int = 0
    """Slots to be withdrawn when they are released, because a rule has lowered their number."""

    def is_open(self, now: float) -> bool:
        """Whether a request may start under the lease of the host, or without one."""
        return now <= self.valid_until and not self.leaving

    def held(self) -> Held:
        """A connection to be taken for the host."""
        return Held(new=not self.turn.answered or self.turn.failures > 0)

    def release(self) -> None:
        """Releases a slot."""
        if self.surplus > 0:
            self.surplus -= 1
        else:
            self.slots.release()


class Gate(Protocol):
    """What a request has to pass besides the turn of its host."""

    async def enter(self, ending: asyncio.Event) -> None:
        """Waits; returns early when `ending` is set."""

    def leave(self) -> None:
        """Gives the place back of a request that is not sent, if it has one."""


async def until_due(host: str, place: Place, ending: asyncio.Event) -> None:
    """Waits for the host's turn; raises LeaseLost, Abandoned."""
    while True:
        now = time.monotonic()
        if ending.is_set():
            raise Abandoned(f"the crawl ends before {host} may be asked")
        if not place.is_open(now):
            raise LeaseLost(f"the lease of {host} ends or has expired")
        if place.turn.may_start(now):
            return
        with suppress(TimeoutError):
            until = min(place.turn.ready_at, place.valid_until, now + _LOOK_AGAIN_SECONDS)
            seconds = max(0.0005, until - now)
            async with asyncio.timeout(seconds):
                await ending.wait()
