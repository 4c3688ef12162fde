"""The politeness rules: when a host may be asked again. Pure arithmetic, without clock, network or event loop.

The gap from the end of a request to the next request is max(delay, capped Crawl-delay, latency_factor x latency). After
429 or 503 the host is left alone for Retry-After, or for a back-off that doubles. Connection failures back off in the
same way, which acts as a circuit breaker. With POLITENESS_ADAPT, webcrawl.hosts.adaptation sets the delay.

A robots.txt that wants no more than the usual delay is read once, before the first page, and no gap follows it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from webcrawl.config import PolitenessConfig
from webcrawl.hosts.adaptation import Adaptation

_TEN_YEARS = 10 * 365 * 86400.0


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a host is asked, in seconds, and why: `gap` between two requests, `wait` until the next request."""

    gap: float
    gap_by: str
    """What makes the gap: "settings", "Crawl-delay", "operator" or "answer time"."""
    wait: float
    wait_by: str
    """What makes the host wait: "Retry-After", "back-off" or "gap"; empty if it may be asked now."""
    failures: int
    """Failed requests in a row."""


@dataclass(frozen=True, slots=True)
class Ok:
    """The host answered with a status other than 429 and 503; `latency` is in seconds."""

    latency: float = 0.0
    error: bool = False
    """The server answered with an error, which may be a sign of strain."""


@dataclass(frozen=True, slots=True)
class Throttled:
    """The host answered 429 or 503; `retry_after` comes from `parse_retry_after`."""

    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """There was no response: no connection, a broken one, or a timeout."""


@dataclass(frozen=True, slots=True)
class Unjudged:
    """The request ended in a way that says nothing about the host: it was cancelled, or refused before it was sent."""


Outcome = Ok | Throttled | Failed | Unjudged


class HostBlock(NamedTuple):
    """The host is not asked before `until`; `asked`: the host itself asked for it by Retry-After."""

    until: float
    asked: bool = False


