"""Who may ask which host now: the pacing of one worker's requests, exact at the moment a request goes out."""

from __future__ import annotations

import asyncio
import math
import sys
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field

from webcrawl.config import PolitenessConfig
from webcrawl.errors import Abandoned, LeaseLost
from webcrawl.hosts.politeness import Failed, HostTurn, Outcome
from webcrawl.urls.canonical import hostname

_IDLE_HOSTS_KEPT = 10_000
_LOOK_AGAIN_SECONDS = 1.0
"""How long a shorter delay that an operator set may go unnoticed by who waits already."""


@dataclass(slots=True)
class _Place:
    turn: HostTurn
    room: asyncio.Semaphore
    valid_until: float


@dataclass(slots=True)
class Turns:
    """One turn at a host at a time (or as many as allowed), each a decent while after the last.

    Hosts are opened when leased. A request to a host that is not leased (a spider's own `download_async`, a robots.txt
    elsewhere) is paced within this process.
    """

    config: PolitenessConfig
    overrides: Mapping[str, PolitenessConfig] = field(default_factory=dict)
    """By host name, for hosts that are treated otherwise."""
    total: int = 0
    """At most so many turns are taken at once, at all hosts together; 0 means no limit."""
    waiting: int = 0
    """Requests that wait, for their turn or for something else `aside`: they use no connection."""
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    """Set by `abandon`."""
    _places: dict[str, _Place] = field(default_factory=dict)
    _others: OrderedDict[str, _Place] = field(default_factory=OrderedDict)
    _taken: dict[HostTurn, _Place] = field(default_factory=dict)
    _free: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._free = asyncio.Semaphore(self.total or sys.maxsize)

    def config_of(self, host: str) -> PolitenessConfig:
        """How a host is treated."""
        return self.overrides.get(hostname(host), self.config)

    def open(self, host: str, *, failures: int, delay: float | None, valid_until: float) -> HostTurn:
        """A host was leased: `delay` was set for it by an operator, `valid_until` is when the lease may be lost.

        The latter is monotonic time, as all times here.
        """
        place = self._others.pop(host, None) or self._new_place(host, failures, valid_until)
        # of a host that was asked without a lease, what is on its way and who waits still counts
        place.turn.failures = max(place.turn.failures, failures)
        place.turn.delay, place.valid_until = delay, valid_until
        self._places[host] = place
        return place.turn

    def extend(self, host: str, valid_until: float) -> None:
        if place := self._places.get(host):
            place.valid_until = valid_until

    def close(self, host: str) -> None:
        """The host is no longer leased: who still waits for a turn gets LeaseLost."""
        if place := self._places.pop(host, None):
            place.valid_until = -math.inf

    def turn(self, host: str) -> HostTurn:
        return self._place(host).turn

    @contextmanager
    def aside(self) -> Iterator[None]:
        """While a request waits for something without using a connection."""
        self.waiting += 1
        try:
            yield
        finally:
            self.waiting -= 1

    @asynccontextmanager
    async def disconnected(self) -> AsyncIterator[None]:
        """While a request that has its turn waits `aside`: its place among the `total` is for others."""
        with self.aside():
            self._free.release()
            try:
                yield
            finally:
                await self._free.acquire()

    async def take(self, host: str, *, to_the_end: bool = False) -> HostTurn:
        """Wait until the host may be asked and take the turn; `give` must follow.

        Raises LeaseLost, and Abandoned after `abandon` unless the request must be waited for `to_the_end`.
        """
        place = self._place(host)
        with self.aside():
            await place.room.acquire()
            try:
                now = await self._both(host, place, asyncio.Event() if to_the_end else self.ending)
            except BaseException:
                place.room.release()
                raise
        place.turn.start(now)
        self._taken[place.turn] = place
        return place.turn

    def holds(self, turn: HostTurn) -> bool:
        """Whether a turn that was taken may still be used: its host's lease holds."""
        return time.monotonic() <= self._taken[turn].valid_until

    def abandon(self) -> None:
        """The crawl is ending: who waits for a turn gets Abandoned, who has one may keep it."""
        self.ending.set()

    def give(self, host: str, turn: HostTurn, outcome: Outcome) -> None:
        """The response is here, or there will be none."""
        turn.finish(time.monotonic(), outcome)
        self._free.release()
        # the host may have been closed since, and opened anew: the room is that of the turn
        self._taken[turn].room.release()
        if not turn.in_flight:
            del self._taken[turn]

    def set_crawl_delay(self, host: str, seconds: float | None) -> bool:
        """What robots.txt asks for; an operator's longer delay stays. True when the host's gap changes by it."""
        turn = self._place(host).turn
        before, turn.crawl_delay = turn.gap, seconds
        return turn.gap != before

    def set_delay(self, host: str, seconds: float | None) -> bool:
        """What an operator asks for, or no longer; robots.txt's longer one stays. True when the host's gap changes."""
        turn = self._place(host).turn
        before, turn.delay = turn.gap, seconds
        return turn.gap != before

    def fail(self, host: str) -> None:
        """The host could not even be asked, for want of an address: it counts as a failed request."""
        turn, now = self._place(host).turn, time.monotonic()
        if turn.may_start(now):
            turn.start(now)
            turn.finish(now, Failed())

    async def _both(self, host: str, place: _Place, ending: asyncio.Event) -> float:
        """Wait for the host's turn and for one of the total; returns the moment at which there are both."""
        while True:
            await _until_due(host, place, ending)
            # not before: who waits for its host must not keep others from a connection
            await self._free.acquire()
            now = time.monotonic()
            if now <= place.valid_until and place.turn.may_start(now) and not ending.is_set():
                return now
            # the wait was long, and the host has failed otherwise or was lost meanwhile
            self._free.release()

    def _place(self, host: str) -> _Place:
        if place := self._places.get(host):
            return place
        place = self._others.get(host)
        if place is None:
            place = self._others[host] = self._new_place(host, 0, math.inf)
            if len(self._others) > _IDLE_HOSTS_KEPT:
                self._others.popitem(last=False)
        else:
            self._others.move_to_end(host)
        return place

    def _new_place(self, host: str, failures: int, valid_until: float) -> _Place:
        config = self.config_of(host)
        turn = HostTurn(config, None, failures, now=time.monotonic())
        return _Place(turn, asyncio.Semaphore(config.concurrency), valid_until)


async def _until_due(host: str, place: _Place, ending: asyncio.Event) -> None:
    """Wait for the host's turn; raises LeaseLost, Abandoned."""
    while True:
        now = time.monotonic()
        if ending.is_set():
            raise Abandoned(f"the crawl ends before it is the turn of {host}")
        if now > place.valid_until:
            raise LeaseLost(f"the lease of {host} ran out")
        if place.turn.may_start(now):
            return
        with suppress(TimeoutError):
            until = min(place.turn.ready_at, place.valid_until, now + _LOOK_AGAIN_SECONDS)
            seconds = max(0.0005, until - now)
            async with asyncio.timeout(seconds):
                await ending.wait()
