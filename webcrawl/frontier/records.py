"""The arguments and results of the frontier's verbs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgpack

from webcrawl.frontier.entry import LeasedURL, decode_urls


@dataclass(slots=True)
class Lease:
    """A host that only this worker may ask, until it releases the host or the lease expires."""

    host: str
    token: int
    failures: int
    delay: float | None
    """Seconds between two requests that an operator has set for the host, by the last heartbeat."""
    urls: list[LeasedURL]
    answered: bool = False
    """Whether the host has answered a worker, now or within the last hour."""
    patterns: bytes = b""
    """The packed records of its URL patterns (webcrawl.policies.pattern_records); empty if none has sunk."""
    gap: float = 0.0
    """Seconds that the worker keeps between two requests; the engine keeps them too if the worker dies."""
    ruled: int | None = None
    """The limit of pages by the host's rule, as stored in the engine."""
    dust: bytes = b""
    """The packed evidence for its DUST rules (webcrawl.policies.dust); empty without evidence."""
    dust_off: frozenset[str] = frozenset()
    """The DUST rules that an operator has switched off."""
    over: str = ""
    """The owner over its budget, as stored in the engine: the host's name or registered domain, and its penalty."""

    @classmethod
    def decode(cls, reply: Any) -> Lease:
        """Decodes a lease in the reply of lease.lua or regain.lua."""
        host = reply.host.decode()
        return cls(
            host,
            int(reply.token),
            reply.failures,
            decode_delay(reply.delay_ms),
            decode_urls(host, reply.urls, reply.worths),
            bool(reply.answered),
            reply.patterns,
            reply.gap_ms / 1000,
            None if reply.ruled_pages < 0 else reply.ruled_pages,
            reply.dust or b"",
            rules_off(reply.dust_off),
            reply.over.decode(),
        )


@dataclass(frozen=True, slots=True)
class Settlement:
    """The outcome of one leased URL.

    - "done": finished
    - "again": finished, to be fetched again after `delay` seconds
    - "retry": failed, to be fetched again after `delay` seconds; counts an attempt
    - "dead": a dead letter with a `reason`
    - "sink": queued again, untried, at the level that is the `reason`
    - "back": at the head of its queue again, untried

    `pages` and `bytes` were received for the URL. `failed`: the answer was an error, with a status from 400 on, or was
    missing.
    """

    index: int
    verdict: Literal["done", "again", "retry", "dead", "sink", "back"] = "done"
    delay: float = 0.0
    reason: str = ""
    pages: int = 0
    bytes: int = 0
    links: Sequence[str] = ()
    """The distinct URLs to which the page links, to divide its credit among them."""
    failed: bool = False
    next_class: str | None = None
    """The class of the next fetch of a URL that comes again (webcrawl.policies.traffic); None: the same."""


@dataclass(frozen=True, slots=True)
class LeaseReport:
    """A worker's report on one lease: settled URLs, and the number of `more` wanted URLs or the release of the host.

    With `better_than`, further URLs must be of a better level; with TRAFFIC, none is of a class of `enough_of`.
    `pause`: seconds until the released host may be asked again, or -1 to keep the lease; `asked`: a Retry-After
    asked for the pause; `lets_go`: the host is released, and the lease stays for the URLs that are not settled.
    `quiet`: seconds after which the engine may forget the host's failures. The other fields
    are None if the engine already has them: `patterns`, the packed records of the host's URL patterns, empty
    without records; `dust`, the packed evidence for its DUST rules, empty without evidence; `over`, the owner over
    its budget, empty without such an owner.
    """

    lease: Lease
    settled: Sequence[Settlement]
    more: int = 0
    pause: float = -1.0
    quiet: float = 3600.0
    better_than: int | None = None
    patterns: bytes | None = None
    dust: bytes | None = None
    over: str | None = None
    asked: bool = False
    lets_go: bool = False
    enough_of: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class FrontierCounts:
    """Counters of the frontier, over all shards."""

    queued: int
    parked: int
    """Queued URLs of hosts that are blocked or have spent their budgets."""
    leased: int
    later: int
    scheduled: int
    seen: int
    added: int
    done: int
    dead: int
    dropped: int
    """URLs that an operator has dropped."""
    reaped: int
    refused: int
    """Acknowledgements of lost leases."""
    spilled: int = 0
    """URLs in the store: queued URLs, and dead letters of hosts that were given up with long queues."""
    lost_segments: int = 0
    """Parts of queues that were damaged or missing when they were read; their URLs are lost."""
    overtaken: int = 0
    """Queued entries whose URLs were queued again at a better level; they are passed over when their turn comes."""
    cold: int = 0
    """Known URLs that are only in the store (webcrawl.frontier.cold_seen)."""

    @property
    def open(self) -> int:
        """URLs still to be crawled, now or when their retry is due."""
        return self.queued - self.parked + self.leased + self.later


@dataclass(frozen=True, slots=True)
class HostLimits:
    """Limits of a crawl for one host: pages, bytes of responses, depth. None: the host has no limit of its own.

    `ruled`: the pages that a rule in the settings allows, if `pages` is None.
    """

    pages: int | None = None
    bytes: int | None = None
    depth: int | None = None
    ruled: int | None = None

    def encoded(self) -> str:
        limits = self.pages, self.bytes, self.depth
        return " ".join("-" if limit is None else str(limit) for limit in limits)

    @classmethod
    def decoded(cls, text: str) -> HostLimits:
        return cls(*(None if word == "-" else int(word) for word in text.split()))


@dataclass(frozen=True, slots=True)
class HostStatus:
    """The state of one host. `parked` is "blocked", "budget" or None; times are in seconds."""

    host: str
    queued: int
    leased: bool
    parked: str | None
    pages: int
    bytes: int
    limits: HostLimits
    delay: float | None
    waits: float
    """Time until the host may be asked again."""
    failures: int
    unknown_paths: str | None = None
    """Its answer to a path that cannot exist; None if it was not asked."""
    asked: bool = False
    """Whether the host itself asked for `waits`, by Retry-After."""
    gap: float = 0.0
    """Time between two requests, as the last worker kept it; 0 if no worker asked the host lately."""


@dataclass(frozen=True, slots=True)
class HostQueue:
    """One host of `Operations.hosts`: the number of queued URLs, and whether a worker has leased the host.

    `waiting` URLs wait for another attempt, the first of them for `next_attempt` seconds.
    """

    host: str
    queued: int
    leased: bool
    waiting: int = 0
    next_attempt: float | None = None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A URL that was given up. It is kept, and tried again only if it is requeued."""

    url: str
    reason: str
    time: float
    attempts: int
    queued_at: float | None = None
    """Unix time at which it was first queued; None if that is not known."""


def rules_off(packed: bytes | None) -> frozenset[str]:
    """Returns the DUST rules that are switched off for a host, from the form in the engine."""
    return frozenset(msgpack.unpackb(packed)) if packed else frozenset()


def decode_delay(ms: int) -> float | None:
    """Converts a delay from a script's reply to seconds; a negative delay means None."""
    return ms / 1000 if ms >= 0 else None
