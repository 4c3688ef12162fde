"""When may a host be asked again: pure arithmetic on seconds, without clock, network or event loop.

The gap after a request is max(delay, Crawl-delay capped, latency_factor x latency), from its completion on. A host that
says 429 or 503 is left alone for as long as Retry-After says, or else for a back-off that doubles; one that cannot be
reached likewise, which makes a circuit breaker of it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from webcrawl.config import PolitenessConfig

_TEN_YEARS = 10 * 365 * 86400.0


@dataclass(frozen=True, slots=True)
class Ok:
    """The host answered, whatever the page was worth; `latency` in seconds."""

    latency: float = 0.0


@dataclass(frozen=True, slots=True)
class Throttled:
    """The host answered 429 or 503; `retry_after` is what `parse_retry_after` made of its header."""

    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """No answer: no connection, a broken one, or time ran out."""


Outcome = Ok | Throttled | Failed


class HostTurn:
    """Whose turn it is at one host: tells when it may be asked again and learns from every outcome.

    Every `now` is in seconds of one monotonic clock of this process. What has to survive a lease is a count and a
    duration: `failures` and `wait(now)`, to be handed to the constructor of the next turn.

    While a back-off lasts, answers to requests that were already on their way neither lengthen it (one burst of 429s is
    one refusal, not eight) nor forgive it; only a longer Retry-After counts.
    """

    __slots__ = (
        "_blocked_until",
        "_config",
        "_finished",
        "_latency",
        "_random",
        "_started",
        "_unreachable",
        "crawl_delay",
        "delay",
        "failures",
        "in_flight",
    )

    def __init__(
        self,
        config: PolitenessConfig,
        crawl_delay: float | None,
        failures: int = 0,
        wait: float = 0.0,
        *,
        now: float,
        random: Callable[[], float] = random.random,
    ) -> None:
        """`wait`: seconds from `now` that still have to pass; negative tells how long the host has been quiet."""
        self.crawl_delay = crawl_delay
        self.delay: float | None = None
        """What an operator set for the host: at least so long, whatever the settings say."""
        self.failures = failures
        self.in_flight = 0
        self._config = config
        self._random = random
        self._latency = 0.0
        self._unreachable = False
        self._blocked_until = now + wait
        self._started = self._finished = -math.inf
        self._forgive(now)

    @property
    def gap(self) -> float:
        """Seconds between two requests while all goes well; `crawl_delay` and `delay` may be learned late."""
        crawl_delay = min(_sound(self.crawl_delay), self._config.max_crawl_delay)
        adaptive = min(self._config.latency_factor * self._latency, self._config.max_backoff)
        return max(self._config.delay, crawl_delay, _sound(self.delay), adaptive)

    @property
    def ready_at(self) -> float:
        """The moment from which the host may be asked; infinite while as many requests run as are allowed."""
        return math.inf if self.in_flight >= self._config.concurrency else self._free_at

    @property
    def given_up(self) -> bool:
        """Whether the host has failed so often in a row that asking it is no use for now.

        One that answers, if only 429 or 503, is given three times as many chances.
        """
        return self.failures >= self._config.max_failures * (1 if self._unreachable else 3)

    def may_start(self, now: float) -> bool:
        """Whether a request may go out at this moment."""
        return now >= self.ready_at

    def start(self, now: float) -> None:
        """A request goes out. RuntimeError when it is not the host's turn: nobody may jump the queue by mistake."""
        if not self.may_start(now):
            raise RuntimeError(
                f"request started at {now}, but the host may not be asked before {self.ready_at}"
            )
        self._forgive(now)
        self.in_flight += 1
        self._started = now

    def finish(self, now: float, outcome: Outcome) -> None:
        """A request that was started has ended this way."""
        if not self.in_flight:
            raise RuntimeError("a request finished that was never started")
        self.in_flight -= 1
        self._finished = now
        self._unreachable = isinstance(outcome, Failed)
        match outcome:
            case Ok(latency):
                self._latency = _sound(latency) if math.isfinite(latency) else 0.0
                if now >= self._blocked_until:
                    self.failures = 0
            case Throttled(None):
                self._back_off(now, self._config.backoff)
            case Throttled(retry_after):
                self._count_failure(now)
                until = now + min(_sound(retry_after), self._config.max_backoff)
                self._blocked_until = max(self._blocked_until, until)
            case Failed():
                self._back_off(now, self._config.connect_backoff)

    def wait(self, now: float) -> float:
        """Seconds until the host may be asked, as if what is on its way ended now: for handing the host on."""
        return max(self._free_at - now, self.gap if self.in_flight else 0.0, 0.0)

    @property
    def _free_at(self) -> float:
        last = max(self._finished, self._started if self._config.concurrency > 1 else -math.inf)
        return max(self._blocked_until, last + self.gap)

    def _back_off(self, now: float, base: float) -> None:
        """Block for base, 2 base, 4 base... by consecutive failures, lengthened at random so that hosts spread out."""
        if now >= self._blocked_until:
            self._count_failure(now)
            seconds = base * 2.0 ** min(self.failures - 1, 64) * (1 + self._config.jitter * self._random())
            self._blocked_until = now + min(seconds, self._config.max_backoff)

    def _count_failure(self, now: float) -> None:
        if now >= self._blocked_until:
            self._forgive(now)
            self.failures += 1

    def _forgive(self, now: float) -> None:
        """Old failures are forgotten after a quiet time: no failure, and no back-off either that kept it quiet."""
        if now - self._blocked_until >= self._config.forgive_after:
            self.failures = 0


def _sound(seconds: float | None) -> float:
    """A duration, or 0 for None, a negative one and not-a-number."""
    return seconds if seconds is not None and seconds > 0 else 0.0


def parse_retry_after(value: str | bytes | None, now: datetime) -> float | None:
    """Seconds that a Retry-After header asks for (RFC 9110 section 10.2.3): delta-seconds or a date, at least 0.

    None for no header and for nonsense. `now` must be aware of its time zone.
    """
    if value is None:
        return None
    text = (value.decode("latin-1") if isinstance(value, bytes) else value).strip()
    if text.isascii() and text.isdigit():
        return min(float(text), _TEN_YEARS)
    try:
        date = parsedate_to_datetime(text)
        seconds = (date.replace(tzinfo=date.tzinfo or UTC) - now).total_seconds()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return min(max(seconds, 0.0), _TEN_YEARS)
