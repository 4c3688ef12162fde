"""Decides at each visit of a page when it is due again, from what is known of its changes.

The rates of pages are pooled by URL pattern, host and crawl (webcrawl.policies.change_rates). The pools are those of
one process: a page counts in them from its first visit by the process on.
"""

from __future__ import annotations

import math
import threading
import uuid
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import NamedTuple

from webcrawl.policies.change_rates import (
    ARRIVALS,
    CHANGES,
    DAY,
    FIRST_GUESS,
    LEAST_DAYS,
    ChangeHistory,
    ChangeRate,
    LinkArrivals,
    PageVisit,
    PoolRules,
    RatePool,
    pooled_prior,
)
from webcrawl.policies.change_signals import (
    CACHE_CONTROL,
    ETAG,
    PageSignal,
    SignalCounts,
    lesson,
    signal_evidence,
)
from webcrawl.policies.crawl_threshold import Threshold
from webcrawl.policies.crawl_value import (
    GONE_FACTOR,
    MOST_WAITS,
    Bounds,
    ExpectedFreshness,
    RecrawlCandidate,
    freshness_of,
    next_visit_days,
    page_weight,
    turn_days,
)
from webcrawl.policies.recrawl_weights import RecrawlWeights
from webcrawl.policies.url_patterns import url_pattern

_MOST_POOLS = 20_000
"""The pools of hosts and patterns that are kept; each takes about 300 bytes."""
_FAILED_DAYS = 1.0
"""A page whose host did not answer, or answered with an error that may pass, is asked again after so many days."""
_EXPLORED = 3
"""So many pages of a URL pattern come back soon, to learn whether pages like them change or give new links.

The first interval is the shortest allowed, and each further one as long as all before, until rates want a shorter one.
"""
_TEACHING = 2
"""So many repeated visits of an explored page teach of its new links: those of one count at the next."""
_NEXT_TURN = 32
"""Other pages of the pattern have a turn after so many of the shortest intervals, when more is known of it."""
_DIGITS = 5
_OF_CHANGES = len(ChangeHistory._fields)
"""The numbers of the evidence of changes; the name of the process follows, then the evidence of new links."""

FIRST_THRESHOLD = Threshold(RecrawlCandidate(1.0, FIRST_GUESS).value(3.0))
"""The threshold of a crawl without recrawls: a page of usual importance that was visited once is due after 3 days."""


class KnownPage(NamedTuple):
    """A page that was visited before.

    host, path    of its URL
    importance    None if unknown
    evidence      what the latest visit returned as `RevisitDate.evidence`; None before the first
    weight        that an operator has given it in the database
    signals       kind -> signal that announces its changes
    """

    host: str
    path: str
    importance: float | None
    evidence: Sequence[float | str] | None
    weight: float = 1.0
    signals: Mapping[str, PageSignal] = MappingProxyType({})


class StoredVisit(NamedTuple):
    """A visit of a page, as the store knows it.

    page           with the evidence of the visits before
    visited_at     UTC time of the visit
    before         UTC time of the visit before; None for the first
    outcome        "changed", "unchanged", "gone" (404, 410, soft 404, a redirect) or "failed"
    new_links      the sound pages to which it was the first page to link, except at its own first visit
    shown          kind -> what the response itself tells of a change since the visit before: its dates and `ETag`
    promise        for how long it stays as it is, by its `Cache-Control`; None without
    """

    page: KnownPage
    visited_at: datetime
    before: datetime | None
    outcome: str
    new_links: int = 0
    shown: Mapping[str, PageSignal] = MappingProxyType({})
    promise: PageSignal | None = None


class RevisitDate(NamedTuple):
    """When a page is due, its rates in changes and new links a day, and evidence to store with it: numbers and a text.

    `link_rate` is None before the first repeated visit. `learned`: what the counts of its host's signals grow by.
    """

    due: datetime
    rate: float
    link_rate: float | None
    evidence: list[float | str]
    learned: Mapping[str, SignalCounts] = MappingProxyType({})


