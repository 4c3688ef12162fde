"""Decides what a fetch of a known page is worth now, and when it will be worth a threshold.

The value of a fetch is what freshness, weighted by importance, gains by it: of a page with weight w whose text is
still current after t days with probability F(t), w times the integral of F from 0 to t, minus w t F(t). To fetch each
page when its value reaches the same threshold for all is the optimum of Cho and Garcia-Molina, "Effective Page Refresh
Policies for Web Crawlers" (TODS 2003), as Azar, Horvitz, Lubetzky, Peres and Shahaf, "Tractable near-optimal policies
for crawling" (PNAS 2018) show, and needs no solver: the threshold is the price of a fetch (webcrawl.policies.
crawl_threshold). A page that changes too often for its weight never reaches it, which is right: a fetch would be stale
at once.

The rate of change is uncertain, and F is its mean. So a page of which little is known keeps a chance.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from webcrawl.policies.change_rates import LEAST_DAYS, ChangeHistory, ChangeRate
from webcrawl.policies.change_signals import NO_SIGNALS, SignalEvidence

LONGEST_DAYS = 10_000.0
"""No page is asked later, except dead ones."""

GONE_DAYS, GONE_FACTOR = 1.0, 3.0
"""A dead page is asked again after GONE_DAYS at the earliest, and after GONE_FACTOR times as long each further time."""

_DAY = 86_400.0
_ROUNDS = 24
_CLOSE = 0.005
_LIMIT = 700.0
_FARTHEST = 5.0


class RecrawlCandidate(NamedTuple):
    """What the value of a fetch depends on: the page's weight, its rate of change, its signals.

    `weight` is its importance, times what an operator gives; a page with weight 0 is never worth a fetch.
    """

    weight: float
    rate: ChangeRate
    evidence: SignalEvidence = NO_SIGNALS

    def freshness(self, days: float) -> float:
        """Returns the probability that the text of the last visit, so many days ago, is current."""
        return self.rate.fresh(self.evidence.unannounced * days) * math.exp(-self.evidence.wear)

    def value(self, days: float) -> float:
        """Returns what a fetch is worth so many days after the last visit, in weighted days of freshness.

        With signals, an announcement counts as so many days as would make the page as stale (Busa-Fekete and others),
        and a cycle of visits ends with enough announcements.
        """
        rate, evidence = self.rate, self.evidence
        if evidence.announcements == 0:
            return self.weight * (rate.fresh_days(days) - days * rate.fresh(days))
        wear = evidence.wear - math.log(rate.fresh(evidence.unannounced * days))
        days = min(
            LONGEST_DAYS, rate.days * math.expm1(min(_LIMIT, wear / rate.shape)) / evidence.unannounced
        )
        needed = max(1.0, wear / evidence.step) if evidence.step else math.inf
        ending = evidence.announcements / needed
        mistaken = max(0.0, evidence.announcements - 1 + evidence.unannounced) / needed
        fresh = _integral(rate, days, 1 + mistaken)
        return self.weight * max(0.0, fresh - math.exp(-wear) * _integral(rate, days, ending))

    def ripe_days(self, threshold: float) -> float:
        """Returns how many days after the last visit a fetch is worth the threshold, at most LONGEST_DAYS.

        Without signals, the logarithm of the value is a concave function of the logarithm of the days, so that Newton's
        method approaches the crossing from below.
        """
        aim = threshold / self.weight if self.weight > 0 else math.inf
        if self.evidence.announcements:
            return _crossing(self, threshold)
        rate = self.rate
        days = max(LEAST_DAYS, math.sqrt(2 * aim / rate.mean))
        for _ in range(_ROUNDS):
            if days >= LONGEST_DAYS:
                return LONGEST_DAYS
            fresh = rate.fresh(days)
            value = rate.fresh_days(days) - days * fresh
            if value >= aim * (1 - _CLOSE):
                break
            slope = days * days * rate.shape / (rate.days + days) * fresh / value
            days *= math.exp(min(_FARTHEST, math.log(aim / value) / slope))
        return days


class Bounds(NamedTuple):
    """The shortest and the longest time between two visits of a page, in days."""

    shortest: float = 60 / _DAY
    longest: float = LONGEST_DAYS


def next_visit_days(
    page: RecrawlCandidate, history: ChangeHistory, threshold: float, bounds: Bounds
) -> float:
    """Returns how many days after its last visit a page is due."""
    if history.gone:
        wait = GONE_DAYS * GONE_FACTOR ** min(history.gone - 1, 8)
        return max(bounds.shortest, wait)
    return max(bounds.shortest, min(bounds.longest, page.ripe_days(threshold)))


class ExpectedFreshness(NamedTuple):
    """How fresh pages are: a sum over pages, which can be added to others."""

    weight: float = 0.0
    fresh: float = 0.0

    @property
    def share(self) -> float:
        """The expected part of the weight whose pages are current, from 0 to 1."""
        return self.fresh / self.weight if self.weight else 0.0

    def merged(self, other: ExpectedFreshness) -> ExpectedFreshness:
        """Returns the sum of two."""
        return ExpectedFreshness(self.weight + other.weight, self.fresh + other.fresh)


def freshness_of(page: RecrawlCandidate, days: float) -> ExpectedFreshness:
    """Returns the expected freshness of a page so many days after its last visit."""
    return ExpectedFreshness(page.weight, page.weight * page.freshness(days))


def _integral(rate: ChangeRate, days: float, times: float) -> float:
    """Returns the expected days before the first event, of so many days, if events come `times` as often as changes."""
    return rate.fresh_days(times * days) / times if times > 0 else days


def _crossing(page: RecrawlCandidate, threshold: float) -> float:
    """Returns where the value crosses the threshold, by halving in logarithms."""
    low, high = LEAST_DAYS, LONGEST_DAYS
    if page.value(low) >= threshold:
        return 0.0
    if page.value(high) < threshold:
        return high
    while high > low * (1 + 4 * _CLOSE):
        middle = math.sqrt(low * high)
        if page.value(middle) < threshold:
            low = middle
        else:
            high = middle
    return high
