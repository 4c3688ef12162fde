"""The terms of a weight that webcrawl brings; docs/reference/priorities.md has their tables.

Weights are multiples of 1/16, so sums are exact and do not depend on the order of the terms. An ordinary URL weighs
about 0. The shape of a URL is a weak sign of the value of its page, so one of these terms alone rarely moves a URL by
more than a level. Sources: the location metric of Cho, Garcia-Molina and Page, "Efficient crawling through URL
ordering" (1998), which prefers URLs with few slashes; for the depth of links, Najork and Wiener, "Breadth-first
crawling yields high-quality pages" (2001).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from functools import lru_cache
from typing import Self

from webcrawl.config import read
from webcrawl.policies.change_rates import DAY
from webcrawl.policies.importance import rise
from webcrawl.policies.priorities import Prospect, Term

_EPOCH = date(1970, 1, 1).toordinal()
# A literal prefix makes the search fast, so there is an expression for each century.
_DATE = r"(%d(?<!\d%d)\d\d)([/-])(0?[1-9]|1[0-2])(?:\2(0?[1-9]|[12]\d|3[01]))?(?!\d)"
_DATE_FROM_2000, _DATE_BEFORE_2000 = (re.compile(_DATE % (century, century)) for century in (20, 19))
_MOST_WORDS = 3.0
"""The sum of ANCHOR_WORDS is limited to plus or minus this."""


class LinkDepth(Term):
    """Depth 0 to 2: 0. Each further link costs 1/8, up to 1. Breadth-first order decides within a level."""

    why = "Pages near the seeds are better: those far away are often archives and lists."
    of_requests = False

    _WEIGHTS = (0.0, 0.0, 0.0, *(-step / 8 for step in range(1, 9)))

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self | None:
        """Returns None unless FRONTIER_ORDER is breadth-first: other orders decide about the depth themselves."""
        return cls() if read(config, "FRONTIER_ORDER") == "breadth-first" else None

    def weight(self, prospect: Prospect) -> float:
        depth = prospect.depth
        return self._WEIGHTS[depth] if depth < 10 else -1.0


class PathDepth(Term):
    """Segments of the path. 0: 5/8, 1: 1/4, 2: 1/8, 3 and 4: 0. Each further one costs 1/4, up to 1 1/4."""

    why = "Start pages and short paths are entries to a site; long paths are details."
    of_requests = False

    _WEIGHTS = (0.625, 0.25, 0.125, 0.0, 0.0, -0.25, -0.5, -0.75, -1.0, -1.25)

    def weight(self, prospect: Prospect) -> float:
        path = prospect.path
        if "?" in path:
            path = path[: path.index("?")]
        segments = path.count("/") - (path[-1] == "/")  # "/" has none, "/a" and "/a/" have one
        return self._WEIGHTS[segments] if segments < 10 else -1.25


class Length(Term):
    """Characters of path and query. Up to 80: 0. Each further 20 cost 1/8, up to 1."""

    why = "Long URLs are often made by programs, for one visitor or one search."
    of_requests = False

    def weight(self, prospect: Prospect) -> float:
        length = len(prospect.path)
        return 0.0 if length <= 80 else -min((length - 61) // 20, 8) / 8


class Parameters(Term):
    """Parameters of the query. None: 0, 1: -3/8, 2: -5/8, 3: -7/8. Each further one costs 1/4, up to 1 5/8."""

    why = "Parameters sort, filter and search pages that have URLs of their own."
    of_requests = False

    def weight(self, prospect: Prospect) -> float:
        path = prospect.path
        return max(-0.125 - (path.count("&") + 1) / 4, -1.625) if "?" in path else 0.0


class DateInUrl(Term):
    """A date in the path. The last 7 days: 3/4. Up to a year: 1/4. Up to 5 years: 0. Older: -3/8. After tomorrow: -3/4.

    A date has a year, a month and perhaps a day, as in /2026/11/23/ and /2026-11/. A month counts as its 31st day.
    """

    why = "New articles are wanted first; a date to come is a page of a calendar."
    of_requests = False

    def weight(self, prospect: Prospect) -> float:
        path, match = prospect.path, None
        if "20" in path:
            match = _DATE_FROM_2000.search(path)
        if match is None and "19" in path:
            match = _DATE_BEFORE_2000.search(path)
        return 0.0 if match is None else _weight_of_date(*match.groups(), int(prospect.now // DAY))


@lru_cache(maxsize=1024)
def _weight_of_date(year: str, _: str, month: str, day: str | None, today: int) -> float:
    """Returns the weight of a date in a URL; `today`: days since 1970."""
    try:
        first = date(int(year), int(month), int(day or 1)).toordinal() - _EPOCH
    except ValueError:  # 31 April
        return 0.0
    if first > today + 1:
        return -0.75
    age = today - (first if day else first + 30)
    return 0.75 if age <= 7 else 0.25 if age <= 366 else 0.0 if age <= 5 * 366 else -0.375


class AnchorWords(Term):
    """The sum of the weights of all expressions of ANCHOR_WORDS that match the text of the link."""

    why = "The operator knows which words lead to good pages: ANCHOR_WORDS."
    needs_text = True
    of_requests = False

    def __init__(self, weights: Mapping[str, float]) -> None:
        self._words = [(re.compile(pattern, re.IGNORECASE), weight) for pattern, weight in weights.items()]

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self | None:
        weights = read(config, "ANCHOR_WORDS")
        return cls(weights) if weights else None

    def weight(self, prospect: Prospect) -> float:
        text = prospect.text
        if not text:
            return 0.0
        total = sum(weight for word, weight in self._words if word.search(text))
        return min(max(total, -_MOST_WORDS), _MOST_WORDS)


class Freshness(Term):
    """The statements of a sitemap or feed about a URL: the sum of three weights.

    Changed within a day: 1 1/4, within 7 days: 1, within 31 days: 1/2. `changefreq` always, hourly or daily: 3/8,
    weekly: 1/8, yearly or never: -1/4. `priority`: from -1/2 for 0.0 to 1/2 for 1.0. A time in the future weighs 0.
    """

    why = "Sitemaps and feeds tell what has changed."
    of_requests = False

    def weight(self, prospect: Prospect) -> float:
        total = 0.0
        if prospect.modified is not None:
            total += self._by_age(prospect.now - prospect.modified)
        if (period := prospect.period) is not None and (period <= 7 * DAY or period >= 365 * DAY):
            total += 0.375 if period <= DAY else 0.125 if period <= 7 * DAY else -0.25
        if prospect.rank is not None:
            total += round((min(max(prospect.rank, 0.0), 1.0) - 0.5) * 16) / 16
        return total

    @staticmethod
    def _by_age(age: float) -> float:
        if age < 0 or age > 31 * DAY:
            return 0.0
        return 1.25 if age <= DAY else 1.0 if age <= 7 * DAY else 0.5


class NewLink(Term):
    """A link that is new on a page that was visited before, with RECRAWL: 2."""

    why = "What is new on a page that was visited before has just appeared there."
    of_requests = False

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self | None:
        """Returns None without RECRAWL."""
        return cls() if read(config, "RECRAWL") else None

    def weight(self, prospect: Prospect) -> float:
        return 2.0 if prospect.is_new else 0.0


class Importance(Term):
    """Credit that flows along links: each factor of eight is a level, from 3 better (512 times the mean) to 2 worse."""

    why = "Pages that important pages link to are important themselves."
    of_requests = False

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self | None:
        """Returns None if IMPORTANCE is off, and unless FRONTIER_ORDER is breadth-first, like LinkDepth."""
        used = read(config, "IMPORTANCE") != "off" and read(config, "FRONTIER_ORDER") == "breadth-first"
        return cls() if used else None

    def weight(self, prospect: Prospect) -> float:
        return 0.0 if prospect.worth is None else float(rise(prospect.worth))


class PatternRecord(Term):
    """The levels by which URLs of its pattern sink: 0, -2 or -8; see webcrawl.policies.pattern_records."""

    why = "A pattern of URLs whose pages give nothing new is a trap, or a list of what is known."
    of_requests = False

    def weight(self, prospect: Prospect) -> float:
        return 0.0 - prospect.sunk
