"""What the verbs of the frontier take and return."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from webcrawl.frontier.entry import LeasedURL


@dataclass(slots=True)
class Lease:
    """A host that this worker alone may ask, until it gives the host back or the lease runs out."""

    host: str
    token: int
    failures: int
    delay: float | None
    """Seconds between two requests that an operator or robots.txt set for the host, if any."""
    urls: list[LeasedURL]
    gap: float = 0.0
    """Seconds that the worker keeps between two requests; the server keeps them too should the worker die."""


@dataclass(frozen=True, slots=True)
class Settlement:
    """What became of one leased URL: done for good, to be retried after `delay` seconds, or dead with a reason."""

    index: int
    verdict: Literal["done", "retry", "dead"] = "done"
    delay: float = 0.0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """What a worker says of one lease: URLs settled, how many more it wants, or that it gives the host back.

    `pause`: seconds in which nobody may ask the host that is given back, or -1 to keep it. `quiet`: seconds after which
    the server may forget the host's failures.
    """

    lease: Lease
    settled: Sequence[Settlement]
    more: int = 0
    pause: float = -1.0
    quiet: float = 3600.0


@dataclass(frozen=True, slots=True)
class Counts:
    """The frontier in numbers, over all shards."""

    queued: int
    leased: int
    later: int
    seen: int
    added: int
    done: int
    dead: int
    reaped: int

    @property
    def open(self) -> int:
        """URLs that still have to be crawled."""
        return self.queued + self.leased + self.later


@dataclass(frozen=True, slots=True)
class HostQueue:
    """One host in `hosts()`: its URLs waiting, and whether a worker has it."""

    host: str
    queued: int
    leased: bool


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A URL that was given up: never lost, but not tried again unless requeued."""

    url: str
    reason: str
    time: float
    attempts: int
