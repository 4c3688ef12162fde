"""The causes that limit a crawl's speed: the shares of what the next requests to its hosts wait for.

Each leased host waits for one thing before its next request. Hosts gather where they wait longest, so the causes with
the largest shares are what limits the crawl.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from webcrawl.crawler.report.stages import Stage

_LOOKS = 20
"""The number of looks whose mean is shown, those of ten seconds."""
_LEAST_SHOWN = 0.05


class Cause(StrEnum):
    """What a crawl waits for; docs/guide/watch-a-crawl.md explains each cause."""

    POLITENESS = "politeness"
    NETWORK = "network"
    PARSER = "parser"
    STORES = "stores"
    ENGINE = "engine"
    RETRIES = "retries"


@dataclass(frozen=True, slots=True)
class Look:
    """The state of one worker at one moment.

    `hosts`: stage -> leased hosts. `processed`: pages that are parsed or stored, of which stores write `written`.
    `has_connections`: a connection is free. `is_full`: the processed pages take so much memory that fetching pauses.
    `holds`: the stores accept nothing. `engine_is_away`: the engine does not answer, or too many links wait for it.
    `queued`, `retrying`: URLs of the crawl that no worker has; URLs that failed before are in `retrying` alone.
    """

    hosts: Mapping[Stage, int]
    processed: int = 0
    written: int = 0
    has_connections: bool = True
    is_full: bool = False
    holds: bool = False
    engine_is_away: bool = False
    queued: int = 0
    retrying: int = 0


def causes(look: Look) -> dict[Cause, float]:
    """Returns the shares of the causes, which add up to 1; empty if the crawl waits for nothing."""
    if look.engine_is_away:
        return {Cause.ENGINE: 1.0}
    if look.holds:
        return {Cause.STORES: 1.0}
    hosts, waiting = look.hosts, Counter[Cause]()
    waiting[Cause.POLITENESS] += hosts.get(Stage.TURN, 0)
    waiting[Cause.NETWORK] += hosts.get(Stage.NETWORK, 0)
    waiting[Cause.ENGINE] += hosts.get(Stage.ENGINE, 0)
    waiting[_processing(look)] += hosts.get(Stage.PROCESSING, 0)
    waiting[_not_sent(look)] += hosts.get(Stage.DUE, 0)
    if not waiting.total() and (alone := _without_hosts(look)):
        waiting[alone] = 1
    return {cause: number / waiting.total() for cause, number in waiting.items() if number}


def _processing(look: Look) -> Cause:
    """Returns what most fetched pages wait for."""
    return Cause.STORES if 2 * look.written > look.processed else Cause.PARSER


def _not_sent(look: Look) -> Cause:
    """Returns why hosts that may be asked are not asked."""
    if look.is_full or look.has_connections:
        return _processing(look)
    return Cause.NETWORK


def _without_hosts(look: Look) -> Cause | None:
    """Returns what the crawl waits for while no host is leased."""
    if look.processed:
        return _processing(look)
    if look.queued:
        return Cause.POLITENESS
    return Cause.RETRIES if look.retrying else None


class Shares:
    """The mean shares of the causes over the last looks."""

    def __init__(self) -> None:
        self._looks: deque[dict[Cause, float]] = deque(maxlen=_LOOKS)

    def add(self, look: Look) -> None:
        """Adds a look; a look without a cause does not count."""
        if shares := causes(look):
            self._looks.append(shares)

    def clear(self) -> None:
        """Forgets all looks: the crawl was paused or ends."""
        self._looks.clear()

    def mean(self) -> dict[Cause, float]:
        """Returns the shares, the largest first; empty without a look."""
        total = Counter[Cause]()
        for look in self._looks:
            total.update(look)
        return {cause: share / len(self._looks) for cause, share in total.most_common()}

    def line(self) -> str:
        """The shares in words, without those below 5 %: "waits for: politeness 92%, network 8%"; "" without a look."""
        shown = [f"{cause} {share:.0%}" for cause, share in self.mean().items() if share >= _LEAST_SHOWN]
        return f"waits for: {', '.join(shown)}" if shown else ""
