"""Who may ask which host now: the pacing of one worker's requests, exact at the moment a request goes out."""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from dataclasses import dataclass, field

from webcrawl.errors import CrawlError
from webcrawl.politeness import Failed, HostTurn, Outcome, PolitenessConfig

_IDLE_HOSTS_KEPT = 10_000


class LeaseLost(CrawlError):
    """The host of a request may be another worker's by now: the request must not go out."""


@dataclass(slots=True)
class _Place:
    turn: HostTurn
    room: asyncio.Semaphore
    valid_until: float = math.inf


@dataclass(slots=True)
class Turns:
    """One turn at a host at a time (or as many as allowed), each a decent while after the last.

    Hosts are opened when leased. A request to a host that is not leased (a spider's own `download_async`, a robots.txt
    elsewhere) is paced within this process.
    """

    config: PolitenessConfig
    waiting: int = 0
    """Requests that wait for their turn: they use no connection."""
    _places: dict[str, _Place] = field(default_factory=dict)
    _others: OrderedDict[str, _Place] = field(default_factory=OrderedDict)

    def open(self, host: str, turn: HostTurn, valid_until: float) -> None:
        """A host was leased: `valid_until` is monotonic time, after which the lease must be taken for lost."""
        self._others.pop(host, None)
        self._places[host] = _Place(turn, asyncio.Semaphore(self.config.concurrency), valid_until)

    def extend(self, host: str, valid_until: float) -> None:
        if place := self._places.get(host):
            place.valid_until = valid_until

    def close(self, host: str) -> None:
        self._places.pop(host, None)

    def turn(self, host: str) -> HostTurn:
        return self._place(host).turn

    async def take(self, host: str) -> HostTurn:
        """Wait until the host may be asked and take the turn; raises LeaseLost. `give` must follow."""
        place = self._place(host)
        self.waiting += 1
        try:
            await place.room.acquire()
            try:
                while not place.turn.may_start(now := time.monotonic()):
                    if now > place.valid_until:
                        break
                    await asyncio.sleep(max(0.0005, place.turn.ready_at - now))
                if now > place.valid_until:
                    raise LeaseLost(f"the lease of {host} ran out")
            except BaseException:
                place.room.release()
                raise
        finally:
            self.waiting -= 1
        place.turn.start(now)
        return place.turn

    def give(self, host: str, turn: HostTurn, outcome: Outcome) -> None:
        """The response is here, or there will be none."""
        turn.finish(time.monotonic(), outcome)
        place = self._place(host)
        if place.turn is turn:
            place.room.release()

    def fail(self, host: str) -> None:
        """The host could not even be asked, for want of an address: it counts as a failed request."""
        turn, now = self._place(host).turn, time.monotonic()
        if turn.may_start(now):
            turn.start(now)
            turn.finish(now, Failed())

    def _place(self, host: str) -> _Place:
        if place := self._places.get(host):
            return place
        place = self._others.get(host)
        if place is None:
            turn = HostTurn(self.config, None, now=time.monotonic())
            place = self._others[host] = _Place(turn, asyncio.Semaphore(self.config.concurrency))
            if len(self._others) > _IDLE_HOSTS_KEPT:
                self._others.popitem(last=False)
        else:
            self._others.move_to_end(host)
        return place
