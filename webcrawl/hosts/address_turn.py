"""The arithmetic of one worker's turn at an IP address, without clock, network or event loop.

Workers reserve windows of time one after another (lua/address.lua). Only in its window may a worker start requests to
the address, `delay` apart; started requests may end later. So the worker asks the engine once for many requests,
and the other workers know when their turn comes.
"""

from __future__ import annotations

import math
from ipaddress import IPv4Address, IPv6Network, ip_address
from typing import NamedTuple

LEAD = 0.5
"""Seconds before its window in which a worker already opens connections."""
_WINDOW = 1.0
"""The longest window in seconds while other workers wait, unless the delay is longer."""
_PER_REQUEST = 0.1
"""Seconds for each request of a window without a delay."""
_LEAST_SLACK, _MOST_SLACK = 0.015, 0.05
"""Seconds by which the requests of a window may be late, a quarter of the delay within these bounds."""
_WRITE_SECONDS = 0.005
"""Seconds at the end of a window in which no request starts, because a started request must still be written."""
_LONG_IDLE = 86_400.0


class Ask(NamedTuple):
    """What a worker asks of the engine; durations in seconds.

    length       length of the window that the worker wants; None if it wants no window
    at_once      length of the window if it begins at once, before any request has connected
    last         `Grant.ends` of the worker's last window; "" without a last window
    idle         time since the last request in the last window
    connections  connections that the worker wants; `in_use` of them are in use and cannot be taken back
    """

    address: str
    length: float | None
    at_once: float
    last: str
    idle: float
    connections: int
    in_use: int


class Grant(NamedTuple):
    """The reply of the engine. The window begins in `wait` seconds; `ends` is its end by the engine's clock."""

    wait: float
    length: float
    ends: str
    connections: int


class AddressTurn:
    """When this worker may send requests to an address. Times are seconds of one monotonic clock.

    `delay` is in seconds, `connections` the limit over all workers; 0 means none.
    """

    __slots__ = (
        "_held_until",
        "_last",
        "_window",
        "begins",
        "connections",
        "delay",
        "ends",
        "held",
        "in_flight",
    )

    def __init__(self, delay: float, connections: int) -> None:
        self.delay, self.connections = delay, connections
        self.begins = self.ends = -math.inf
        """The window: the first and the last moment at which a request may be started."""
        self.in_flight = 0
        self.held = 0
        """Connections that the engine keeps for this worker."""
        self._held_until = -math.inf
        self._last = -math.inf
        self._window = ""

    def is_over(self, now: float) -> bool:
        """Whether the window has ended, so that the next may be asked for."""
        return now > max(self.begins, self.ends)

    @property
    def is_full(self) -> bool:
        """Whether all connections that this worker holds are in use."""
        return bool(self.connections) and self.in_flight >= self.held

    @property
    def most_ahead(self) -> int:
        """How many requests may connect before their time has come."""
        most = min(16, math.ceil(LEAD / self.delay) + 1) if self.delay > 0 else 16
        return min(most, self.connections) if self.connections else most

    @property
    def most_in_window(self) -> int:
        """How many requests a window has room for."""
        return max(1, int(_WINDOW / (self.delay or _PER_REQUEST)))

    def ask(self, address: str, waiting: int, now: float) -> Ask:
        """Returns what to ask of the engine for waiting requests when the last window is over."""
        number = max(1, min(waiting, self.most_in_window))
        length = (number - 1) * (self.delay or _PER_REQUEST)
        slack = min(max(self.delay / 4, _LEAST_SLACK), _MOST_SLACK)
        idle = min(now - self._last, _LONG_IDLE) if self._last >= self.begins else _LONG_IDLE
        ask = self.ask_connections(address, waiting)
        return ask._replace(length=length + slack, at_once=length + LEAD, last=self._window, idle=idle)

    def ask_connections(self, address: str, waiting: int) -> Ask:
        """Returns what to ask of the engine when only connections are needed, for requests in flight and waiting."""
        wanted = min(self.connections, self.in_flight + waiting)
        return Ask(address, None, 0.0, "", 0.0, wanted, self.in_flight)

    def asks(self, ask: Ask) -> None:
        """Gives up the connections that `ask` does not want; must be called before the engine is asked.

        Otherwise a request could start over a connection that the engine is giving to another worker.
        """
        self.held = min(self.held, ask.connections)

    def take(self, ask: Ask, grant: Grant, asked: float, now: float, held_for: float) -> None:
        """Applies a grant of the engine, which was asked at `asked` and had answered by `now`.

        The engine read its clock in between. So the window begins late and ends early.
        """
        if ask.length is not None:
            self.begins = now + grant.wait
            self.ends = asked + grant.wait + grant.length - _WRITE_SECONDS
            self._window = grant.ends
        self.held, self._held_until = grant.connections, asked + held_for

    def forget(self) -> None:
        """Gives up the window, because the engine may have forgotten it."""
        self.begins = self.ends = -math.inf
        self._window = ""

    def may_start(self, now: float) -> bool:
        """Whether a request may be sent at `now`."""
        if self.connections and (self.is_full or now > self._held_until):
            return False
        return self.begins <= now <= self.ends and now >= self._last + self.delay

    def ready_at(self) -> float:
        """When the next request may be sent; infinite if this is not known."""
        ready = max(self.begins, self._last + self.delay)
        return math.inf if self.is_full or ready > self.ends else ready

    def start(self, now: float) -> None:
        """Records that a request is sent; raises RuntimeError if it is too early or too late."""
        if not self.may_start(now):
            raise RuntimeError(f"request sent at {now}, outside of {self.begins} to {self.ends} or too early")
        self.in_flight += 1
        self._last = now

    def written(self, now: float) -> None:
        """Records that a started request is written; the process may have been suspended since it was started."""
        self._last = max(self._last, now)

    def finish(self) -> None:
        """Records that a request has ended."""
        self.in_flight -= 1


def turn_of(address: str) -> str:
    """Returns the unit of a turn: an IPv4 address, or the /64 of an IPv6 address, which often is one server."""
    ip = ip_address(address.partition("%")[0])
    if isinstance(ip, IPv4Address):
        return str(ip)
    if ip.ipv4_mapped:
        return str(ip.ipv4_mapped)
    return str(IPv6Network((ip, 64), strict=False))
