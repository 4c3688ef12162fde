"""What the next requests to leased hosts wait for."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from webcrawl.hosts.politeness import HostTurn
from webcrawl.worker.leased_host import LeasedHost
from webcrawl.worker.leased_hosts import LeasedHosts


class Stage(StrEnum):
    """Where a leased host is on the way to its next request."""

    DUE = "due"
    """The host may be asked now, and this worker has not sent the request yet."""
    TURN = "turn"
    """The delay, Crawl-delay or back-off of the host is not over."""
    NETWORK = "network"
    """A response, a robots.txt, the address of the host or a connection is awaited."""
    PROCESSING = "processing"
    """All leased URLs of the host are fetched, and some of its pages are still parsed or stored."""
    ENGINE = "engine"
    """Its results or links are to be sent to the engine, which then gives more URLs."""


class LeasedHostState(NamedTuple):
    """A leased host on the way to its next request.

    `gap`: seconds from one request to the next. `urls`: number of URLs that are leased and not handed out. `has_more`:
    the engine may have more URLs of the host.
    """

    host: str
    stage: Stage
    gap: float
    urls: int
    has_more: bool


class HostStages:
    """Reads the states of leased hosts, at most `most` at a time, in turn."""

    def __init__(self, most: int = 1_000) -> None:
        self._most = most
        self._from = 0

    def next(self, hosts: LeasedHosts, now: float) -> list[LeasedHostState]:
        """Returns the states of the next hosts at the monotonic time `now`."""
        return [_state_of(host, now) for host in self._some(hosts)]

    def _some(self, hosts: LeasedHosts) -> Iterable[LeasedHost]:
        size = len(hosts)
        if size <= self._most:
            return hosts
        first = self._from % size
        self._from = first + self._most
        return itertools.islice(hosts, first, first + self._most)


def _state_of(host: LeasedHost, now: float) -> LeasedHostState:
    return LeasedHostState(
        host.lease.host,
        stage_of(host, now),
        _gap_of(host.turn),
        len(host.urls),
        not (host.drained or host.leaving),
    )


def _gap_of(turn: HostTurn) -> float:
    """Returns the seconds from one request to the next, if answers take as long as the last answer."""
    if turn.concurrency == 1:
        return turn.gap + turn.latency
    return max(turn.gap, turn.latency / turn.concurrency)


def stage_of(host: LeasedHost, now: float) -> Stage:
    """Returns the stage of a leased host at the monotonic time `now`."""
    turn = host.turn
    if host.may_start and turn.may_start(now):
        return Stage.DUE
    if turn.in_flight:
        return Stage.NETWORK
    if host.in_flight or host.may_start:
        return Stage.NETWORK if turn.may_start(now) else Stage.TURN
    if not host.adding and host.unsettled > len(host.urls):
        return Stage.PROCESSING
    return Stage.ENGINE
