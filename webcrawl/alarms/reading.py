"""The figures of a crawl at a moment, as a watcher reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from webcrawl.frontier.checkpoint.periodic import CheckpointState


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlReading:
    """The figures of a crawl over all workers and runs.

    now          seconds since 1970, by the clock of the watcher
    fine         responses below status 400 that are not error pages
    bad          error responses, and URLs that were given up without a response
    retried      failed fetches that are repeated
    open         URLs to fetch, except URLs of blocked hosts
    workers      the number of live workers
    holding      why a worker fetches nothing while its stores accept no more, by worker
    given_up     the number of hosts that were given up
    lost         times of death by worker, in seconds by the engine's clock, whose time is `engine_now`
    checkpoint   how the checkpoints are doing; None for a crawl without any
    untold       numbers of stuck pages without a notification, by kind
    """

    now: float
    fine: int = 0
    bad: int = 0
    retried: int = 0
    open: int = 0
    workers: int = 1
    paused: bool = False
    given_up: int = 0
    engine_now: float = 0.0
    holding: Mapping[str, str] = field(default_factory=dict)
    lost: Mapping[str, float] = field(default_factory=dict)
    checkpoint: CheckpointState | None = None
    untold: Mapping[str, int] = field(default_factory=dict)

    @property
    def fetched(self) -> int:
        """A number that increases with each fetch."""
        return self.fine + self.bad + self.retried
