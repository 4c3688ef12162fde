"""The pacing of one worker's requests: when each request may be sent to its host."""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from webcrawl.config import PolitenessConfig
from webcrawl.hosts.address_turns import AddressTurns
from webcrawl.hosts.connections import Connections, Held
from webcrawl.hosts.places import Gate, Place, until_due
from webcrawl.hosts.politeness import Failed, HostTurn, Outcome
from webcrawl.hosts.rules import Rules
from webcrawl.urls.canonical import hostname

_IDLE_HOSTS_KEPT = 10_000


@dataclass(slots=True)
class Turns:
    """The turns at all hosts. A turn is the right to send one request; its host limits how many are taken at once.

    Hosts with the same `unit` share a turn, and one of them at most is leased at once.

    Hosts are opened when they are leased. Requests to other hosts (a spider's own `download_async`, a robots.txt on
    another host) are paced within this process.
    """

    config: PolitenessConfig
    overrides: Mapping[str, PolitenessConfig] = field(default_factory=dict)
    """Host name -> politeness of a host with settings of its own."""
    total: int = 0
    """The maximum of turns taken at once at all hosts; 0 means no limit."""
    most_slow: int = 0
    """The number of slow requests that do not count for it."""
    answered: int = field(default=0, init=False)
    """Number of open hosts that have answered."""
    waiting: int = 0
    """Number of requests that wait, for their turn or `aside`, without a connection."""
    on_aside: Callable[[], None] = lambda: None
    """Called when a request begins to wait, or is slow, so that another one can take its place."""
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    """Set by `abandon`."""
    rules: Rules | None = None
    """POLITENESS_RULES, if there are any."""
    unit: Callable[[str], str] = str
    """What takes turns for a host: itself, or its name (POLITENESS_UNIT)."""
    addresses: AddressTurns | None = None
    """The turns of IP addresses, if they are limited."""
    _places: dict[str, Place] = field(default_factory=dict)
    _others: OrderedDict[str, Place] = field(default_factory=OrderedDict)
    _taken: dict[HostTurn, Place] = field(default_factory=dict)
    _connections: Connections = field(init=False)

    def __post_init__(self) -> None:
        self._connections = Connections(self.total, most_slow=self.most_slow, on_lent=lambda: self.on_aside())

    def config_of(self, host: str) -> PolitenessConfig:
        """Returns the politeness of a host."""
        if self.rules is not None:
            return self.rules.config_of(hostname(host))
        return self.overrides.get(hostname(host), self.config)

    def open(
        self,
        host: str,
        *,
        failures: int,
        delay: float | None,
        valid_until: float,
        answered: bool = False,
        gap: float = 0.0,
    ) -> HostTurn:
        """Opens a leased host. `delay` was set by an operator; the lease is valid until `valid_until` (monotonic).

        `answered`: the host has answered a worker before. `gap`: seconds between two requests in its last lease.
        """
        unit = self.unit(host)
        place = self._others.pop(unit, None)
        if place is None:
            place = self._new_place(host, failures, valid_until)
            place.turn.begin_with(gap)
        # keeps the requests in flight and waiting of a host that was asked without a lease
        place.turn.failures = failures if place.host != host else max(place.turn.failures, failures)
        place.turn.set_delay(delay)
        place.host, place.valid_until = host, valid_until
        place.turn.answered = place.turn.answered or answered
        before = self._places.get(unit)
        if before is not None and before.host != host:
            before.valid_until = -math.inf  # its lease was lost, or this one would not have been given
        self._places[unit] = place
        self.answered += place.turn.answered - (before is not None and before.turn.answered)
        return place.turn

    def has_answered(self, host: str) -> None:
        """Records that a host has answered a request."""
        turn = self._place(host).turn
        if not turn.answered:
            turn.answered = True
            self.answered += self.unit(host) in self._places

    def extend(self, host: str, valid_until: float) -> None:
        if place := _leased(self, host):
            place.valid_until = valid_until

    def close(self, host: str) -> None:
        """Closes a host that is no longer leased: requests waiting for a turn get LeaseLost."""
        if place := _leased(self, host):
            del self._places[self.unit(host)]
            place.valid_until = -math.inf
            self.answered -= place.turn.answered

    def turn(self, host: str) -> HostTurn:
        return self._place(host).turn

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Counts a request as waiting, without a connection."""
        self.waiting += 1
        self.on_aside()
        try:
            yield
        finally:
            self.waiting -= 1

    @property
    def has_room(self) -> bool:
        """Whether fewer turns are taken than `total`."""
        return self._connections.has_room

    @asynccontextmanager
    async def disconnected(self, host: str) -> AsyncIterator[None]:
        """Lets a request with a turn wait `aside`, and gives its place among the `total` to others meanwhile."""
        place = self._taken.get(self._place(host).turn)
        with self.aside():
            if place is None:
                yield
                return
            self._connections.give(place.connections.pop())
            try:
                yield
            finally:
                place.connections.append(held := place.held())
                await self._connections.take_again(held)

    async def take(self, host: str, *, during_shutdown: bool = False, gates: Sequence[Gate] = ()) -> HostTurn:
        """Waits until the host may be asked and takes the turn; call `give` afterwards.

        `gates` are passed once the host may be asked. Raises LeaseLost, and after `abandon` Abandoned; with
        `during_shutdown` it waits on. Raises what `gates` raise.
        """
        place = self._place(host)
        with self.aside():
            await place.slots.acquire()
            try:
                ending = asyncio.Event() if during_shutdown else self.ending
                now, held = await self._until_allowed(host, place, ending, gates)
            except BaseException:
                place.release()
                raise
        place.turn.start(now)
        place.connections.append(held)
        self._taken[place.turn] = place
        return place.turn

    def holds(self, turn: HostTurn) -> bool:
        """Whether a taken turn may still be used: the lease of its host is valid."""
        return time.monotonic() <= self._taken[turn].valid_until

    def abandon(self) -> None:
        """Ends the crawl: requests waiting for a turn get Abandoned, those with a turn keep it."""
        self.ending.set()
        if self.addresses:
            self.addresses.wake()

    def give(self, host: str, turn: HostTurn, outcome: Outcome) -> None:
        """Returns a turn after the response or failure of its request."""
        # the host may have been closed and opened again meanwhile: release what this turn has
        place = self._taken[turn]
        if place.host == host:
            turn.finish(time.monotonic(), outcome)
        else:
            turn.finish_other(time.monotonic(), outcome, host)
        # the youngest: of several requests to a host, the quick ones end first
        self._connections.give(place.connections.pop())
        place.release()
        if not turn.in_flight:
            del self._taken[turn]

    def set_crawl_delay(self, host: str, seconds: float | None) -> bool:
        """Sets the delay of robots.txt; returns True if the host's gap changes. An operator's longer delay stays."""
        place = self._place(host)
        return place.turn.set_crawl_delay(seconds, other=place.host != host)

    def set_delay(self, host: str, seconds: float | None) -> bool:
        """Sets or removes an operator's delay; returns True if the gap changes. A longer one of robots.txt stays."""
        return self._place(host).turn.set_delay(seconds)

    def fail(self, host: str) -> None:
        """Counts a failed request for a host whose name could not be resolved."""
        place, now = self._place(host), time.monotonic()
        if place.turn.may_start(now):
            place.turn.start(now)
            if place.host == host:
                place.turn.finish(now, Failed())
            else:
                place.turn.finish_other(now, Failed(), host)

    async def _until_allowed(
        self, host: str, place: Place, ending: asyncio.Event, gates: Sequence[Gate]
    ) -> tuple[float, Held]:
        """Waits for the host's turn and for a place in the total; returns the time when it has both, and the place."""
        while True:
            await until_due(host, place, ending)
            try:
                for gate in gates:
                    await gate.enter(ending)
                # after the turn, because a request waiting for its host must not keep others from a connection
                await self._connections.take(held := place.held())
            except BaseException:
                _leave(gates)
                raise
            now = time.monotonic()
            if place.is_open(now) and place.turn.may_start(now) and not ending.is_set():
                return now, held
            # meanwhile another request failed or the lease was lost
            self._connections.give(held)
            _leave(gates)

    def _place(self, host: str) -> Place:
        unit = self.unit(host)
        if place := self._places.get(unit):
            return place
        place = self._others.get(unit)
        if place is None:
            place = self._others[unit] = self._new_place(host, 0, math.inf)
            if len(self._others) > _IDLE_HOSTS_KEPT:
                self._others.popitem(last=False)
        else:
            self._others.move_to_end(unit)
        return place

    def _new_place(self, host: str, failures: int, valid_until: float) -> Place:
        config = self.config_of(host)
        turn = HostTurn(config, None, failures, now=time.monotonic())
        return Place(host, turn, asyncio.Semaphore(config.concurrency), valid_until)


