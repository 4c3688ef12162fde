"""The slots of hosts, or of the hosts of a name, by which a worker paces its requests."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from cachetools import LRUCache

from webcrawl.config import PolitenessConfig
from webcrawl.errors import Abandoned, LeaseLost
from webcrawl.hosts.connections import Held
from webcrawl.hosts.politeness import HostTurn
from webcrawl.urls.canonical import hostname, registered_domain

FIRST_ANSWER_SECONDS = 5.0
"""The time in which a host that never answered must begin an answer to the first request."""
_PATIENCE = 3.0
_IDLE_HOSTS_KEPT = 10_000
_LOOK_AGAIN_SECONDS = 1.0
"""How long waiting requests may take to notice a shorter delay."""


@dataclass(slots=True)
class HostSlot:
    """The turn of a host, and what a worker knows of the requests that have the turn or wait for it."""

    host: str
    """The leased host; without a lease, the first host that was asked. The turn counts the failures of this host."""
    turn: HostTurn
    permits: asyncio.Semaphore
    """A permit for each request that the host may have at the same time."""
    valid_until: float
    connections: list[Held] = field(default_factory=list)
    """A connection for each request that has taken the turn."""
    leaving: bool = False
    """No further request starts: the host is released when none is in flight."""
    sending: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by the connected request that is sent next."""
    sent: float = -math.inf
    """When the last request was written."""
    surplus: int = 0
    """Permits that are withdrawn on release, because a rule has lowered their number."""

    def is_open(self, now: float) -> bool:
        """Whether a request may start under the lease of the host, or without one."""
        return now <= self.valid_until and not self.leaving

    def held(self) -> Held:
        """Returns a connection that a request to the host can take."""
        return Held(new=not self.turn.answered or self.turn.failures > 0)

    def release(self) -> None:
        """Releases a permit."""
        if self.surplus > 0:
            self.surplus -= 1
        else:
            self.permits.release()


