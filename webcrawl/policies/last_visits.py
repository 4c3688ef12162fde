"""Orders URLs by their last visit: never visited first, then those visited longest ago.

A crawl that revisits pages and ends at a limit fetches all pages in turn this way. The level of a URL that was never
visited is that of its weight, 0 to 7. The levels of the others follow, eight for each step of the age:

    level = 8 * (1 + steps from the greatest age) + the level of its weight
"""

from __future__ import annotations

from math import log2

from webcrawl.policies.priorities import LOWEST

_STEPS = 4
"""The steps in which the age doubles, so ages that differ by less than a fifth may be equal."""
_MOST_STEPS = 32 * _STEPS


def level_of_visit(level: int, age: float) -> int:
    """Returns the level of a URL that was visited `age` seconds ago; `level`: that of its weight, from 0 to 7."""
    steps = min(int(_STEPS * log2(max(age, 1.0))), _MOST_STEPS)
    return (LOWEST + 1) * (1 + _MOST_STEPS - steps) + min(max(level, 0), LOWEST)