class HostTurn:
    """When a host may be asked again. Each outcome of a request updates the turn.

    Each `now` is in seconds of one monotonic clock. To keep the state between two leases, pass `failures` and
    `wait(now)` to the constructor of the next turn.

    During a back-off, responses to requests already in flight neither lengthen it (a burst of 429s is one refusal) nor
    end it; only a longer Retry-After counts.
    """

    __slots__ = (
        "_adaptation",
        "_config",
        "_crawl_delay",
        "_delay",
        "_finished",
        "_others",
        "_random",
        "_rules_count",
        "_rules_read",
        "_unreachable",
        "_usual_delay",
        "answered",
        "block",
        "failures",
        "gap",
        "in_flight",
        "latency",
        "started",
    )

    def __init__(
        self,
        config: PolitenessConfig,
        crawl_delay: float | None,
        failures: int = 0,
        wait: float = 0.0,
        *,
        now: float,
        usual_delay: float = math.inf,
        random: Callable[[], float] = random.random,
    ) -> None:
        """`wait`: seconds from `now` until the host may be asked; negative if that time has passed.

        `usual_delay`: the delay of hosts without rules of their own; infinite if that of `config` is usual.
        """
        self.gap = 0.0
        """Seconds between two requests while nothing fails, from the delays and the latency."""
        self.answered = False
        """The host has answered a request of any worker."""
        self.failures = failures
        self.in_flight = 0
        self._config = config
        self._usual_delay = usual_delay
        self._random = random
        self._adaptation = _adaptation_of(config)
        self._crawl_delay = _valid(crawl_delay)
        self._delay = 0.0
        self.latency = 0.0
        """Seconds that the last answer took; 0 before the first answer."""
        self._unreachable = False
        self._others: dict[str, tuple[int, bool]] | None = None
        self.block = HostBlock(now + wait)
        """The last back-off, or Retry-After."""
        self.started = -math.inf
        """When the last request was sent; `Turns.sending` sets the exact time."""
        self._finished = self._rules_read = -math.inf
        self._rules_count = True
        self._forgive(now)
        self._update_gap()

    def set_crawl_delay(self, seconds: float | None, *, other: bool = False) -> bool:
        """Sets the delay that robots.txt asks for; returns True if the gap changes.

        `other`: the delay is that of another host which shares the turn. It can only lengthen the delay of the turn.
        """
        self._crawl_delay = max(_valid(seconds), self._crawl_delay if other else 0.0)
        return self._update_gap()

    def set_delay(self, seconds: float | None) -> bool:
        """Sets or removes an operator's minimum delay; returns True if the gap changes."""
        delay = _valid(seconds)
        if delay == self._delay:  # each heartbeat sets the delay of each host
            return False
        self._delay = delay
        return self._update_gap()

    def set_config(self, config: PolitenessConfig) -> bool:
        """Replaces the rules by which the host is treated; returns True if the gap changes."""
        if config != self._config:
            self._config, self._adaptation = config, _adaptation_of(config)
        return self._update_gap()

    def begin_with(self, gap: float) -> None:
        """Continues to adapt from the gap of an earlier lease in seconds; 0 without an earlier lease."""
        if self._adaptation and gap > 0:
            self._adaptation.begin_with(gap)
            self._update_gap()

    @property
    def concurrency(self) -> int:
        """How many requests may be in flight at once."""
        return self._config.concurrency

    @property
    def ready_at(self) -> float:
        """When the host may be asked; infinite while `concurrency` requests are in flight."""
        return math.inf if self.in_flight >= self._config.concurrency else self._free_at

    @property
    def given_up(self) -> bool:
        """Whether the host has failed too often in a row.

        A host that answers 429 or 503 gets three times as many attempts as a host that does not answer.
        """
        return self.failures >= self._config.max_failures * (1 if self._unreachable else 3)

    def may_start(self, now: float) -> bool:
        """Whether a request may be sent at `now`."""
        return now >= self.ready_at

    def start(self, now: float) -> None:
        """Records that a request is sent; raises RuntimeError if it is too early."""
        if not self.may_start(now):
            raise RuntimeError(
                f"request started at {now}, but the host may not be asked before {self.ready_at}"
            )
        self._forgive(now)
        self.in_flight += 1
        self.started = now

    def finish(self, now: float, outcome: Outcome, *, rules: bool = False) -> None:
        """Records the outcome of a request; `rules`: it was for the robots.txt of the host."""
        if not self.in_flight:
            raise RuntimeError("a request finished that was never started")
        self.in_flight -= 1
        if rules:
            self._rules_read = now
        else:
            self._finished = now
        if not isinstance(outcome, Unjudged):
            self._unreachable = isinstance(outcome, Failed)
        match outcome:
            case Ok(latency, error):
                self._adapt(latency, error=error)
                self.latency = _valid(latency) if math.isfinite(latency) else 0.0
                self._update_gap()
                if now >= self.block.until:
                    self.failures = 0
            case Throttled(None):
                self._back_off(now, self._config.backoff)
            case Throttled(retry_after):
                self._count_failure(now)
                until = now + min(_valid(retry_after), self._config.max_backoff)
                if until > self.block.until:
                    self.block = HostBlock(until, asked=True)
            case Failed():
                self._back_off(now, self._config.connect_backoff)

    def finish_other(self, now: float, outcome: Outcome, host: str) -> None:
        """Records the outcome of a request to another host that shares the turn, whose failures are counted apart."""
        own = self.failures, self._unreachable
        self._others = self._others or {}
        self.failures, self._unreachable = self._others.get(host, (0, False))
        self.finish(now, outcome)
        self._others[host] = self.failures, self._unreachable
        self.failures, self._unreachable = own

    def wait(self, now: float) -> float:
        """Returns the seconds until the host may be asked, as if all requests in flight ended at `now`."""
        return max(self._free_at - now, self.gap if self.in_flight else 0.0, 0.0)

    def pace(self, now: float) -> Pace:
        """Returns how fast the host is asked, and why."""
        wait, reasons = self.wait(now), ("settings", "Crawl-delay", "operator", "answer time")
        delays = _delays(self._config, self._adaptation, self._crawl_delay, self._delay, self.latency)
        gap, reason = max(zip(delays, reasons, strict=True), key=lambda delay: delay[0])
        if self.block.until < max(self._free_at, now + self.gap if self.in_flight else -math.inf):
            wait_by = "gap"
        else:  # without a failure, the rest of the gap of an earlier lease
            wait_by = "Retry-After" if self.block.asked else "back-off" if self.failures else "gap"
        return Pace(gap, reason, wait, wait_by if wait > 0 else "", self.failures)

    @property
    def _free_at(self) -> float:
        last = max(self._finished, self.started if self._config.concurrency > 1 else -math.inf)
        if self._rules_count:
            last = max(last, self._rules_read)
        return max(self.block.until, last + self.gap)

    def _update_gap(self) -> bool:
        before = self.gap
        self.gap = max(_delays(self._config, self._adaptation, self._crawl_delay, self._delay, self.latency))
        self._rules_count = self.gap > min(self._usual_delay, self._config.delay)
        return self.gap != before

    def _back_off(self, now: float, base: float) -> None:
        """Blocks the host for `base` seconds, doubled with each further failure, plus a random share up to `jitter`."""
        if now >= self.block.until:
            self._count_failure(now)
            seconds = base * 2.0 ** min(self.failures - 1, 64) * (1 + self._config.jitter * self._random())
            self.block = HostBlock(now + min(seconds, self._config.max_backoff))

    def _count_failure(self, now: float) -> None:
        if now >= self.block.until:
            self._forgive(now)
            self.failures += 1
            self._adapt(0.0, error=True)

    def _adapt(self, latency: float, *, error: bool) -> None:
        if self._adaptation:
            if error:
                self._adaptation.strained()
                self._update_gap()
            elif math.isfinite(latency):
                self._adaptation.answered(latency)

    def _forgive(self, now: float) -> None:
        """Resets `failures` when the last back-off ended `forgive_after` seconds ago or earlier."""
        if now - self.block.until >= self._config.forgive_after:
            self.failures = 0


