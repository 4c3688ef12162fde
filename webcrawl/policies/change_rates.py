"""Estimates how often a page changes, and how many new links it gives a day.

Visits come at irregular times, and only tell whether a page has changed since.

A page changes as a Poisson process with a rate, in changes a day. A visit after t days finds a change with probability
1 - exp(-rate t), so many changes between two visits look like one (Cho and Garcia-Molina, "Estimating Frequency of
Change", ACM TOIT 2003). A page's own visits are too few for an estimate, so its rate has a Gamma prior that is fitted
to the pages of the same URL pattern, then of the host, then of the crawl (empirical Bayes: Efron and Morris, 1973):

    history = ChangeHistory()                               # a few numbers, kept with the page
    prior = pooled_prior(crawl_pool, host_pool, pattern_pool)
    history = history.after(PageVisit(days=6.8, changed=True))
    rate = history.rate(prior)                              # a Gamma distribution
    history, delta = history.pooled(rate)                   # what to add to each of the three pools

Pools are sums, so that the sums of several workers can be added.

New links are those that a page gave first, at a visit after its own first one, and whose targets were sound pages. They
arrive as a Poisson process too, but unlike changes they are counted, so their rate has a Gamma distribution without any
approximation: the prior of the same pools, updated with so many links in so many days.
"""

from __future__ import annotations

import math
from typing import NamedTuple

MEMORY = 30
"""About so many of the last visits count. Older ones fade, so that a page is judged by what it does now."""

DAY = 86_400.0
"""The seconds of a day."""

LEAST_DAYS = 1 / DAY
"""The shortest time between two visits that is told apart: a second."""

_MOST_SHAPE = 50.0
_ROUNDS = 12
_CLOSE = 0.02


class PageVisit(NamedTuple):
    """A visit of a page, as it counts for the rate of change.

    `days`: since the visit before. `changed`: whether the main text differs from that of the visit before. `gone`:
    the page was dead (404, 410, soft 404); then `changed` does not count. `dated`: days from the visit before until
    the change, if a signal or a date tells when the page changed, else None.
    """

    days: float
    changed: bool
    gone: bool = False
    dated: float | None = None


class ChangeRate(NamedTuple):
    """What is known of a page's rate of change: a Gamma distribution with this shape and, as its rate, these days."""

    shape: float
    days: float

    @property
    def mean(self) -> float:
        """The expected changes a day."""
        return self.shape / self.days

    @property
    def mean_log(self) -> float:
        """The expected logarithm of the changes a day."""
        return digamma(self.shape) - math.log(self.days)

    def fresh(self, days: float) -> float:
        """Returns the probability that the page has not changed after so many days."""
        return math.exp(-self.shape * math.log1p(days / self.days))

    def fresh_days(self, days: float) -> float:
        """Returns of so many days the expected number before the first change: the integral of `fresh`."""
        grown, rest = math.log1p(days / self.days), 1.0 - self.shape
        if abs(rest) < 1e-9:
            return self.days * grown
        return self.days * math.expm1(rest * grown) / rest


FIRST_GUESS = ChangeRate(0.4, 4.0)
"""The prior of a crawl without visits: one change in ten days, and a third of all pages change less than once in four
months. Cho and Garcia-Molina, "The Evolution of the Web and Implications for an Incremental Crawler" (VLDB 2000)."""


class PoolRules(NamedTuple):
    """How priors follow from the rates of pages.

    first        the prior of a crawl without visits
    least_shape  the least shape of a prior: the lower it is, the more the pages of a pool may differ
    kindred      the pages of a pool that count as much as the prior of the wider pool
    """

    first: ChangeRate
    least_shape: float
    kindred: float


CHANGES = PoolRules(FIRST_GUESS, least_shape=0.1, kindred=10.0)

ARRIVALS = PoolRules(ChangeRate(0.01, 1.0), least_shape=0.01, kindred=1.0)
"""A crawl without visits expects a link in a hundred days.

A few pages give nearly all new links, and pages of a pattern are alike in this, so a few visits without new links tell
much.
"""