@dataclass(slots=True)
class HostSlots:
    """The slots of leased hosts, and of hosts that are asked without a lease.

    Hosts with the same `unit` share a slot, and at most one of these hosts is leased at once.
    """

    config_of: Callable[[str], PolitenessConfig]
    """The politeness of a host."""
    unit: Callable[[str], str] = str
    """The unit that takes turns: the host itself, or its name."""
    usual_delay: float = math.inf
    """The delay of hosts without rules of their own; see HostTurn."""
    answered: int = field(default=0, init=False)
    """Number of leased hosts that have answered."""
    _leased: dict[str, HostSlot] = field(default_factory=dict, init=False)
    _others: LRUCache[str, HostSlot] = field(init=False)
    _slow_domains: LRUCache[str, float] = field(init=False)
    """Registered domain -> seconds that a first answer of one of its hosts took at most."""

    def __post_init__(self) -> None:
        self._others = LRUCache(_IDLE_HOSTS_KEPT)
        self._slow_domains = LRUCache(_IDLE_HOSTS_KEPT)

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
        slot = self._others.pop(unit, None)
        if slot is None:
            slot = self._new(host, failures, valid_until)
            slot.turn.begin_with(gap)
        # keeps the requests in flight and waiting of a host that was asked without a lease
        slot.turn.failures = failures if slot.host != host else max(slot.turn.failures, failures)
        slot.turn.set_delay(delay)
        slot.host, slot.valid_until = host, valid_until
        slot.turn.answered = slot.turn.answered or answered
        before = self._leased.get(unit)
        if before is not None and before.host != host:
            # the other lease was lost; otherwise the engine would not have given this lease
            before.valid_until = -math.inf
        self._leased[unit] = slot
        self.answered += slot.turn.answered - (before is not None and before.turn.answered)
        return slot.turn

    def leased_of(self, unit: str) -> str | None:
        """Returns the host that this worker has leased and that takes turns as this unit, or None."""
        slot = self._leased.get(unit)
        return None if slot is None else slot.host

    def is_open(self, host: str) -> bool:
        """Whether this worker has leased a host, or a host that shares its turn."""
        return self.unit(host) in self._leased

    def extend(self, host: str, valid_until: float) -> None:
        """Records that the lease of a host was extended."""
        if slot := self._of_lease(host):
            slot.valid_until = valid_until

    def leave(self, host: str) -> bool:
        """Lets no further request to a leased host start; returns True if none is in flight: it can be released.

        Requests that wait for the turn get LeaseLost.
        """
        slot = self._of_lease(host)
        if slot is None:
            return True
        slot.leaving = True
        return not slot.turn.in_flight

    def close(self, host: str) -> None:
        """Closes a host that is no longer leased: requests waiting for a turn get LeaseLost."""
        if slot := self._of_lease(host):
            del self._leased[self.unit(host)]
            slot.valid_until = -math.inf
            self.answered -= slot.turn.answered

    def has_answered(self, host: str, seconds: float = 0.0) -> None:
        """Records that a host has answered a request, which took it some seconds."""
        turn = self.of(host).turn
        if not turn.answered:
            turn.answered = True
            self.answered += self.is_open(host)
            if seconds * _PATIENCE > FIRST_ANSWER_SECONDS:
                domain = registered_domain(hostname(host))
                self._slow_domains[domain] = max(seconds, self._slow_domains.get(domain, 0.0))

    def patience(self, host: str, turn: HostTurn, attempts: int) -> float:
        """Returns the seconds in which a host must begin its answer; infinite if it has answered before.

        At first it has FIRST_ANSWER_SECONDS, or three times as long as another host of its domain took. It has three
        times as long after each failure, and any time at the last of so many `attempts`.
        """
        if turn.answered or turn.failures + 1 >= min(attempts, self.config_of(host).max_failures):
            return math.inf
        known = self._slow_domains.get(registered_domain(hostname(host)), 0.0)
        return max(FIRST_ANSWER_SECONDS, _PATIENCE * known) * _PATIENCE**turn.failures

    def of(self, host: str) -> HostSlot:
        """Returns the slot of a host, whether it is leased or not."""
        unit = self.unit(host)
        if slot := self._leased.get(unit):
            return slot
        slot = self._others.get(unit)
        if slot is None:
            slot = self._others[unit] = self._new(host, 0, math.inf)
        return slot

    def reconfigure(self) -> list[str]:
        """Applies changed politeness to all known hosts; returns the hosts whose gap has changed."""
        changed = []
        for slot in (*self._leased.values(), *self._others.values()):
            before, config = slot.turn.concurrency, self.config_of(slot.host)
            if slot.turn.set_config(config):
                changed.append(slot.host)
            # with fewer permits, the turn itself lets no request start until enough have ended
            slot.surplus += before - config.concurrency
            while slot.surplus < 0:
                slot.surplus += 1
                slot.permits.release()
        return changed

    def _of_lease(self, host: str) -> HostSlot | None:
        """Returns the slot of a leased host; None if the lease was lost: another host of the name may have the slot."""
        slot = self._leased.get(self.unit(host))
        return slot if slot is not None and slot.host == host else None

    def _new(self, host: str, failures: int, valid_until: float) -> HostSlot:
        config = self.config_of(host)
        turn = HostTurn(config, None, failures, now=time.monotonic(), usual_delay=self.usual_delay)
        return HostSlot(host, turn, asyncio.Semaphore(config.concurrency), valid_until)


class Gate(Protocol):
    """What a request waits for besides the turn of its host."""

    async def enter(self, ending: asyncio.Event) -> None:
        """Waits; returns early when `ending` is set."""

    def leave(self) -> None:
        """Withdraws a request that is not sent."""

    def is_open(self) -> bool:
        """Whether the request may be sent now that it has its connection; otherwise it enters again."""


async def until_due(host: str, slot: HostSlot, ending: asyncio.Event) -> None:
    """Waits for the host's turn; raises LeaseLost, Abandoned."""
    while True:
        now = time.monotonic()
        if ending.is_set():
            raise Abandoned(f"the crawl ends before {host} may be asked")
        if not slot.is_open(now):
            raise LeaseLost(f"the lease of {host} ends or has expired")
        if slot.turn.may_start(now):
            return
        with suppress(TimeoutError):
            until = min(slot.turn.ready_at, slot.valid_until, now + _LOOK_AGAIN_SECONDS)
            seconds = max(0.0005, until - now)
            async with asyncio.timeout(seconds):
                await ending.wait()