def _delays(
    config: PolitenessConfig, adaptation: Adaptation | None, crawl: float, operator: float, latency: float
) -> tuple[float, float, float, float]:
    """Returns the delays from the settings, robots.txt, an operator, and the time of the last answer."""
    delay = adaptation.delay if adaptation else config.delay
    adaptive = min(config.latency_factor * latency, config.max_backoff)
    return delay, min(crawl, config.max_crawl_delay), operator, adaptive


def _adaptation_of(config: PolitenessConfig) -> Adaptation | None:
    return Adaptation(config.delay, config.min_delay) if config.adapt else None


def _valid(seconds: float | None) -> float:
    """Returns a duration, or 0 for None, negative numbers and NaN."""
    return seconds if seconds is not None and seconds > 0 else 0.0


def parse_retry_after(value: str | bytes | None, now: datetime) -> float | None:
    """Returns the seconds of a Retry-After header (RFC 9110 section 10.2.3: seconds or a date), above 0.

    Returns None without a header, if it is malformed, and for 0 and past dates: a server that refuses requests and
    names no time to come, perhaps because its clock is slow, gets the usual back-off. `now` must be timezone-aware.
    """
    if value is None:
        return None
    text = (value.decode("latin-1") if isinstance(value, bytes) else value).strip()
    if text.isascii() and text.isdigit():
        return min(float(text), _TEN_YEARS) or None
    try:
        date = parsedate_to_datetime(text)
        seconds = (date.replace(tzinfo=date.tzinfo or UTC) - now).total_seconds()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return min(seconds, _TEN_YEARS) if seconds > 0 else None
