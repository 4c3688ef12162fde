"""Learns how far to believe what announces changes: `lastmod` of sitemaps, dates of feeds' entries, `Last-Modified`.

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
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from webcrawl.policies.change_rates import DAY, LEAST_DAYS, ChangeRate, PageVisit

SITEMAP, FEED, LAST_MODIFIED = "sitemap", "feed", "last-modified"
"""Kinds of signals. A visit itself brings `Last-Modified`, so it announces nothing between visits."""

_FIRST_HITS, _FIRST_MISSES = 1.0, 1.0
_FIRST_FALSE, _FIRST_DAYS = 1.0, 5.0
_MOST_TRUST = 0.98
"""The highest recall and precision, however many visits have shown no exception."""
_MOST_COUNTS = 500.0
_LEAST_PRECISION = 0.2
"""A signal whose announcements are true less often is no evidence: all pages that change today are no news."""
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


class Announcements(NamedTuple):
    """What a kind of signal has told of a page since its last visit; times in seconds since 1970.

    times    announcements of changes, of which those within a day of another count as one
    first    the time of the first
    latest   the last change that the signal told, also one before the last visit; 0 if it has told none yet
    source   the URL of the page that has told it; empty without announcements
    """

    times: int = 0
    first: float = 0.0
    latest: float = 0.0
    source: str = ""

    def heard(self, changed: float, visited: float, now: float, source: str) -> Announcements:
        """Returns the announcements when a page tells that another one, last visited then, has changed.

        A date without a time of day may be any time of the day. Times to come are taken as now.
        """
        changed = min(changed, now)
        if changed == self.latest or (self.times and changed < self.latest + DAY):
            return self
        is_day = changed % DAY == 0 and self.latest
        if changed + (DAY if is_day else 0) <= visited:
            return self._replace(latest=changed)
        first = self.first if self.times else max(changed, visited)
        return Announcements(self.times + 1, first, changed, source)

    def visited(self) -> Announcements:
        """Returns the announcements after a visit of the page."""
        return Announcements(latest=self.latest)


class PageSignal(NamedTuple):
    """A kind of signal that a page has: what its host's are worth, and what it has told of the page."""

    counts: SignalCounts = SignalCounts()
    announced: Announcements = Announcements()


def page_signals(
    announced: Mapping[str, Sequence[Any]] | None, counts: Mapping[str, Sequence[float]] | None
) -> dict[str, PageSignal]:
    """Returns kind -> signal of a page, from the stored announcements of the page and counts of its host."""
    return {
        kind: PageSignal(SignalCounts(*(counts or {}).get(kind, ())), Announcements(*values))
        for kind, values in (announced or {}).items()
    }


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
    """Returns the evidence of a page: the kinds of signals that it has, and the announcements of each.

    Signals that are hardly ever true are left out.
    """
    unannounced, announcements, wear, steps = 1.0, 0.0, 0.0, 0.0
    mean = max(rate.mean, LEAST_DAYS)
    for counts, announced in signals:
        if (precision := counts.precision(rate)) < _LEAST_PRECISION:
            continue
        step = -math.log1p(-precision)
        often = counts.recall + counts.false_rate / mean
        unannounced *= 1 - counts.recall
        announcements += often
        steps += often * step
        wear += announced * step
    return SignalEvidence(unannounced, announcements, wear, steps / announcements if announcements else 0.0)
