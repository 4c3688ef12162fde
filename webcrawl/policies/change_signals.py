"""Learns how far to believe what tells of changes: sitemaps, feeds, dates of pages, validators, `Cache-Control`.

Each kind of signal of a host announces a share of the changes, its recall, and announces changes that were none, at a
rate of its own. Both are learned from visits. Whoever knows them can tell how fresh a page is, from the announcements
and from their absence: Kolobov, Peres, Lubetzky, Horvitz, "Optimal Freshness Crawl Under Politeness Constraints" (SIGIR
2019); Busa-Fekete and others, "Learning to Crawl: noisy change-indicating signals" (WWW 2025).

`Cache-Control` and `Expires` announce the opposite: for how long a page stays as it is (RFC 9111, 4.2). Of the changes
that are to be expected in this time, a share happens nevertheless; it is learned, and 1 until there is evidence.

    quality = SignalCounts()                                     # for each host and kind of signal
    evidence = evidence_of([(quality, 2)], rate)                 # announced twice since the last visit
    quality = quality.merged(quality.learned(visit, 2, rate))    # at the visit
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from webcrawl.policies.change_rates import DAY, LEAST_DAYS, ChangeRate, PageVisit

SITEMAP, FEED, CACHE_CONTROL = "sitemap", "feed", "cache-control"
"""Kinds of signals that tell something between visits."""
LAST_MODIFIED, PAGE_DATE, ETAG = "last-modified", "page-date", "etag"
"""Kinds of signals that only visits bring: when a page has changed, by its header and its text, and whether."""

_FIRST_HITS, _FIRST_MISSES = 1.0, 1.0
_FIRST_FALSE, _FIRST_DAYS = 1.0, 5.0
_MOST_TRUST = 0.98
"""The highest recall and precision, however many visits have shown no exception."""
_MOST_COUNTS = 500.0
_LEAST_PRECISION = 0.2
"""A signal whose announcements are true less often is no evidence: all pages that change today are no news."""
_LEAST_CHECKED = 10.0
"""Before so many announcements of a host were checked by visits, they are no evidence: a new host that lies would take
the fetches of the others until it is known."""
_BELIEVED = 1.0
"""All announcements are false with a probability of less than exp(-_BELIEVED)."""
_FIRST_BROKEN = 2.0
_FIRST_VALID, _LEAST_VALID = 10.0, 2 / 3
"""A host's validators miss a third of the changes, in spite of so many that they are supposed to have shown before."""
_LONGEST_LIFETIME = 365.0
_AGE = re.compile(r"(?:^|[,\s])(s-maxage|max-age)\s*=\s*\"?(\d+)", re.IGNORECASE)
_NOT_KEPT = re.compile(r"(?:^|[,\s])no-(?:cache|store)\s*(?:$|,)", re.IGNORECASE)


