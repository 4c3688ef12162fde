"""The places of hosts, or of the hosts of a name, among the turns of a worker."""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from webcrawl.config import PolitenessConfig
from webcrawl.hosts.place import Place
from webcrawl.hosts.politeness import HostTurn

_IDLE_HOSTS_KEPT = 10_000


@dataclass(slots=True)
class Places:
    """The places of leased hosts, and of those that are asked without a lease.

    Hosts with the same `unit` share a place, and one of them at most is leased at once.
    """

    config_of: Callable[[str], PolitenessConfig]
    """The politeness of a host."""
    unit: Callable[[str], str] = str
    """What takes turns for a host."""
    answered: int = field(default=0, init=False)
    """Number of leased hosts that have answered."""
    _leased: dict[str, Place] = field(default_factory=dict, init=False)
    _others: OrderedDict[str, Place] = field(default_factory=OrderedDict, init=False)

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
            place = self._new(host, failures, valid_until)
            place.turn.begin_with(gap)
        # keeps the requests in flight and waiting of a host that was asked without a lease
        place.turn.failures = failures if place.host != host else max(place.turn.failures, failures)
        place.turn.set_delay(delay)
        place.host, place.valid_until = host, valid_until
        place.turn.answered = place.turn.answered or answered
        before = self._leased.get(unit)
        if before is not None and before.host != host:
            before.valid_until = -math.inf  # its lease was lost, or this one would not have been given
        self._leased[unit] = place
        self.answered += place.turn.answered - (before is not None and before.turn.answered)
        return place.turn

    def is_open(self, host: str) -> bool:
        """Whether this worker has leased a host, or another one that shares its turn."""
        return self.unit(host) in self._leased

    def extend(self, host: str, valid_until: float) -> None:
        """Records that the lease of a host was extended."""
        if place := self._of_lease(host):
            place.valid_until = valid_until

    def leave(self, host: str) -> bool:
        """Lets no further request to a leased host start; returns whether none is in flight, and it may be released.

        Requests that wait for the turn get LeaseLost.
        """
        place = self._of_lease(host)
        if place is None:
            return True
        place.leaving = True
        return not place.turn.in_flight

    def close(self, host: str) -> None:
        """Closes a host that is no longer leased: requests waiting for a turn get LeaseLost."""
        if place := self._of_lease(host):
            del self._leased[self.unit(host)]
            place.valid_until = -math.inf
            self.answered -= place.turn.answered

    def has_answered(self, host: str) -> None:
        """Records that a host has answered a request."""
        turn = self.of(host).turn
        if not turn.answered:
            turn.answered = True
            self.answered += self.is_open(host)

    def of(self, host: str) -> Place:
        """Returns the place of a host, whether it is leased or not."""
        unit = self.unit(host)
        if place := self._leased.get(unit):
            return place
        place = self._others.get(unit)
        if place is None:
            place = self._others[unit] = self._new(host, 0, math.inf)
            if len(self._others) > _IDLE_HOSTS_KEPT:
                self._others.popitem(last=False)
        else:
            self._others.move_to_end(unit)
        return place

    def reconfigure(self) -> list[str]:
        """Applies changed politeness to the hosts that are known; returns those whose gap has changed."""
        changed = []
        for place in (*self._leased.values(), *self._others.values()):
            before, config = place.turn.concurrency, self.config_of(place.host)
            if place.turn.set_config(config):
                changed.append(place.host)
            # a smaller number needs no more than the turn, which lets no request start meanwhile
            place.surplus += before - config.concurrency
            while place.surplus < 0:
                place.surplus += 1
                place.slots.release()
        return changed

    def _of_lease(self, host: str) -> Place | None:
        """The place of a leased host. If its lease was lost, another one of its name may have it."""
        place = self._leased.get(self.unit(host))
        return place if place is not None and place.host == host else None

    def _new(self, host: str, failures: int, valid_until: float) -> Place:
        config = self.config_of(host)
        turn = HostTurn(config, None, failures, now=time.monotonic())
        return Place(host, turn, asyncio.Semaphore(config.concurrency), valid_until)
