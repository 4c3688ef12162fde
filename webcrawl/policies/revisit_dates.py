"""Decides at each visit of a page when it is due again, from what is known of its changes.

The rates of pages are pooled by URL pattern, host and crawl (webcrawl.policies.change_rates). The pools are those of
one process: a page counts in them from its first visit by the process on.
"""

from __future__ import annotations

import math
import threading
import uuid
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from webcrawl.policies.change_rates import (
    DAY,
    FIRST_GUESS,
    LEAST_DAYS,
    ChangeHistory,
    ChangeRate,
    PageVisit,
    RatePool,
    pooled_prior,
)
from webcrawl.policies.crawl_threshold import Threshold
from webcrawl.policies.crawl_value import (
    Bounds,
    ExpectedFreshness,
    RecrawlCandidate,
    freshness_of,
    next_visit_days,
    page_weight,
    turn_days,
)
from webcrawl.policies.url_patterns import url_pattern

_MOST_POOLS = 20_000
"""The pools of hosts and patterns that are kept; each takes about 300 bytes."""
_FAILED_DAYS = 1.0
"""A page whose host did not answer, or answered with an error that may pass, is asked again after so many days."""
_DIGITS = 5

FIRST_THRESHOLD = Threshold(RecrawlCandidate(1.0, FIRST_GUESS).value(3.0))
"""The threshold of a crawl without recrawls: a page of usual importance that was visited once is due after 3 days."""


class KnownPage(NamedTuple):
    """A page that was visited before.

    host, path    of its URL
    importance    None if unknown
    evidence      what the latest visit returned as `RevisitDate.evidence`; None before the first
    """

    host: str
    path: str
    importance: float | None
    evidence: Sequence[float | str] | None


class StoredVisit(NamedTuple):
    """A visit of a page, as the store knows it.

    page           with the evidence of the visits before
    visited_at     UTC time of the visit
    before         UTC time of the visit before; None for the first
    outcome        "changed", "unchanged", "gone" (404, 410, soft 404, a redirect) or "failed"
    """

    page: KnownPage
    visited_at: datetime
    before: datetime | None
    outcome: str


class RevisitDate(NamedTuple):
    """When a page is due, its rate in changes a day, and the evidence to store with it: numbers and a text."""

    due: datetime
    rate: float
    evidence: list[float | str]


class JudgedPage(NamedTuple):
    """What is known of a page: its history, the names of its pools, and what the value of a fetch depends on."""

    history: ChangeHistory
    pools: Sequence[str]
    candidate: RecrawlCandidate


@dataclass(slots=True)
class RevisitDates:
    """The arithmetic of one process. `date` may be called from any thread.

    `bounds`: the shortest and the longest time between two visits. `threshold` is set from outside, and so are those of
    hosts that bear fewer fetches than their pages are worth by it.
    """

    bounds: Bounds
    threshold: Threshold = FIRST_THRESHOLD
    of_hosts: dict[str, Threshold] = field(default_factory=dict)
    _pools: OrderedDict[str, RatePool] = field(default_factory=OrderedDict)
    _crawl: RatePool = RatePool()
    _outcomes: dict[str, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _process: str = field(default_factory=lambda: uuid.uuid4().hex[:8])

    def date(self, visit: StoredVisit) -> RevisitDate:
        """Returns when a page is due after a visit."""
        with self._lock:
            return self._date(visit)

    def next_days(self, page: KnownPage) -> float:
        """Returns after how many days since its last visit a page is due, by the present threshold."""
        with self._lock:
            return self._next_days(page, self._judge(page))

    def freshness(self, page: KnownPage, days: float) -> ExpectedFreshness:
        """Returns how fresh a page is expected to be, so many days after its last visit."""
        return freshness_of(self.candidate(page), days)

    def candidate(self, page: KnownPage) -> RecrawlCandidate:
        """Returns what the value of a fetch of a page depends on."""
        with self._lock:
            return self._judge(page).candidate

    def take_outcomes(self) -> dict[str, int]:
        """Returns the number of repeated visits by outcome since the last call."""
        with self._lock:
            outcomes, self._outcomes = self._outcomes, {}
            return outcomes

    def _date(self, visit: StoredVisit) -> RevisitDate:
        page, outcome = visit.page, visit.outcome
        days = _days_between(visit.before, visit.visited_at)
        if visit.before is not None:
            self._outcomes[outcome] = self._outcomes.get(outcome, 0) + 1
        teaches = days and outcome != "failed"
        judged = self._judge(
            page, PageVisit(days, outcome == "changed", outcome == "gone") if teaches else None
        )
        history, delta = judged.history.pooled(judged.candidate.rate)
        self._pool(judged.pools, delta)
        wait = turn_days(self._next_days(page, judged))
        if outcome == "gone" and not history.gone:  # its first visit
            wait = max(self.bounds.shortest, _FAILED_DAYS)
        if outcome == "failed":
            wait = max(self.bounds.shortest, min(wait, _FAILED_DAYS))
        due = visit.visited_at + timedelta(days=wait)
        evidence: list[float | str] = [*(_rounded(number) for number in history), self._process]
        return RevisitDate(due, judged.candidate.rate.mean, evidence)

    def _judge(self, page: KnownPage, visit: PageVisit | None = None) -> JudgedPage:
        """Returns what is known of a page, after a further visit if there was one."""
        history, pools = self._history(page.evidence), _pool_names(page.host, page.path)
        if visit is not None:
            history = history.after(visit)
        rate = history.rate(pooled_prior(self._crawl, *(self._pools.get(name, RatePool()) for name in pools)))
        return JudgedPage(history, pools, RecrawlCandidate(page_weight(page.importance), rate))

    def _next_days(self, page: KnownPage, judged: JudgedPage) -> float:
        threshold = max(self.threshold, self.of_hosts.get(page.host, self.threshold))
        return next_visit_days(judged.candidate, judged.history, threshold.value, self.bounds)

    def _history(self, evidence: Sequence[float | str] | None) -> ChangeHistory:
        """Returns the history of a page; what the pools of another process hold of it does not count."""
        if not evidence:
            return ChangeHistory()
        *numbers, process = evidence
        history = ChangeHistory(*numbers)  # type: ignore[arg-type]
        if process == self._process:
            return history
        return history._replace(is_pooled=0, pooled_rate=0.0, pooled_log_rate=0.0)

    def _pool(self, names: Sequence[str], delta: RatePool) -> None:
        self._crawl = self._crawl.merged(delta)
        for name in names:
            self._pools[name] = self._pools.pop(name, RatePool()).merged(delta)
        while len(self._pools) > _MOST_POOLS:
            self._pools.popitem(last=False)


def value_now(importance: float | None, rate: float | None, days: float) -> float:
    """Returns the value of a fetch of a page with these changes a day, so many days after the last visit."""
    changes = ChangeRate(1.0, 1.0 / rate) if rate else FIRST_GUESS
    return RecrawlCandidate(page_weight(importance), changes).value(max(LEAST_DAYS, days))


def bounds_of(min_interval: float, max_age: float) -> Bounds:
    """Returns the bounds of times in seconds; `max_age` may be infinite."""
    return Bounds(min_interval / DAY) if math.isinf(max_age) else Bounds(min_interval / DAY, max_age / DAY)


def _pool_names(host: str, path: str) -> tuple[str, str]:
    return host, f"{host} {url_pattern(path)}"


def _days_between(before: datetime | None, after: datetime) -> float:
    return 0.0 if before is None else max(0.0, (after - before).total_seconds() / DAY)


def _rounded(number: float) -> float:
    return number if isinstance(number, int) else float(f"{number:.{_DIGITS}g}")
