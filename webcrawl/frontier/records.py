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
    """Seconds between two requests that an operator set for the host, if any; as of the last heartbeat."""
    urls: list[LeasedURL]
    gap: float = 0.0
    """Seconds that the worker keeps between two requests; the server keeps them too should the worker die."""


@dataclass(frozen=True, slots=True)
class Settlement:
    """What became of one leased URL.

    Done for good; done, but to be fetched `again` after `delay` seconds; to be retried after `delay` seconds, with an
    attempt counted; or dead with a reason. `pages` and `bytes` are what was got by it.
    """

    index: int
    verdict: Literal["done", "again", "retry", "dead"] = "done"
    delay: float = 0.0
    reason: str = ""
    pages: int = 0
    bytes: int = 0


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
    parked: int
    """Of those queued: of hosts that are blocked, or whose budget is spent."""
    leased: int
    later: int
    scheduled: int
    seen: int
    added: int
    done: int
    dead: int
    reaped: int
    refused: int
    """Acknowledgements of leases that had been lost."""
    spilled: int = 0
    """URLs in the store: of those queued, and dead letters of hosts that were given up with long queues."""
    lost_segments: int = 0
    """Parts of queues that were damaged or gone when they were to be read back: their URLs are lost."""

    @property
    def open(self) -> int:
        """URLs that still have to be crawled, now or when their retry is due."""
        return self.queued - self.parked + self.leased + self.later


@dataclass(frozen=True, slots=True)
class HostLimits:
    """The most that a crawl takes from one host: pages, bytes of responses, depth. None: no limit of its own."""

    pages: int | None = None
    bytes: int | None = None
    depth: int | None = None

    def encoded(self) -> str:
        return " ".join("-" if one is None else str(one) for one in (self.pages, self.bytes, self.depth))

    @classmethod
    def decoded(cls, text: str) -> HostLimits:
        return cls(*(None if one == "-" else int(one) for one in text.split()))


@dataclass(frozen=True, slots=True)
class HostState:
    """All that is known of one host. `parked`: "blocked", "budget" or None; times in seconds."""

    host: str
    queued: int
    leased: bool
    parked: str | None
    pages: int
    bytes: int
    limits: HostLimits
    delay: float | None
    waits: float
    """Until it may be asked again."""
    failures: int


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
