"""The priority of a URL: its weight is a sum of terms, and its level in the frontier follows from the weight.

    weight = the sum of the terms of PRIORITIZERS, 0 for a usual page, more for a better page
    level  = 3 - weight, rounded, from 0 to 7; the lowest is the best, and a half is rounded to the worse level

URL_LEVELS may set or shift the level. docs/guide/priorities.md has the table. A term weighs one property of a URL, in
units of a level. To add a term, subclass Term, describe it in `why`, and add the class to PRIORITIZERS.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log2
from typing import ClassVar, NamedTuple, Self

from webcrawl.config import read
from webcrawl.config.kinds import expression
from webcrawl.config.rules import LevelRule
from webcrawl.urls.patterns import Patterns

USUAL = 3
"""The level of weight 0, and of a Request without a priority."""
LOWEST = 7

_BOUNDS = tuple(USUAL - 0.5 - level for level in reversed(range(LOWEST)))
"""The weights that separate the levels, the lowest first."""

_STEPS = 4
"""The steps in which the age of a visit doubles, so ages that differ by less than a fifth may be equal."""
_MOST_STEPS = 32 * _STEPS


@dataclass(slots=True)
class Prospect:
    """A discovered URL, as its terms see it. One record serves all links of a page in turn: do not keep it.

    url        the normalized URL
    path       its path and query
    depth      the number of links between a seed and the URL; 0 for a seed
    source     the normalized URL of the page that links to it; empty without such a page
    now        the current time, in seconds since 1970 like all times here
    text       the text of the link, on one line; empty unless a term of the chain `needs_text`
    modified   the time of its last change, by a sitemap or feed, or None
    period     the seconds between two of its changes, by the `changefreq` of a sitemap, or None
    rank       the `priority` of a sitemap, from 0 to 1, or None
    worth      the worth of the credit that has reached the URL (webcrawl.policies.importance), or None
    sunk       the number of levels by which the URL sinks with its pattern (webcrawl.policies.pattern_records)
    is_new     the page that links to it was visited before, and no page is known that had linked to it
    """

    url: str
    path: str
    depth: int = 1
    source: str = ""
    now: float = 0.0
    text: str = ""
    modified: float | None = None
    period: float | None = None
    rank: float | None = None
    worth: int | None = None
    sunk: int = 0
    is_new: bool = False


class Term(ABC):
    """Weighs one property of URLs."""

    why: ClassVar[str]
    """What the term prefers, and why, for the output of `scrapy checkurl`."""
    needs_text: ClassVar[bool] = False
    """Whether the term reads `Prospect.text`, which takes time to extract from pages."""
    of_requests: ClassVar[bool] = True
    """Whether the term also weighs the requests of a spider that have no priority of their own."""

    @abstractmethod
    def weight(self, prospect: Prospect) -> float:
        """Returns the levels by which a URL is better than usual; negative if it is worse."""

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self | None:
        """Creates the term from settings; returns None if the settings give it nothing to do.

        Raises ConfigurationError, which names a key with a wrong value.
        """
        return cls()


class UrlLevels:
    """Changes the levels of URLs that match the regular expressions of URL_LEVELS.

    The first matching rule that sets a level replaces the level of the URL's weight. The shifts of all matching rules
    are added, and the sum is limited to the levels 0 to 7.
    """

    def __init__(self, rules: Sequence[LevelRule]) -> None:
        self._rules = tuple(rules)
        self._patterns = Patterns(expression(rule.pattern) for rule in self._rules)

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self | None:
        """Reads URL_LEVELS; returns None if it is empty."""
        rules = tuple(read(config, "URL_LEVELS"))
        return cls(rules) if rules else None

    def change(self, url: str, level: int) -> int:
        """Returns the level of a URL whose level without the rules is `level`."""
        matching = self._patterns.matching(url)
        if not matching:
            return level
        base: int | None = None
        shift = 0
        for number in matching:
            change = self._rules[number].level
            if isinstance(change, str):
                shift += int(change)
            elif base is None:
                base = change
        return min(max((level if base is None else base) + shift, 0), LOWEST)

    def matching(self, url: str) -> tuple[str, ...]:
        """Returns the rules that match a URL, as they are written in settings."""
        return tuple(str(self._rules[number]) for number in self._patterns.matching(url))


class WeighedTerm(NamedTuple):
    """One term of a weight."""

    name: str
    weight: float
    why: str


@dataclass(frozen=True)
class Weighed:
    """The weight of a URL with its terms, and its level. `matched`: the expressions of URL_LEVELS that it matches."""

    parts: tuple[WeighedTerm, ...]
    weight: float
    level: int
    matched: tuple[str, ...] = ()


class Prioritizer:
    """Adds up the terms of a chain."""

    def __init__(self, terms: Iterable[Term], levels: UrlLevels | None = None) -> None:
        self.terms = tuple(terms)
        self.levels = levels
        self._weights = tuple(term.weight for term in self.terms)
        self._of_requests = tuple(term.weight for term in self.terms if term.of_requests)
        self.needs_text = any(term.needs_text for term in self.terms)
        self.weighs_requests = bool(self._of_requests or levels)

    @classmethod
    def from_config(cls, config: Mapping[str, object], terms: Iterable[type[Term]]) -> Self:
        """Creates a chain of these classes from one configuration."""
        made = (term.from_config(config) for term in terms)
        return cls((term for term in made if term is not None), UrlLevels.from_config(config))

    def level(self, prospect: Prospect) -> int:
        """Returns the level of a link."""
        weight = 0.0
        for weigh in self._weights:
            weight += weigh(prospect)
        level = LOWEST - bisect_left(_BOUNDS, weight)
        return level if self.levels is None else self.levels.change(prospect.url, level)

    def level_of_request(self, prospect: Prospect) -> int:
        """Returns the level of a spider's request that has no priority of its own."""
        level = level_of_weight(sum(weigh(prospect) for weigh in self._of_requests))
        return level if self.levels is None else self.levels.change(prospect.url, level)

    def weighed(self, prospect: Prospect) -> Weighed:
        """Returns the level of a link, with its weight and terms."""
        parts = tuple(
            WeighedTerm(type(term).__name__, term.weight(prospect), term.why) for term in self.terms
        )
        weight = sum(part.weight for part in parts)
        matched = () if self.levels is None else self.levels.matching(prospect.url)
        return Weighed(parts, weight, self.level(prospect), matched)


def level_of_weight(weight: float) -> int:
    """Returns the level of a weight: 3 - weight, rounded and from 0 to 7. The lowest for NaN."""
    return LOWEST - bisect_left(_BOUNDS, weight)


def level_of_visit(level: int, age: float) -> int:
    """Returns the level of a URL that was visited `age` seconds ago; `level`: that of its weight, from 0 to 7.

    URLs that were never visited come first, with the levels 0 to 7 of their weights, then those visited longest ago: a
    crawl that revisits pages and ends at a limit fetches all pages in turn. The levels of the visited follow, eight for
    each step of the age:

        level = 8 * (1 + steps from the greatest age) + the level of its weight
    """
    steps = min(int(_STEPS * log2(max(age, 1.0))), _MOST_STEPS)
    return (LOWEST + 1) * (1 + _MOST_STEPS - steps) + min(max(level, 0), LOWEST)
