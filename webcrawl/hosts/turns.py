"""Paces one worker's requests: decides when each request may be sent to its host."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from webcrawl.config import PolitenessConfig
from webcrawl.hosts.address_turns import AddressTurns
from webcrawl.hosts.connections import Connections, Held
from webcrawl.hosts.host_slots import Gate, HostSlot, HostSlots, until_due
from webcrawl.hosts.politeness import Failed, HostTurn, Outcome
from webcrawl.hosts.rules import HostRules
from webcrawl.urls.canonical import hostname


@dataclass(slots=True)
class Turns:
    """The turns at all hosts. A turn is the right to send one request; each host limits the turns taken at once.

    Hosts with the same `unit` share a turn, and at most one of these hosts is leased at once.

    Hosts are opened when they are leased. Requests to other hosts (a spider's own `download_async`, a robots.txt on
    another host) are paced within this process.
    """

    config: PolitenessConfig
    overrides: Mapping[str, PolitenessConfig] = field(default_factory=dict)
    """Host name -> politeness of a host with settings of its own."""
    total: int = 0
    """The maximum of turns taken at once at all hosts; 0 means no limit."""
    most_slow: int = 0
    """The number of slow requests that do not count for the total."""
    waiting: int = 0
    """Number of requests that wait, for their turn or `aside`, without a connection."""
    unread: int = 0
    """Number of pages that wait to be asked for, to be read or for their links to be added, because there are many."""
    on_aside: Callable[[], None] = lambda: None
    """Called when a request begins to wait, or is slow, so that another request can begin."""
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    """Set by `abandon`."""
    rules: HostRules | None = None
    """POLITENESS_RULES, if there are any."""
    unit: Callable[[str], str] = str
    """The unit that takes turns: the host itself, or its name (POLITENESS_UNIT)."""
    addresses: AddressTurns | None = None
    """The turns of IP addresses, if they are limited."""
    host_slots: HostSlots = field(init=False)
    _taken: dict[HostTurn, HostSlot] = field(default_factory=dict)
    _connections: Connections = field(init=False)

    def __post_init__(self) -> None:
        self.host_slots = HostSlots(self.config_of, self.unit, self.config.delay)
        self._connections = Connections(self.total, most_slow=self.most_slow, on_lent=lambda: self.on_aside())

    def config_of(self, host: str) -> PolitenessConfig:
        """Returns the politeness of a host."""
        if self.rules is not None:
            return self.rules.config_of(hostname(host))
        return self.overrides.get(hostname(host), self.config)

    def turn(self, host: str) -> HostTurn:
        return self.host_slots.of(host).turn

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Counts a request as waiting, without a connection."""
        self.waiting += 1
        self.on_aside()
        try:
            yield
        finally:
            self.waiting -= 1

    @contextmanager
    def unread_page(self) -> Iterator[None]:
        """Counts a page as unread."""
        self.unread += 1
        try:
            yield
        finally:
            self.unread -= 1

    def counted(self, requests: int) -> int:
        """Returns the number of requests that count for the total, because they neither wait nor are slow."""
        return requests - self.waiting - self._connections.slow

    @property
    def has_room(self) -> bool:
        """Whether fewer turns are taken than `total`."""
        return self._connections.has_room

    @property
    def served(self) -> int:
        """Number of leased hosts that have answered and whose pages do not wait here."""
        return max(0, self.host_slots.answered - self.unread)

    @property
    def silent(self) -> int:
        """How many requests wait, with connections of their own, for hosts that never answered or failed last."""
        return self._connections.silent

    @asynccontextmanager
    async def disconnected(self, host: str) -> AsyncIterator[None]:
        """Lets a request with a turn wait `aside`, and gives its connection to others meanwhile."""
        slot = self._taken.get(self.host_slots.of(host).turn)
        with self.aside():
            if slot is None:
                yield
                return
            self._connections.give(slot.connections.pop())
            try:
                yield
            finally:
                slot.connections.append(held := slot.held())
                await self._connections.take_again(held)

    async def take(self, host: str, *, during_shutdown: bool = False, gates: Sequence[Gate] = ()) -> HostTurn:
        """Waits until the host may be asked and takes the turn; call `give` afterwards.

        `gates` are entered once the host may be asked. Raises LeaseLost, errors of `gates`, and Abandoned after
        `abandon`; with `during_shutdown`, `abandon` does not end the wait.
        """
        slot = self.host_slots.of(host)
        with self.aside():
            await slot.permits.acquire()
            try:
                ending = asyncio.Event() if during_shutdown else self.ending
                now, held = await self._until_allowed(host, slot, ending, gates)
            except BaseException:
                slot.release()
                raise
        slot.turn.start(now)
        slot.connections.append(held)
        self._taken[slot.turn] = slot
        return slot.turn

    @asynccontextmanager
    async def sending(self, turn: HostTurn) -> AsyncIterator[None]:
        """Waits on an open connection until a request with a turn may be written, which is done within the context.

        Turns are taken a gap apart. But requests take different times to connect, so two could be written at once.
        """
        slot = self._taken[turn]
        async with slot.sending:
            while (seconds := slot.sent + turn.gap - time.monotonic()) > 0:
                await asyncio.sleep(seconds)
            try:
                yield
            finally:
                slot.sent = turn.started = time.monotonic()

    def holds(self, turn: HostTurn) -> bool:
        """Whether a taken turn may still be used: the lease of its host is valid."""
        return time.monotonic() <= self._taken[turn].valid_until

    def abandon(self) -> None:
        """Ends the crawl: requests waiting for a turn get Abandoned, requests with a turn keep it."""
        self.ending.set()
        if self.addresses:
            self.addresses.wake()

    def give(self, host: str, turn: HostTurn, outcome: Outcome, *, rules: bool = False) -> None:
        """Returns a turn after the response or failure of its request; `rules`: for the robots.txt of the host."""
        # this turn's own slot, because the host may have been closed and opened again meanwhile
        slot = self._taken[turn]
        if slot.host == host:
            turn.finish(time.monotonic(), outcome, rules=rules)
        else:
            turn.finish_other(time.monotonic(), outcome, host)
        # the youngest connection, because quick requests to a host end first
        self._connections.give(slot.connections.pop())
        slot.release()
        if not turn.in_flight:
            del self._taken[turn]

    def set_crawl_delay(self, host: str, seconds: float | None) -> bool:
        """Sets the delay of robots.txt; returns True if the host's gap changes. An operator's longer delay stays."""
        slot = self.host_slots.of(host)
        return slot.turn.set_crawl_delay(seconds, other=slot.host != host)

    def set_delay(self, host: str, seconds: float | None) -> bool:
        """Sets or removes an operator's delay; returns True if the gap changes. A longer delay of robots.txt stays."""
        return self.host_slots.of(host).turn.set_delay(seconds)

    def fail(self, host: str) -> None:
        """Counts a failed request for a host whose name could not be resolved."""
        slot, now = self.host_slots.of(host), time.monotonic()
        if slot.turn.may_start(now):
            slot.turn.start(now)
            if slot.host == host:
                slot.turn.finish(now, Failed())
            else:
                slot.turn.finish_other(now, Failed(), host)

    async def _until_allowed(
        self, host: str, slot: HostSlot, ending: asyncio.Event, gates: Sequence[Gate]
    ) -> tuple[float, Held]:
        """Waits for the host's turn and for a connection; returns the time when it has both, and the connection."""
        while True:
            await until_due(host, slot, ending)
            try:
                for gate in gates:
                    await gate.enter(ending)
                # after the turn, because a request waiting for its host must not keep others from a connection
                await self._connections.take(held := slot.held())
            except BaseException:
                _leave(gates)
                raise
            now, is_open = time.monotonic(), all(gate.is_open() for gate in gates)
            if slot.is_open(now) and slot.turn.may_start(now) and is_open and not ending.is_set():
                return now, held
            # another request has failed meanwhile, the lease was lost, or a gate has closed
            self._connections.give(held)
            _leave(gates)


def _leave(gates: Sequence[Gate]) -> None:
    for gate in gates:
        gate.leave()