class ChangeHistory(NamedTuple):
    """What a page's visits tell about its changes. All but `visits` and `gone` fade, so that recent visits count more.

    visits       all visits after the first
    changes      visits that found a change at an unknown time since the visit before
    log_days     the sum of the logarithms of the days before these visits
    dated        changes whose time is known
    quiet        days without a change
    gone         the visits in a row at which the page was dead
    pooled_rate, pooled_log_rate   what the pools hold of this page: the mean of its rate and of the rate's logarithm
    is_pooled    1 if the pools hold something of this page, else 0
    """

    visits: int = 0
    changes: float = 0.0
    log_days: float = 0.0
    dated: float = 0.0
    quiet: float = 0.0
    gone: int = 0
    pooled_rate: float = 0.0
    pooled_log_rate: float = 0.0
    is_pooled: int = 0

    def after(self, visit: PageVisit) -> ChangeHistory:
        """Returns the history with a further visit."""
        if visit.gone:
            return self._replace(visits=self.visits + 1, gone=self.gone + 1)
        kept = 1.0 - 1.0 / MEMORY
        days = max(LEAST_DAYS, visit.days)
        changes, log_days = self.changes * kept, self.log_days * kept
        dated, quiet = self.dated * kept, self.quiet * kept
        if self.gone or (visit.changed and visit.dated is None):
            changes, log_days = changes + 1.0, log_days + math.log(days)
        elif visit.changed:
            dated, quiet = dated + 1.0, quiet + min(days, max(0.0, visit.dated or 0.0))
        else:
            quiet += days
        kept_pooled = self.pooled_rate, self.pooled_log_rate, self.is_pooled
        return ChangeHistory(self.visits + 1, changes, log_days, dated, quiet, 0, *kept_pooled)

    def rate(self, prior: ChangeRate) -> ChangeRate:
        """Returns the rate of the page: the prior, updated with all visits.

        The likelihood of n changes before which t days passed is (1 - exp(-rate t))^n, with the geometric mean of the
        times as t. The result has the mode of the posterior of the logarithm of the rate, and its curvature there. It
        is exact without such changes, and else its mean is too low: by 3 % at most while less than a change is expected
        between two visits, by 40 % where a change was nearly certain. One that was certain tells nothing.
        """
        shape, quiet = prior.shape + self.dated, prior.days + self.quiet
        if not self.changes:
            return ChangeRate(shape, quiet)
        days = math.exp(self.log_days / self.changes)
        rate = (shape + self.changes) / (quiet + self.changes * days)
        curvature = shape
        for _ in range(_ROUNDS):
            expected, certainty = _slopes(rate * days)
            curvature = quiet * rate + self.changes * certainty
            step = (shape + self.changes * expected - quiet * rate) / curvature
            rate *= math.exp(max(-2.0, min(2.0, step)))
            if abs(step) < _CLOSE:
                break
        return ChangeRate(curvature, curvature / rate)

    def pooled(self, rate: ChangeRate) -> tuple[ChangeHistory, RatePool]:
        """Returns the history and what is to be added to each pool of the page, now that its rate is this."""
        mean, log_mean = rate.mean, rate.mean_log
        delta = RatePool(1 - self.is_pooled, mean - self.pooled_rate, log_mean - self.pooled_log_rate)
        return self._replace(pooled_rate=mean, pooled_log_rate=log_mean, is_pooled=1), delta