class JudgedPage(NamedTuple):
    """What is known of a page: its histories, the names of its pools, and what the value of a fetch depends on."""

    history: ChangeHistory
    arrivals: LinkArrivals
    pools: Sequence[str]
    candidate: RecrawlCandidate
    link_rate: ChangeRate
    learned: Mapping[str, SignalCounts]


@dataclass(slots=True)
class RatePools:
    """The pools of one kind of rate: of the crawl, and of hosts and patterns by name."""

    rules: PoolRules
    _crawl: RatePool = field(default_factory=RatePool)
    _pools: OrderedDict[str, RatePool] = field(default_factory=OrderedDict)

    def prior(self, names: Sequence[str]) -> ChangeRate:
        """Returns the prior of a page in these pools, from the widest to the narrowest."""
        pools = (self._pools.get(name, RatePool()) for name in names)
        return pooled_prior(self._crawl, *pools, rules=self.rules)

    def pages(self, name: str) -> float:
        """Returns the number of pages in the pool of a host or pattern."""
        return self._pools.get(name, RatePool()).pages

    def add(self, names: Sequence[str], delta: RatePool) -> None:
        """Adds the new rate of a page to its pools."""
        self._crawl = self._crawl.merged(delta)
        for name in names:
            self._pools[name] = self._pools.pop(name, RatePool()).merged(delta)
        while len(self._pools) > _MOST_POOLS:
            self._pools.popitem(last=False)


