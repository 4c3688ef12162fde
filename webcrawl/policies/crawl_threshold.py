"""The threshold of crawl values: the price of a fetch, which follows the capacity that there is.

Nothing is solved centrally. A page is due when its value reaches the threshold (webcrawl.policies.crawl_value). If more
pages become due than can be fetched, the threshold rises; if fewer do, it falls (dual ascent, as for the price in
Busa-Fekete and others, WWW 2025). It moves by a factor over a day, so the plan has no spikes.

    threshold = Threshold.for_capacity(sample, pages=10_000_000, fetches_a_day=500_000)      # once
    threshold = threshold.followed(days=1 / 1440, room=347, due=352, late=5)                 # each minute

The date of a page is computed once, at its visit, and the threshold moves on. So when its turn comes, it is asked again
whether the page is due (webcrawl.policies.crawl_value.is_due). While there is room, the next few pages have their turns
before their dates: otherwise, dates of a threshold that was too high would stay for months.

A host that bears few fetches has a threshold of its own, with its own room, due and late pages. The higher of the two
counts for its pages, so the host gets its best; they count for the crawl when they are due by the higher one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from webcrawl.policies.change_rates import LEAST_DAYS
from webcrawl.policies.crawl_value import Bounds, RecrawlCandidate

SMOOTHING_DAYS = 2.0
"""If twice as many pages become due as can be fetched, the threshold grows by a factor of e in so many days."""

_IDLE_HASTE = 4.0
"""While fetches are left over, the threshold falls so much faster than it rises: a fetch that is not made is lost."""

_LATE_DAYS = 3.0
"""Late pages are to be fetched within so many days, besides those that become due.

A steeper rise would overshoot: it makes late pages not due any more, and leaves fetches unused while it falls again.
"""
_LOWEST, _HIGHEST = 1e-9, 1e9
_HALVINGS = 30
_UNBOUNDED = Bounds(LEAST_DAYS)


class Threshold(NamedTuple):
    """A threshold of crawl values, in weighted days of freshness."""

    value: float

    @classmethod
    def for_capacity(
        cls,
        sample: Sequence[RecrawlCandidate],
        pages: float,
        fetches_a_day: float,
        bounds: Bounds = _UNBOUNDED,
    ) -> Threshold:
        """Returns the threshold at which so many pages, of which a sample is given, need so many fetches a day.

        `bounds` are those of the times between two visits. No page has its turn by a threshold beyond the values that
        pages have at these. This is a start; a few hundred pages are enough. With an error of a factor of 10,
        `followed` takes days. Announcements do not count: a page that is announced now is due at once, but not each
        time.
        """
        sample = [page.unannounced() for page in sample]
        low = max(_LOWEST, min(page.value(bounds.shortest) for page in sample))
        high = max(low, min(_HIGHEST, max(page.value(bounds.longest) for page in sample)))
        for _ in range(_HALVINGS):
            middle = math.sqrt(low * high)
            fetches = sum(
                1 / max(bounds.shortest, min(bounds.longest, page.ripe_days(middle))) for page in sample
            )
            if fetches * pages > fetches_a_day * len(sample):
                low = middle
            else:
                high = middle
        return cls(high)

    def followed(self, days: float, room: float, due: float, late: float) -> Threshold:
        """Returns the threshold after some days, usually minutes, since it was last told.

        `room`: how many pages could have been fetched in this time. `due`: how many became due, or were fetched before
        because there was room. `late`: how many are due now and wait.

        If early pages did not count, the threshold would fall while they fill the capacity. It would fall for as long
        as a cycle of visits takes, since dates are those of earlier thresholds, and then all pages would be due at
        once.
        """
        if room <= 0:
            return self
        excess = (due - room) / room + late * days / (room * _LATE_DAYS)
        haste = _IDLE_HASTE if room - due >= 1 and not late else 1.0
        steps = haste * days / SMOOTHING_DAYS * max(-1.0, min(1.0, excess))
        return Threshold(min(_HIGHEST, max(_LOWEST, self.value * math.exp(steps))))
