"""Detects a share of errors that is high compared with the crawl's past.

The past is an exponentially weighted mean and variance of the share in windows, updated window by window (Finch
2009, "Incremental calculation of weighted mean and variance"), as in an EWMA control chart (Roberts 1959). A window
is an error surge if its share is four standard deviations, and ten percentage points, above the mean. The deviation
includes that of a binomial share in a window of this size. The past is not updated during a surge, until the surge
has lasted an hour: then it counts as the normal state of the crawl.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from webcrawl.alarms.reading import CrawlReading

WINDOW_SECONDS, LEAST_FETCHES = 60.0, 50
"""A window has at least this length and this many fetches."""
LEARNED = 5
"""The number of windows before the first window that is judged."""
DEVIATIONS, LEAST_RISE = 4.0, 0.1
SURGE_SECONDS = 3600.0
_WEIGHT = 0.1


@dataclass(frozen=True, slots=True)
class Past:
    """The weighted mean and variance of the share of errors over `windows` windows."""

    mean: float = 0.0
    variance: float = 0.0
    windows: int = 0

    def and_then(self, share: float) -> Past:
        """Returns the past with a further window; the first windows have equal weights."""
        weight = max(_WEIGHT, 1 / (self.windows + 1))
        difference = share - self.mean
        step = weight * difference
        return Past(self.mean + step, (1 - weight) * (self.variance + difference * step), self.windows + 1)

    def bound(self, fetches: int) -> float:
        """Returns the highest usual share in a window with `fetches` fetches; infinity after too few windows."""
        if self.windows < LEARNED:
            return math.inf
        mean = min(max(self.mean, 0.0), 1.0)
        deviation = math.sqrt(max(self.variance, 0.0) + mean * (1 - mean) / fetches)
        return mean + max(DEVIATIONS * deviation, LEAST_RISE)


@dataclass(frozen=True, slots=True)
class Errors:
    """The state of the detection: the past, and the figures when the current window `began`.

    surge      when the current surge began; 0 without a surge
    """

    past: Past = Past()
    began: float = 0.0
    fine: int = 0
    bad: int = 0
    retried: int = 0
    surge: float = 0.0


@dataclass(frozen=True, slots=True)
class Surge:
    """A window in which `bad` of `fetches` failed; the usual share is `mean`."""

    began: float
    seconds: float
    bad: int
    fetches: int
    mean: float


def judge_errors(errors: Errors, reading: CrawlReading) -> tuple[Errors, Surge | None]:
    """Returns the state after a reading, and a surge that begins, or None."""
    fine = reading.fine - errors.fine
    # a failed fetch is in `bad` or in `retried`; an error response whose fetch is repeated is in both
    bad = max(reading.bad - errors.bad, reading.retried - errors.retried)
    seconds = reading.now - errors.began
    if errors.began == 0.0 or fine < 0 or bad < 0 or seconds < 0:
        return _begun(replace(errors, surge=0.0), reading), None
    fetches = fine + bad
    if seconds < WINDOW_SECONDS or fetches < LEAST_FETCHES:
        return errors, None
    share = bad / fetches
    if share <= errors.past.bound(fetches):
        return _begun(Errors(errors.past.and_then(share)), reading), None
    if errors.surge == 0.0:
        surge = Surge(errors.began, seconds, bad, fetches, errors.past.mean)
        return _begun(replace(errors, surge=reading.now), reading), surge
    is_usual = reading.now - errors.surge >= SURGE_SECONDS
    return _begun(Errors() if is_usual else errors, reading), None


def _begun(errors: Errors, reading: CrawlReading) -> Errors:
    """Begins a window."""
    return replace(errors, began=reading.now, fine=reading.fine, bad=reading.bad, retried=reading.retried)
