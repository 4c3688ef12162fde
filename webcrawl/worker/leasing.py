"""Leases hosts ahead of need: how many, when a worker may use them, and whether the engine still knows the leases."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from webcrawl.engine.backoff import SHUTDOWN_SECONDS, Backoff, IdleTime, Polling
from webcrawl.engine.client import Engine
from webcrawl.frontier import Frontier, Lease
from webcrawl.hosts.address_turns import AddressTurns
from webcrawl.hosts.turns import Turns
from webcrawl.http.requests import STRAY_SECONDS
from webcrawl.policies.traffic import CLASSES
from webcrawl.worker.leased_hosts import LeasedHosts
from webcrawl.worker.membership import Membership
from webcrawl.worker.rule_changes import RuleChanges

logger = logging.getLogger(__name__)

_GROWTH, _GROWTH_A_DELAY = 1.25, 1.6
"""The most by which the window grows at once, and within a delay: after that, it is known whether hosts are late."""
_DECLINE = 0.98
_LEAST = 1 / 4
"""Share of its usual size below which the window does not shrink."""
_LATE = 0.15
"""Share of the gap of a host by which requests may be late; if they are later, the window shrinks."""
_USABLE = 0.8
"""Share of a lease in which requests may be sent; the rest is for the last response."""
_POLL_SECONDS, _LONGEST_POLL, _LONGEST_FIRST_POLL = 0.1, 1.0, 0.2
"""Seconds until a worker that got no hosts asks for hosts again; the last for a crawl that comes before all others."""
_LONGEST_RETRY = 5.0
_CLASSES_SECONDS = 1.0
_OF_CLASS = 1 / 8
"""If fewer of the hosts of a full window have URLs of a class, more are leased for it."""


class LeaseWindow:
    """The number of hosts that a worker holds at once, between `least` and `most`.

    A host may be asked once in its delay, so `size` hosts allow `size / delay` requests a second. More hosts than this
    worker can ask only make each of them wait. So the size follows the lateness of requests, as the congestion window
    of TCP Vegas follows the delay of packets (Brakmo and Peterson, 1995): it grows from `usual` while all its hosts are
    leased, none is due or asked late, and connections are free. It shrinks, to a quarter of `usual` at least, while
    hosts are due that are asked late or for which no connection is free. Other workers can then serve these hosts. The
    larger the window, the fewer URLs of each host are leased ahead, because leased URLs take memory.

    New hosts, which never answered, may be leased for long without a request, as while no nameserver answers. New hosts
    therefore get only the part of the window that hosts which answered leave free, and at least a quarter of it. Hosts
    that answered never wait for new hosts. New hosts that were asked and are silent have connections of their own, and
    do not count: other new hosts never wait for their timeout. Hosts with a page that is unread count as new, so that
    any number of hosts with costly pages leaves the places of others free.

    A new host that has answered counts for this quarter until its slice is over, in which it keeps its place. Otherwise
    new hosts would be asked for a page each while the hosts that were begun wait for all of them.
    """

    def __init__(self, usual: int, most: int, urls: int, delay: float = 0.0) -> None:
        """`delay`: the usual seconds between two requests to a host."""
        self._delay, self._updated = delay, -math.inf
        self._usual = usual
        self._least = max(1, usual * _LEAST)
        self._most = max(usual, most)
        self._urls = urls
        self._size = float(usual)

    @property
    def size(self) -> int:
        """Hosts."""
        return int(self._size)

    @property
    def urls(self) -> int:
        """URLs of a host that are leased ahead."""
        return max(2, int(self._urls * self._usual / self._size)) if self.size > self._usual else self._urls

    @property
    def _least_new(self) -> int:
        return self.size // 4

    def room(self, *, answered: int, new: int, begun: int = 0) -> tuple[int, int]:
        """Returns how many more hosts to lease: hosts that answered, and new hosts.

        `answered`, `new`: hosts of each kind that are leased. `begun`: hosts that were new when they were leased, and
        whose slice is not over.
        """
        left = max(0, self.size - answered)
        return left, max(0, left - new, self._least_new - max(new, begun))

    def update(
        self, now: float, *, answered: int, new: int, due: bool, connections: bool, late: float = 0.0
    ) -> None:
        """Adapts the size at the monotonic time `now`; call it before each lease.

        `answered`, `new`: hosts of each kind that are leased. `due`: a host may be asked now. `connections`: some are
        free. `late`: by which share of their gap hosts were asked late.
        """
        size, seconds, self._updated = self._size, now - self._updated, now
        if due and late > _LATE:
            size = min(size, (answered + new) / (1 + late))  # so many would be asked in time
        if due and not connections:
            size *= _DECLINE
        is_full = answered + min(new, self._least_new) >= self.size
        if connections and not due and late <= _LATE and is_full:
            growth = _GROWTH_A_DELAY ** (seconds / self._delay) if self._delay else _GROWTH
            size = min(size * min(growth, _GROWTH) + 1, self._most)
        self._size = max(size, min(self._size, self._least))


class LeaseSafety:
    """The times at which leases may be used, taken and reaped.

    All times are monotonic. `delay` is the pause between two requests to a host, in seconds. `addresses` are the turns
    of IP addresses, which are left to other workers together with the leases; None without limits for addresses.
    """

    def __init__(self, lease_seconds: float, delay: float, addresses: AddressTurns | None = None) -> None:
        self.delay = delay
        self._lease_seconds = lease_seconds
        self._addresses = addresses
        self._lease_at = -math.inf
        self._reap_at = 0.0

    @property
    def answer_seconds(self) -> float:
        """How long a response may take to a request sent at the last usable moment of a lease."""
        return (1 - _USABLE) * self._lease_seconds

    @property
    def reaped_seconds(self) -> float:
        """How long the last request of a dead worker, and its response, may take after the end of its lease.

        The system of a worker that is cut off sends a request again until the lease ends (see `crawler.download.http`).
        The last packet may then wait for the network to return.
        """
        return self.answer_seconds + STRAY_SECONDS

    def until(self, asked: float) -> float:
        """Until when a lease that was requested or extended at `asked` may be used."""
        return asked + _USABLE * self._lease_seconds

    def leave_to_others(self, now: float) -> None:
        """Leaves hosts and addresses to other workers for a while, because the engine may not know their leases.

        A restarted engine may have lost them, and their holders need the time to notice it.
        """
        self._lease_at = now + self.answer_seconds + self.delay
        # if the engine's clock is ahead, leases of other workers only seem to have expired
        self._reap_at = now + self._lease_seconds
        if self._addresses is not None:
            self._addresses.engine_restarted(self.answer_seconds)

    def may_lease(self, now: float) -> bool:
        return now >= self._lease_at

    def may_reap(self, sent: float, last: float) -> bool:
        """Whether the heartbeat sent at `sent`, after the heartbeat at `last`, may take back expired leases.

        After a gap in which leases may have expired, the worker waits for the length of a lease: other workers may have
        had the same outage and are about to extend their leases.
        """
        if self._lease_seconds / 2 < sent - last < math.inf:
            self._reap_at = sent + self._lease_seconds
        return sent >= self._reap_at


@dataclass(slots=True)
class HostLeasing:
    """Leases hosts, and makes their URLs available."""

    frontier: Frontier
    turns: Turns
    hosts: LeasedHosts
    membership: Membership
    window: LeaseWindow
    safety: LeaseSafety
    rules: RuleChanges
    idle: IdleTime
    _polling: Polling = field(init=False)
    """The attempts to lease after an attempt that gave nothing."""
    _classes_at: float = field(default=0.0, init=False)
    """Monotonic time of the next look for classes that few leased hosts have (TRAFFIC)."""

    def __post_init__(self) -> None:
        longest = _LONGEST_POLL if self.frontier.weight > 0 else _LONGEST_FIRST_POLL
        self._polling = Polling(self.idle.seconds, _POLL_SECONDS, longest)

    async def lease(self) -> None:
        """Leases as many hosts as are needed now, if there are any."""
        asked = time.monotonic()
        answered = self.turns.served
        held = len(self.hosts) - len(self.hosts.handed_over)
        new = max(0, held - answered - self.turns.silent)
        self.window.update(
            asked,
            answered=answered,
            new=new,
            due=self.hosts.next_at() <= asked,
            connections=self.turns.has_room,
            late=self.hosts.lateness.share(asked),
        )
        begun = max(0, self.hosts.begun(asked) - self.turns.silent)
        hosts, new = self.window.room(answered=answered, new=new, begun=begun)
        enough_of = frozenset[str]()
        if not hosts and self.frontier.traffic is not None:
            hosts, enough_of = self._room_of_classes(asked)
        if not (hosts or new) or not self._polling.is_due or not self.safety.may_lease(asked):
            return
        leases = await self.frontier.lease(
            hosts, self.window.urls, self.membership.served(), new=new, enough_of=enough_of
        )
        if leases:
            self.retry_now()
        else:
            self._polling.polled()
        self._open(leases, asked)

    def _room_of_classes(self, now: float) -> tuple[int, frozenset[str]]:
        """Returns how many hosts to lease beyond the window for classes that few of its hosts have, and the others.

        Once in a while. Otherwise the window could be full of hosts whose class has no turn.
        """
        if now < self._classes_at:
            return 0, frozenset()
        self._classes_at = now + _CLASSES_SECONDS
        most, hosts = max(1, int(self.window.size * _OF_CLASS)), self.hosts.hosts_of_classes()
        enough_of = frozenset(name for name in CLASSES if hosts[name] >= most)
        return most if len(enough_of) < len(CLASSES) else 0, enough_of

    async def regain(self) -> None:
        """Takes the leases that the engine gave in replies which did not arrive."""
        asked = time.monotonic()
        self._open(await self.frontier.regain(), asked)

    def retry_now(self) -> None:
        """Makes `lease` ask the engine, although it had no hosts last: there are new URLs."""
        self.idle.end()
        self._polling.reset()

    def _open(self, leases: Iterable[Lease], asked: float) -> None:
        """Makes the URLs of new leases available; `asked` is the monotonic time of the call."""
        for lease in leases:
            self.hosts.open(lease, self.safety.until(asked))
            self.rules.check(lease)


@dataclass(slots=True)
class EngineWatch:
    """Whether the engine answers, and whether it was restarted.

    `ending` is set when the crawl ends. `longest_wait`: seconds between two attempts to reach the engine, at most.
    After a restart, other workers lease hosts only when the holders of these hosts had time to notice it.
    """

    engine: Engine
    ending: asyncio.Event
    longest_wait: float
    _known: list[str] = field(default_factory=list, init=False)
    """The servers, as of the last restart that was handled."""
    _latest: list[str] = field(default_factory=list, init=False)
    _connections: int = field(default=0, init=False)
    _doubted: bool = field(default=True, init=False)
    _retries: Backoff | None = field(default=None, init=False)
    """The attempts since the engine became unavailable."""

    @property
    def is_away(self) -> bool:
        """Whether the engine did not answer last."""
        return self._retries is not None

    @property
    def has_reconnected(self) -> bool:
        """Whether `was_restarted` has to be called again: calls of another task may have noticed a loss."""
        return self.engine.connections != self._connections

    async def was_restarted(self) -> bool:
        """Whether the engine was restarted or failed over since the last call of `restart_handled`."""
        if self._doubted or self.has_reconnected:
            self._doubted, self._connections = True, self.engine.connections
            self._latest = await self.engine.servers()
            self._known = self._known or self._latest
            self._doubted = self._latest != self._known
        return self._doubted

    def restart_handled(self) -> None:
        """Marks the detected restart as handled."""
        self._known, self._doubted = self._latest, False

    def answered(self) -> None:
        """Ends an outage, if there was one."""
        if self._retries is not None:
            logger.warning("The engine is available again; the crawl continues.")
        self._retries = None

    async def wait(self, error: BaseException, *, closing: bool) -> bool:
        """Waits before the next attempt to reach the engine; returns False when it is time to give up.

        Fetches and pipelines go on meanwhile. Their results are reported if the engine returns before they end.
        """
        self._doubted = True
        if self._retries is None:
            logger.warning("The engine is unavailable (%s). The crawl waits for it; nothing is lost.", error)
            self._retries = Backoff(
                SHUTDOWN_SECONDS, self.ending, longest=min(self.longest_wait, _LONGEST_RETRY)
            )
        if self._retries.is_over and closing:
            logger.error("The engine is still unavailable. Closing without a last report; the leases expire.")
            return False
        await self._retries.pause()
        return True