@dataclass(slots=True)
class RevisitDates:
    """The arithmetic of one process. `date` may be called from any thread.

    `bounds`: the shortest and the longest time between two visits. `threshold` is set from outside, and so are those of
    hosts that bear fewer fetches than their pages are worth by it. `weights` are those of an operator.
    """

    bounds: Bounds
    threshold: Threshold = FIRST_THRESHOLD
    weights: RecrawlWeights = field(default_factory=RecrawlWeights)
    of_hosts: dict[str, Threshold] = field(default_factory=dict)
    _changes: RatePools = field(default_factory=lambda: RatePools(CHANGES))
    _arrivals: RatePools = field(default_factory=lambda: RatePools(ARRIVALS))
    _explored: OrderedDict[str, int] = field(default_factory=OrderedDict)
    """URL pattern -> its pages that have been given an early date at their first visit."""
    _outcomes: dict[str, int] = field(default_factory=dict)
    _sources: Counter[str] = field(default_factory=Counter)
    """URL -> changes of other pages that it has announced, and that were believed and true."""
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

    def shortest_days(self, page: KnownPage) -> float:
        """Returns how many days pass at least between two visits: more and more while the page is gone."""
        gone = self._histories(page.evidence)[0].gone
        return self.bounds.shortest * GONE_FACTOR ** min(max(0, gone - 1), MOST_WAITS)

    def freshness(self, page: KnownPage, days: float) -> ExpectedFreshness:
        """Returns how fresh a page is expected to be, so many days after its last visit."""
        return freshness_of(self.candidate(page), days)

    def candidate(self, page: KnownPage) -> RecrawlCandidate:
        """Returns what the value of a fetch of a page depends on."""
        with self._lock:
            return self._judge(page).candidate

    def weight(self, page: KnownPage) -> float:
        """Returns the weight of a page: its importance, times what an operator has given it."""
        return page_weight(page.importance, page.weight * self.weights.of_url(page.host, page.path))

    def take_outcomes(self) -> dict[str, int]:
        """Returns the number of repeated visits by outcome since the last call."""
        with self._lock:
            outcomes, self._outcomes = self._outcomes, {}
            return outcomes

    def take_sources(self) -> dict[str, int]:
        """Returns URL -> true announcements of changes of other pages since the last call."""
        with self._lock:
            sources, self._sources = self._sources, Counter()
            return sources

    def _date(self, visit: StoredVisit) -> RevisitDate:
        page, outcome = visit.page, visit.outcome
        days = days_between(visit.before, visit.visited_at)
        if visit.before is not None:
            self._outcomes[outcome] = self._outcomes.get(outcome, 0) + 1
        is_known = visit.before is not None
        judged = self._judge(page, visit if days and outcome != "failed" else None, days)
        history, delta = judged.history.pooled(judged.candidate.rate)
        self._changes.add(judged.pools, delta)
        arrivals = judged.arrivals
        if is_known and arrivals.days:
            arrivals, delta = arrivals.pooled(judged.link_rate)
            self._arrivals.add(judged.pools, delta)
        wait = turn_days(self._next_days(page, judged))
        if not is_known and outcome == "changed" and judged.candidate.weight > 0:
            arrivals, first = self._first_turn(judged.pools[-1])
            wait = min(wait, first)
        if outcome == "gone" and not history.gone:  # its first visit
            wait = max(self.bounds.shortest, _FAILED_DAYS)
        if outcome == "failed":
            wait = max(self.bounds.shortest, min(wait, _FAILED_DAYS))
        due = days_after(visit.visited_at, wait)
        evidence: list[float | str] = [*map(_rounded, history), self._process]
        if arrivals.days or arrivals.pending:
            evidence += map(_rounded, arrivals)
        link_rate = judged.link_rate.mean if is_known else None
        return RevisitDate(due, judged.candidate.rate.mean, link_rate, evidence, judged.learned)

    def _judge(self, page: KnownPage, visit: StoredVisit | None = None, days: float = 0.0) -> JudgedPage:
        """Returns what is known of a page, after a visit so many days after the one before, if any."""
        (history, arrivals), pools = self._histories(page.evidence), _pool_names(page.host, page.path)
        prior, signals = self._changes.prior(pools), page.signals
        learned: Mapping[str, SignalCounts] = {}
        if visit is not None:
            observed, learned = self._observed(visit, days, history.rate(prior))
            history = history.after(_aged(observed, signals.get(CACHE_CONTROL)))
            arrivals = arrivals.after(days, visit.new_links, changed=observed.changed)
            signals = _signals_after(visit, learned)
        rate, link_rate = history.rate(prior), arrivals.rate(self._arrivals.prior(pools))
        evidence = signal_evidence(signals, rate)
        candidate = RecrawlCandidate(self.weight(page), rate, evidence, new_links=link_rate.mean)
        return JudgedPage(history, arrivals, pools, candidate, link_rate, learned)

    def _observed(
        self, visit: StoredVisit, days: float, rate: ChangeRate
    ) -> tuple[PageVisit, Mapping[str, SignalCounts]]:
        """Returns a visit as it counts for the rate, and what the signals' counts grow by; `rate` is that before."""
        observed = PageVisit(days, visit.outcome == "changed", gone=visit.outcome == "gone")
        signals = {**visit.page.signals, **visit.shown}
        if not signals:
            return observed, {}
        if observed.changed and signal_evidence(signals, rate).is_believed:
            first = min(
                (
                    signal.announced
                    for kind, signal in signals.items()
                    if signal.announced.times and kind != ETAG
                ),
                key=lambda announced: announced.first,
            )
            assert visit.before is not None
            dated = (first.first - visit.before.timestamp()) / DAY
            observed = observed._replace(dated=max(0.0, min(days, dated)))
            if first.source:
                self._sources[first.source] += 1
        return observed, {kind: lesson(kind, signal, observed, rate) for kind, signal in signals.items()}

    def _next_days(self, page: KnownPage, judged: JudgedPage) -> float:
        """Returns how many days after its last visit a page is due; sooner if it is explored for its pattern."""
        threshold = max(self.threshold, self.of_hosts.get(page.host, self.threshold))
        days = next_visit_days(judged.candidate, judged.history, threshold.value, self.bounds)
        arrivals = judged.arrivals
        known = arrivals.days + arrivals.pending
        others = self._arrivals.pages(judged.pools[-1]) - arrivals.is_pooled
        is_slow, is_idle = page.host in self.of_hosts, not judged.candidate.weight
        if is_slow or is_idle or not known or judged.history.gone or others >= _EXPLORED:
            return days
        return min(days, max(self.bounds.shortest, known))

    def _first_turn(self, pattern: str) -> tuple[LinkArrivals, float]:
        """Returns the history of a page after its first visit, with days if it is explored, and its first turn."""
        if self._arrivals.pages(pattern) >= _EXPLORED:
            return LinkArrivals(), math.inf
        number = self._explored.pop(pattern, 0)
        self._explored[pattern] = number + 1
        if len(self._explored) > _MOST_POOLS:
            self._explored.popitem(last=False)
        if number < _EXPLORED:
            return LinkArrivals(pending=self.bounds.shortest / 2), self.bounds.shortest
        return LinkArrivals(), _NEXT_TURN * self.bounds.shortest

    def _histories(self, evidence: Sequence[float | str] | None) -> tuple[ChangeHistory, LinkArrivals]:
        """Returns the histories of a page; what the pools of another process hold of it does not count."""
        if not evidence:
            return ChangeHistory(), LinkArrivals()
        numbers, process, links = evidence[:_OF_CHANGES], evidence[_OF_CHANGES], evidence[_OF_CHANGES + 1 :]
        changes, arrivals = ChangeHistory(*numbers), LinkArrivals(*links)  # type: ignore[arg-type]
        if process != self._process:
            changes = changes._replace(is_pooled=0, pooled_rate=0.0, pooled_log_rate=0.0)
            arrivals = arrivals._replace(is_pooled=0, pooled_rate=0.0, pooled_log_rate=0.0)
        return changes, arrivals


