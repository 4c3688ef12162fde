"""Decides what a fetch of a known page is worth now, and when it will be worth a threshold.

The value of a fetch is the freshness, weighted by importance, that is gained by it. If w is the weight of a page, and
F(t) the probability that its text is still current after t days, the value is w times the integral of F from 0 to t,
minus w t F(t). In the optimum of Cho and Garcia-Molina, "Effective Page Refresh Policies for Web Crawlers" (TODS 2003),
each page is fetched when its value reaches a threshold that is the same for all: the price of a fetch in the Lagrangian
of the problem. So no solver is needed, as in Azar, Horvitz, Lubetzky, Peres and Shahaf, "Tractable
near-optimal policies for crawling" (PNAS 2018); webcrawl.policies.crawl_threshold finds the threshold. A page that
changes too often for its weight never reaches it, which is right: its copy would be stale at once.

A page that gives new links is also worth a fetch for these: each is a page that the crawl lacks, so that a fetch after
t days, in which the links arrive with rate r, saves w r t^2 / 2 weighted days. This grows without bound. A page is due
when the greater of both values reaches the threshold.

A page that has announced a lifetime ages slower in it, as far as this is believed, and gives up nothing by waiting.

The rate of change is uncertain, so F is a mean. Therefore a page about which little is known keeps a chance.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from webcrawl.policies.change_rates import DAY, LEAST_DAYS, ChangeHistory, ChangeRate
from webcrawl.policies.change_signals import NO_SIGNALS, SignalEvidence

LONGEST_DAYS = 10_000.0
"""No page is asked later, except dead ones."""

GONE_DAYS, GONE_FACTOR = 1.0, 3.0
"""A dead page is asked again after GONE_DAYS at the earliest, and after GONE_FACTOR times as long each further time."""
MOST_WAITS = 7
"""So many times the wait grows."""

EARLY = 1.25
"""A page may be fetched before it is due: after so many days, if it is due after EARLY times as many."""

REVIEW_DAYS = 30.0
"""After so many days, it is asked again whether a page is due."""

LEAST_IMPORTANCE = 0.05
"""The importance of pages to which nobody links, such as seeds."""

_ROUNDS = 24
_CLOSE = 0.005
_MOST_AGED = 50.0
_NOTHING = 1e-300
_FARTHEST = 3.0


def page_weight(importance: float | None, factor: float = 1.0) -> float:
    """Returns the weight of a page by its importance, a multiple of the mean or None if unknown, times a factor."""
    return factor * max(LEAST_IMPORTANCE, 1.0 if importance is None else importance)


class RecrawlCandidate(NamedTuple):
    """What the value of a fetch depends on: the page's weight, its rate of change, its signals.

    `weight` is its importance, times what an operator gives; a page with weight 0 is never worth a fetch. `rate` is
    that after the last visit; what signals have told since is in `evidence`.
    `new_links` are those that it is expected to give a day.
    """

    weight: float
    rate: ChangeRate
    evidence: SignalEvidence = NO_SIGNALS
    new_links: float = 0.0

    def freshness(self, days: float) -> float:
        """Returns the probability that the text of the last visit, so many days ago, is current."""
        aged = days - self._quiet(days)
        return self._rate_now(aged).fresh(self.evidence.unannounced * aged) * math.exp(-self.evidence.wear)

    def unannounced(self) -> RecrawlCandidate:
        """Returns the page as it were if its changes were not announced; what it tells of its lifetime stays."""
        evidence = NO_SIGNALS._replace(lifetime=self.evidence.lifetime, broken=self.evidence.broken)
        return self._replace(evidence=evidence)

    def _rate_now(self, days: float) -> ChangeRate:
        """Returns the rate of change after so many days without a visit, in which signals have told something too.

        Announced changes count as changes that a visit has dated. Without this, an unknown page that is announced soon
        after its visit would seem to change rarely, though such pages are mostly those that change all the time.
        """
        return ChangeRate(
            self.rate.shape + self.evidence.heard, self.rate.days + (1 - self.evidence.unannounced) * days
        )

    def _quiet(self, days: float) -> float:
        """Returns in how many of these days, as far as lifetimes are believed, nothing happens."""
        return (1 - self.evidence.broken) * min(days, self.evidence.lifetime)

    def value(self, days: float) -> float:
        """Returns what a fetch is worth so many days after the last visit, in weighted days of freshness."""
        return max(self._value_of_text(days), self.weight * self.new_links * days * days / 2)

    def ripe_days(self, threshold: float) -> float:
        """Returns how many days after the last visit a fetch is worth the threshold, at most LONGEST_DAYS."""
        days = self._ripe_days_of_text(threshold)
        if self.weight * self.new_links > 0:
            return min(days, math.sqrt(2 * threshold / (self.weight * self.new_links)))
        return days

    def _value_of_text(self, days: float) -> float:
        """Returns what the text is worth so many days after the last visit.

        In a lifetime the page ages slower, and a fetch gains another one.
        """
        quiet = self._quiet(days)
        if not quiet:
            return self._aged_value(days)
        broken = self.evidence.broken
        within = quiet / (1 - broken)
        gained = _integral(self.rate, within, self.evidence.unannounced * broken) - within * self.freshness(
            days
        )
        return self._aged_value(days - quiet) + self.weight * (1 - broken) * gained

    def _aged_value(self, days: float) -> float:
        """Returns what the text is worth after so many days without a lifetime.

        With signals, an announcement counts as so many days as would make the page as stale (Busa-Fekete and others),
        and a cycle of visits ends with enough announcements.
        """
        rate, evidence = self.rate, self.evidence
        if evidence.announcements == 0:
            return self.weight * (rate.fresh_days(days) - days * rate.fresh(days))
        rate = self._rate_now(days)
        aged = math.log1p(evidence.unannounced * days / rate.days)
        wear = rate.shape * aged + evidence.wear
        if evidence.wear:
            aged = min(_MOST_AGED, wear / rate.shape)
            days = rate.days * math.expm1(aged) / evidence.unannounced
        ending = evidence.announcements
        mistaken = max(0.0, ending - 1 + evidence.unannounced)
        if wear > evidence.step:
            ending, mistaken = ending * evidence.step / wear, mistaken * evidence.step / wear
        fresh = _integral(rate, days, 1 + mistaken)
        return self.weight * max(0.0, fresh - math.exp(-wear) * _integral(rate, days, ending))

    def _ripe_days_of_text(self, threshold: float) -> float:
        """Returns how many days after the last visit the text is worth the threshold, at most LONGEST_DAYS.

        Without signals, the logarithm of the value is a concave function of the logarithm of the days, so that Newton's
        method approaches the crossing from below.
        """
        if self.weight <= 0:
            return LONGEST_DAYS
        aim = threshold / self.weight
        if self.evidence.announcements or self.evidence.lifetime * (1 - self.evidence.broken):
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
            gap = math.log(aim / value)
            days *= math.exp(gap / slope if slope * _FARTHEST > gap else _FARTHEST)
        return days


class Bounds(NamedTuple):
    """The shortest and the longest time between two visits of a page, in days."""

    shortest: float = 60 / DAY
    longest: float = LONGEST_DAYS


def next_visit_days(
    page: RecrawlCandidate, history: ChangeHistory, threshold: float, bounds: Bounds
) -> float:
    """Returns how many days after its last visit a page is due.

    To be computed at each visit, and again when a signal announces a change of the page. The longest time does not hold
    for dead pages.
    """
    if history.gone:
        wait = GONE_DAYS * GONE_FACTOR ** min(history.gone - 1, MOST_WAITS)
        return max(bounds.shortest, wait)
    return max(bounds.shortest, min(bounds.longest, page.ripe_days(threshold)))


def is_due(next_days: float, days: float) -> bool:
    """Whether a page whose turn has come so many days after its last visit is to be fetched.

    `next_days`: from `next_visit_days`, with the present threshold. If the page is not to be fetched, it gets another
    turn: the threshold has risen since its date was computed, or pages have their turns early because there is room.
    """
    return next_days <= EARLY * days


def turn_days(next_days: float, days: float = 0.0) -> float:
    """Returns how many days after its last visit, so many days ago, a page has its next turn.

    It comes after REVIEW_DAYS at the latest, because the threshold may have fallen when a page is not due for years. A
    page that had a turn too early has another when it is twice as old, because more may be known of pages like it.
    """
    return min(next_days, days + min(REVIEW_DAYS, days or REVIEW_DAYS))


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
    """Returns where the value crosses the threshold: by regula falsi in logarithms (the Illinois variant).

    Signals make a fetch worth less, so the crossing is hardly below that of a page without, if it changes slowly.
    """
    aim, furthest = math.log(threshold), math.log(LONGEST_DAYS)

    def gap(logarithm: float) -> float:
        return math.log(max(page._value_of_text(math.exp(logarithm)), _NOTHING)) - aim

    low = math.log(LEAST_DAYS)
    below = gap(low)
    if below >= 0:
        return 0.0
    high = min(furthest, max(low, 0.5 * math.log(2 * threshold / (page.weight * page.rate.mean))) + 0.5)
    while (above := gap(high)) < 0:
        if high >= furthest:
            return LONGEST_DAYS
        low, below, high = high, above, min(furthest, 2 * high - low if high - low < _FARTHEST else high + 1)
    for _ in range(_ROUNDS):
        middle = (low * above - high * below) / (above - below)
        now = gap(middle)
        if abs(now) < 2 * _CLOSE:
            return math.exp(middle)
        if now > 0:
            high, above, below = middle, now, below / 2
        else:
            low, below, above = middle, now, above / 2
    return math.exp(high)
