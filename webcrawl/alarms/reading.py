"""What a watcher sees of a crawl at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlReading:
    """The figures of a crawl over all workers and runs.

    now          seconds since 1970, by the clock of the watcher
    fine         answers below status 400 that are no error page
    bad          error answers, and URLs that were given up without an answer
    retried      fetches that failed and are repeated
    open         URLs to fetch, except URLs of blocked hosts
    workers      that are alive
    holding      worker -> why it fetches nothing: its stores accept no more
    given_up     hosts that were given up
    lost         worker that died -> when, by the engine's clock, for which `engine_now` is the time; in seconds
    untold       kind -> stuck pages that no notification was about
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
    untold: Mapping[str, int] = field(default_factory=dict)

    @property
    def fetched(self) -> int:
        """Grows with each fetch."""
        return self.fine + self.bad + self.retried