def counted(turns: Turns, requests: int) -> int:
    """How many of so many requests count for the total: those that neither wait nor are slow."""
    return requests - turns.waiting - turns._connections.slow


def is_open(turns: Turns, host: str) -> bool:
    """Whether this worker has leased a host, or another one that shares its turn."""
    return turns.unit(host) in turns._places


def _leased(turns: Turns, host: str) -> Place | None:
    """The place of a leased host. If its lease was lost, another one of its name may have it."""
    place = turns._places.get(turns.unit(host))
    return place if place is not None and place.host == host else None


def leave(turns: Turns, host: str) -> bool:
    """Lets no further request to a leased host start; returns whether none is in flight, so that it may be released.

    Requests that wait for the turn get LeaseLost.
    """
    place = _leased(turns, host)
    if place is None:
        return True
    place.leaving = True
    return not place.turn.in_flight


def reconfigure(turns: Turns) -> list[str]:
    """Applies changed rules to the hosts that are known; returns those whose gap has changed."""
    changed = []
    for place in (*turns._places.values(), *turns._others.values()):
        before, config = place.turn.concurrency, turns.config_of(place.host)
        if place.turn.set_config(config):
            changed.append(place.host)
        # a smaller number needs no more than the turn, which lets no request start meanwhile
        place.surplus += before - config.concurrency
        while place.surplus < 0:
            place.surplus += 1
            place.slots.release()
    return changed


def _leave(gates: Sequence[Gate]) -> None:
    for gate in gates:
        gate.leave()