class SignalCounts(NamedTuple):
    """Counts of a kind of signal of a host, which fade when they are large.

    hits      announced changes; of `Cache-Control` those that were to be expected in lifetimes, less `misses`
    misses    changes that were not announced, or happened in lifetimes
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

    @property
    def broken(self) -> float:
        """The share of changes that happen in lifetimes of `Cache-Control`, as if it had not been sent: at most 1."""
        share = (self.misses + _FIRST_BROKEN) / (self.hits + self.misses + _FIRST_BROKEN)
        return max(1 - _MOST_TRUST, min(1.0, share))

    @property
    def is_valid(self) -> bool:
        """Whether a validator (`ETag`, `Last-Modified`) that is the same as before tells that a page is unchanged."""
        return self.hits + _FIRST_VALID >= _LEAST_VALID * (self.hits + self.misses + _FIRST_VALID + 1)

    def precision(self, rate: ChangeRate) -> float:
        """Returns the probability that an announcement is true for a page with this rate of change."""
        true = self.recall * rate.mean
        return min(_MOST_TRUST, true / (true + self.false_rate))

    def learned(self, visit: PageVisit, announced: int, rate: ChangeRate) -> SignalCounts:
        """Returns what a visit adds to the counts: the page had so many announcements since the visit before.

        `rate` is the rate before the visit. After a change, the counts are expectations: the page may have changed
        without the change that was announced (the expectation step of EM).
        """
        if not visit.changed or visit.gone:
            return SignalCounts(mistakes=announced, days=visit.days)
        precision, missed = self.precision(rate), (1 - self.recall) * rate.mean * visit.days
        certainty = max(1e-9, 1 - (1 - precision) ** announced * math.exp(-missed))
        hits = min(float(announced), announced * precision / certainty)
        return SignalCounts(hits, missed / certainty, announced - hits, visit.days)

    def compared(self, visit: PageVisit, announced: int) -> SignalCounts:
        """Returns what a visit adds to the counts of `ETag`, which has changed (`announced`) since the visit before."""
        if not visit.changed or visit.gone:
            return SignalCounts(mistakes=announced, days=visit.days)
        return SignalCounts(hits=announced, misses=1 - announced, days=visit.days)

    def outlived(self, visit: PageVisit, lifetime: float, rate: ChangeRate) -> SignalCounts:
        """Returns what a visit adds to the counts of `Cache-Control`; the visit before gave this lifetime in days.

        `rate` is that before the visit. A step of Fisher scoring for `broken`, the share of changes in lifetimes: it
        is larger than that of EM, since a change after the lifetime hides one in it.
        """
        if visit.gone:
            return SignalCounts()
        within, is_dated = min(visit.days, lifetime), visit.changed and visit.dated is not None
        expected = rate.mean * within
        others = 0.0 if is_dated else rate.mean * (visit.days - within)
        odds = 1 / max(1e-9, math.expm1(min(100.0, self.broken * expected + others)))
        share = self.broken * expected * odds
        changed = (visit.dated or 0.0) < within if is_dated else visit.changed
        weight = share * expected
        misses = self.broken * weight + (share if changed else -min(1.0, self.broken * expected))
        return SignalCounts(weight - misses, misses, days=within)

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
    lifetime the days after the last visit in which the page stays as it is, as `Cache-Control` told
    """

    times: int = 0
    first: float = 0.0
    latest: float = 0.0
    source: str = ""
    lifetime: float = 0.0

    def heard(self, changed: float, visited: float, now: float, source: str) -> Announcements:
        """Returns the announcements with a further one: a page tells that this page, last visited then, has changed.

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


def lesson(kind: str, signal: PageSignal, visit: PageVisit, rate: ChangeRate) -> SignalCounts:
    """Returns what a visit adds to the counts of a kind of signal; `rate` is that before the visit."""
    counts, announced = signal
    if kind == CACHE_CONTROL:
        return counts.outlived(visit, announced.lifetime, rate)
    if kind == ETAG:
        return counts.compared(visit, announced.times)
    return counts.learned(visit, announced.times, rate)


class SignalEvidence(NamedTuple):
    """What the signals of a page tell since its last visit.

    unannounced    the share of its changes that no signal would announce
    announcements  the expected announcements for each change, true and false
    wear           minus the logarithm of the probability that all announcements were false
    step           the wear of an announcement
    lifetime       the days in which the page is to stay as it is
    broken         the share of changes in these days that happen nevertheless
    heard          how many announcements of a kind are expected to be true, the most of any kind
    """

    unannounced: float = 1.0
    announcements: float = 0.0
    wear: float = 0.0
    step: float = 0.0
    lifetime: float = 0.0
    broken: float = 1.0
    heard: float = 0.0

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
    unannounced, announcements, wear, steps, heard = 1.0, 0.0, 0.0, 0.0, 0.0
    mean = max(rate.mean, LEAST_DAYS)
    for counts, announced in signals:
        precision = counts.precision(rate)
        if precision < _LEAST_PRECISION or counts.hits + counts.mistakes < _LEAST_CHECKED:
            continue
        step = -math.log1p(-precision)
        often = counts.recall + counts.false_rate / mean
        unannounced *= 1 - counts.recall
        announcements += often
        steps += often * step
        wear += announced * step
        heard = max(heard, announced * precision)
    step = steps / announcements if announcements else 0.0
    return SignalEvidence(unannounced, announcements, wear, step, heard=heard)


def signal_evidence(signals: Mapping[str, PageSignal], rate: ChangeRate) -> SignalEvidence:
    """Returns the evidence of a page with these signals by kind; `ETag` tells nothing of the time of a change."""
    if not signals:
        return NO_SIGNALS
    dated = [
        (signal.counts, signal.announced.times)
        for kind, signal in signals.items()
        if kind not in (CACHE_CONTROL, ETAG)
    ]
    evidence = evidence_of(dated, rate) if dated else NO_SIGNALS
    if (promise := signals.get(CACHE_CONTROL)) is None:
        return evidence
    return evidence._replace(lifetime=promise.announced.lifetime, broken=promise.counts.broken)


def lifetime_days(cache_control: str | None, expires: str | None, date: str | None) -> float:
    """Returns for how many days a response stays current by these headers, 0 if they do not tell.

    `s-maxage` counts before `max-age`, and this before `Expires` (RFC 9111, 4.2.1). `immutable` (RFC 8246) promises
    nothing beyond that.
    """
    text = cache_control or ""
    if _NOT_KEPT.search(text):
        return 0.0
    ages = {name.lower(): float(seconds) for name, seconds in _AGE.findall(text)}
    seconds = ages.get("s-maxage", ages.get("max-age"))
    if seconds is None:
        until, since = http_time(expires), http_time(date)
        seconds = 0.0 if until is None or since is None else until - since
    return max(0.0, min(_LONGEST_LIFETIME, seconds / DAY))


def http_time(text: str | None) -> float | None:
    """Returns the time of a header in seconds since 1970, None if it is missing or wrong."""
    if not text:
        return None
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
