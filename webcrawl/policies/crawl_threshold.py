"""The threshold of crawl values: the price of a fetch, which follows the capacity that there is.

Nothing is solved centrally. Pages are due when their value reaches the threshold. If more are due than can be fetched,
they are fetched late, at higher values; if fewer are due, pages are fetched early, at lower values. The threshold
follows these values, as the price in Busa-Fekete and others (WWW 2025). It moves smoothly, so the plan has no spikes.

A host that bears few fetches has a threshold of its own, which follows the values of its own fetches and counts if it
is higher than that of the crawl: so the host gets its best pages.
"""

from __future__ import annotations

import math
from typing import NamedTuple

SMOOTHING_DAYS = 1.0
"""The threshold is a mean over about so many days."""


class Threshold(NamedTuple):
    """A threshold: two numbers, which can be stored.

    `value`: in weighted days of freshness. `days`: for how long it has been observed, at most SMOOTHING_DAYS; 0 for a
    guess, which the first observation replaces.
    """

    value: float
    days: float = 0.0

    def followed(self, values: FetchValues, days: float) -> Threshold:
        """Returns the threshold after some days with fetches of these values."""
        if not values.fetches or days <= 0:
            return self
        known = min(SMOOTHING_DAYS, self.days + days)
        part = min(1.0, days / known)
        logarithm = (1 - part) * math.log(self.value) + part * values.logarithms / values.fetches
        return Threshold(math.exp(logarithm), known)


class FetchValues(NamedTuple):
    """The values of pages when they were fetched: a sum, which can be added to others.

    Only pages count that had ripened: not those that a signal announced, that had waited for the shortest time between
    two visits, or had reached the longest, that are dead, or whose host was asked as often as it bears.
    """

    fetches: int = 0
    logarithms: float = 0.0

    def merged(self, other: FetchValues) -> FetchValues:
        """Returns the sum of two."""
        return FetchValues(self.fetches + other.fetches, self.logarithms + other.logarithms)

    def with_fetch(self, value: float) -> FetchValues:
        """Returns the values with that of a further fetch; values of 0 tell nothing."""
        if value <= 0:
            return self
        return FetchValues(self.fetches + 1, self.logarithms + math.log(value))