class RatePool(NamedTuple):
    """The rates of the pages of a URL pattern, a host or a crawl: sums of their means and of their mean logarithms."""

    pages: float = 0.0
    rates: float = 0.0
    log_rates: float = 0.0

    def merged(self, other: RatePool) -> RatePool:
        """Returns the sum of two pools."""
        return RatePool(self.pages + other.pages, self.rates + other.rates, self.log_rates + other.log_rates)

    def prior(self, wider: ChangeRate, rules: PoolRules = CHANGES) -> ChangeRate:
        """Returns the prior of this pool's pages: the Gamma distribution with their means.

        The prior of the wider pool counts as much as `rules.kindred` pages. Each new rate of a page is a step of
        expectation, and this one the step of maximisation (Neal and Hinton, "A View of the EM Algorithm that Justifies
        Incremental, Sparse, and other Variants", 1998); the shape is that of Minka, "Estimating a Gamma distribution"
        (2002).
        """
        if self.pages <= 0 or self.rates <= 0:
            return wider
        pages = self.pages + rules.kindred
        mean = (self.rates + rules.kindred * wider.mean) / pages
        spread = math.log(mean) - (self.log_rates + rules.kindred * wider.mean_log) / pages
        shape = _MOST_SHAPE
        if spread > 0:
            shape = (3 - spread + math.sqrt((spread - 3) ** 2 + 24 * spread)) / (12 * spread)
        shape = max(rules.least_shape, min(_MOST_SHAPE, shape))
        return ChangeRate(shape, shape / mean)


class LinkArrivals(NamedTuple):
    """What the visits of a page tell about its new links. `links` and `days` fade, so that recent visits count more.

    links       new links
    days        in which they have arrived
    pending     further days: their links are counted at the next visit, when their targets were fetched
    counted     all new links of the page at its last visit
    pooled_rate, pooled_log_rate, is_pooled   what the pools hold of this page, as in ChangeHistory
    """

    links: float = 0.0
    days: float = 0.0
    pending: float = 0.0
    counted: int = 0
    pooled_rate: float = 0.0
    pooled_log_rate: float = 0.0
    is_pooled: int = 0

    def after(self, days: float, new_links: int, *, changed: bool) -> LinkArrivals:
        """Returns the history with a visit so many days after the one before; `new_links`: all that are known now.

        A page that has not changed has no new links.
        """
        kept = 1.0 - 1.0 / MEMORY
        return self._replace(
            links=self.links * kept + max(0, new_links - self.counted),
            days=self.days * kept + self.pending + (0.0 if changed else days),
            pending=days if changed else 0.0,
            counted=new_links,
        )

    def rate(self, prior: ChangeRate) -> ChangeRate:
        """Returns the rate of new links a day."""
        return ChangeRate(prior.shape + self.links, prior.days + self.days)

    def pooled(self, rate: ChangeRate) -> tuple[LinkArrivals, RatePool]:
        """Returns the history and what is to be added to each pool of the page, now that its rate is this."""
        mean, log_mean = rate.mean, rate.mean_log
        delta = RatePool(1 - self.is_pooled, mean - self.pooled_rate, log_mean - self.pooled_log_rate)
        return self._replace(pooled_rate=mean, pooled_log_rate=log_mean, is_pooled=1), delta


def pooled_prior(*pools: RatePool, rules: PoolRules = CHANGES) -> ChangeRate:
    """Returns the prior of a page in these pools, from the widest (the crawl) to the narrowest (the URL pattern)."""
    prior = rules.first
    for pool in pools:
        prior = pool.prior(prior, rules)
    return prior


def digamma(value: float) -> float:
    """Returns the derivative of the logarithm of the Gamma function, for a value above 0 (Abramowitz, Stegun 6.3)."""
    result = 0.0
    while value < 3:
        result -= 1 / value
        value += 1
    square = 1 / (value * value)
    return result + math.log(value) - 0.5 / value - square * (1 / 12 - square * (1 / 120 - square / 252))


def _slopes(expected: float) -> tuple[float, float]:
    """Returns the first two derivatives of log(1 - exp(-rate t)) by log(rate), the second negated, for t rate."""
    if expected > 50:
        return 0.0, 0.0
    if expected < 1e-4:
        return 1.0 - expected / 2, expected / 2
    grown = math.expm1(expected)
    slope = expected / grown
    return slope, slope * (slope + expected - 1)