def is_explored(evidence: Sequence[float | str] | None) -> bool:
    """Whether a page has had an early visit to learn of its new links, or is to have one, and no more than two."""
    return evidence is not None and len(evidence) > _OF_CHANGES + 1 and evidence[0] < _TEACHING  # type: ignore[operator]


def value_now(weight: float, rate: float | None, days: float, link_rate: float | None = None) -> float:
    """Returns the value of a fetch of a page with so many changes and new links a day, days after the last visit."""
    changes = ChangeRate(1.0, 1.0 / rate) if rate else FIRST_GUESS
    candidate = RecrawlCandidate(weight, changes, new_links=link_rate or 0.0)
    return candidate.value(max(LEAST_DAYS, days))


def bounds_of(min_interval: float, max_age: float) -> Bounds:
    """Returns the bounds of times in seconds; `max_age` may be infinite."""
    return Bounds(min_interval / DAY) if math.isinf(max_age) else Bounds(min_interval / DAY, max_age / DAY)


def _aged(visit: PageVisit, promise: PageSignal | None) -> PageVisit:
    """Returns a visit with the days as they count for the rate: those of a lifetime as far as pages change in it."""
    if promise is None or promise.counts.broken == 1:
        return visit
    kept, lifetime = 1 - promise.counts.broken, promise.announced.lifetime
    dated = None if visit.dated is None else visit.dated - kept * min(visit.dated, lifetime)
    return visit._replace(days=visit.days - kept * min(visit.days, lifetime), dated=dated)


def _signals_after(visit: StoredVisit, learned: Mapping[str, SignalCounts]) -> Mapping[str, PageSignal]:
    """Returns the signals of a page after a visit from which the counts of its host have grown by so much."""
    signals = {
        kind: PageSignal(signal.counts.merged(learned[kind]))
        for kind, signal in visit.page.signals.items()
        if kind != CACHE_CONTROL
    }
    if (promise := visit.promise) is not None:
        counts = promise.counts.merged(learned.get(CACHE_CONTROL, SignalCounts()))
        signals[CACHE_CONTROL] = promise._replace(counts=counts)
    return signals


def _pool_names(host: str, path: str) -> tuple[str, str]:
    return host, f"{host} {url_pattern(path)}"


def days_between(before: datetime | None, after: datetime) -> float:
    """Returns the days between two times, in days of DAY seconds; 0 if there is no first, or the second is earlier."""
    return 0.0 if before is None else max(0.0, (after - before).total_seconds() / DAY)


def days_after(start: datetime, days: float) -> datetime:
    """Returns the time so many days after another."""
    return start + timedelta(seconds=days * DAY)


def _rounded(number: float) -> float:
    return number if isinstance(number, int) else float(f"{number:.{_DIGITS}g}")
