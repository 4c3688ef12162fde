"""Learns how far to believe what announces changes: `lastmod` of sitemaps, entries of feeds, dates.

Each kind of signal of a host announces a share of the changes, its recall, and announces changes that were none, at a
rate of its own. Both are learned from visits. Whoever knows them can tell how fresh a page is, from the announcements
and from their absence: Kolobov, Peres, Lubetzky, Horvitz, "Optimal Freshness Crawl Under Politeness Constraints" (SIGIR
2019); Busa-Fekete and others, "Learning to Crawl: noisy change-indicating signals" (WWW 2025).

    quality = SignalCounts()                                     # for each host and kind of signal
    evidence = evidence_of([(quality, 2)], rate)                 # announced twice since the last visit
    quality = quality.merged(quality.learned(visit, 2, rate))    # at the visit
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from webcrawl.policies.change_rates import LEAST_DAYS, ChangeRate, PageVisit

_FIRST_HITS, _FIRST_MISSES = 1.0, 1.0
_FIRST_FALSE, _FIRST_DAYS = 1.0, 20.0
_MOST_TRUST = 0.98
"""The highest recall and precision, however many visits have shown no exception."""
_MOST_COUNTS = 500.0
_BELIEVED = 1.0
"""All announcements are false with a probability of less than exp(-_BELIEVED)."""


class SignalCounts(NamedTuple):
    """Counts of a kind of signal of a host, which fade when they are large.

    hits      announced changes
    misses    changes that were not announced
    mistakes  announcements without a change
    days      the days in which pages had this signal
    """

    hits: float = 0.0
    misses: float = 0.0
    mistakes: float = 0.0
    days: float = 0.0

    @property
    def recall(self) -> float:
        """The share of changes that are announced: the mean of a Beta distribution."""
        hits = self.hits + _FIRST_HITS
        return min(_MOST_TRUST, hits / (hits + self.misses + _FIRST_MISSES))

    @property
    def false_rate(self) -> float:
        """The announcements a day that no change has caused: the mean of a Gamma distribution."""
        return (self.mistakes + _FIRST_FALSE) / (self.days + _FIRST_DAYS)

    def precision(self, rate: ChangeRate) -> float:
        """Returns the probability that an announcement is true for a page with this rate of change."""
        true = self.recall * rate.mean
        return min(_MOST_TRUST, true / (true + self.false_rate))

    def learned(self, visit: PageVisit, announced: int, rate: ChangeRate) -> SignalCounts:
        """Returns what a visit adds to the counts: the page had so many announcements since the visit before.

        `rate` is that before the visit. After a change, the counts are expectations: the change may be another one than
        the announced one (the expectation step of EM).
        """
        if not visit.changed or visit.gone:
            return SignalCounts(mistakes=announced, days=visit.days)
        precision, missed = self.precision(rate), (1 - self.recall) * rate.mean * visit.days
        certainty = max(1e-9, 1 - (1 - precision) ** announced * math.exp(-missed))
        hits = min(float(announced), announced * precision / certainty)
        return SignalCounts(hits, missed / certainty, announced - hits, visit.days)

    def merged(self, other: SignalCounts) -> SignalCounts:
        """Returns the sum of two counts; large sums are halved, so that a signal that turns bad is noticed."""
        merged = SignalCounts(*map(sum, zip(self, other, strict=True)))
        if merged.hits + merged.misses + merged.mistakes > _MOST_COUNTS:
            merged = SignalCounts(*(count / 2 for count in merged))
        return merged


class SignalEvidence(NamedTuple):
    """What the signals of a page tell since its last visit.

    unannounced    the share of its changes that no signal would announce
    announcements  the expected announcements for each change, true and false
    wear           minus the logarithm of the probability that all announcements were false
    step           the wear of an announcement
    """

    unannounced: float = 1.0
    announcements: float = 0.0
    wear: float = 0.0
    step: float = 0.0

    @property
    def is_believed(self) -> bool:
        """Whether the announcements are probably true; then a change that a visit finds has the date of the first."""
        return self.wear > _BELIEVED


NO_SIGNALS = SignalEvidence()
"""The evidence of a page without any signal."""


def evidence_of(signals: Iterable[tuple[SignalCounts, int]], rate: ChangeRate) -> SignalEvidence:
    """Returns the evidence of a page: the kinds of signals that it has, and the announcements of each."""
    unannounced, announcements, wear, steps = 1.0, 0.0, 0.0, 0.0
    mean = max(rate.mean, LEAST_DAYS)
    for counts, announced in signals:
        step = -math.log1p(-counts.precision(rate))
        often = counts.recall + counts.false_rate / mean
        unannounced *= 1 - counts.recall
        announcements += often
        steps += often * step
        wear += announced * step
    return SignalEvidence(unannounced, announcements, wear, steps / announcements if announcements else 0.0)
