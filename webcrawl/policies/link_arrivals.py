"""Estimates how many new links a page gives a day: those of index pages, feeds and sitemaps that lead to new pages.

A new link of a page is one that the page gave first, at a visit after its own first one, and whose target was a sound
page. Links arrive as a Poisson process. Unlike changes they are counted, so the rate has a Gamma distribution without
any approximation: a prior that is fitted to the pages of the URL pattern, host and crawl
(webcrawl.policies.change_rates), updated with so many links in so many days.
"""

from __future__ import annotations

from typing import NamedTuple

from webcrawl.policies.change_rates import MEMORY, ChangeRate, PoolRules, RatePool

ARRIVALS = PoolRules(ChangeRate(0.01, 1.0), least_shape=0.01, kindred=1.0)
"""A crawl without visits expects a link in a hundred days.

A few pages give nearly all new links, and pages of a pattern are alike in this, so a few visits without new links tell
much.
"""


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
