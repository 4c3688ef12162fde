"""Budgets of names and registered domains: the pages that each may have before others come first.

After BEAST, the budget enforcement of IRLbot (Lee, Leonard, Wang, Loguinov, "IRLbot: Scaling to 6 Billion Pages and
Beyond", WWW 2008). Anybody can make any number of pages and of names under a domain, but not links from other people's
domains. So a budget grows with the number of other registered domains that link to its owner.

A page costs less if it is important (webcrawl.policies.importance) and other domains link to its owner. So a budget
grows with credit from others, and not with credit that an owner's pages give each other. A host over its budget loses
nothing: it sinks to the lowest level, and is asked less often while other hosts have better URLs. How much less depends
on the number of these hosts: a crawl in which most hosts are over their budgets is not slowed down.
"""

from __future__ import annotations

import math
from typing import NamedTuple

FIRST = 50
"""Pages in the budget of every owner."""

PER_CUBE = 2
"""Pages in the budget, times the cube of the number of other registered domains that link to the owner. A few links
are easy to get; each further link is stronger evidence."""

MOST_DOMAINS = 64
"""The most linking domains that are counted."""

COST = 8
"""The cost of a page if its importance is unknown or at most the mean, or if no other domain links to its owner. Other
pages cost at least 1."""

NEW_HOST = COST
"""The cost of a name for its registered domain before its first page, because its robots.txt is fetched."""

WASTE = 3 * COST
"""The further cost of a page over a budget that gave nothing new: a copy, an error, or HTML without text."""

LONGEST = 32
"""The largest factor by which the gap between two requests grows."""

_SHARE = 2
"""A sunk host is asked this much more often than if all sunk hosts together had the turns of one other host."""

_MOST_PENALTY = 1024

_MANY = 16
"""Hosts of a domain over its budget that may be asked at once beside one other owner; beside two, half as many."""


OVER = (
    "A host over a budget loses nothing: its URLs come after those of other hosts, and while others wait, it is asked "
    "less often. Links from other domains raise a budget; HOST_BUDGETS=False turns budgets off."
)
"""What it means to be over a budget, for people."""


class Slowdown(NamedTuple):
    """By how much the gaps between two requests grow over a budget; see `gaps`.

    `factor`: growth of the gap for each unit of the penalty. `at_once`: the hosts of a domain that may be asked at
    once, apart from its gap; 0 if no other host waits.
    """

    factor: float = 0.0
    at_once: float = 0.0

    def gaps(self, penalty: int) -> float:
        """Returns the factor, from 1 to LONGEST, by which the gap of a host grows if its owner has this penalty."""
        return min(float(LONGEST), max(1.0, self.factor * penalty))


class Spending(NamedTuple):
    """The spending of a budget's owner, in units of which COST make a page, and the number of linking domains."""

    spent: int = 0
    domains: int = 0

    @property
    def pages(self) -> int:
        """The budget: the number of pages of mean importance that the owner may have."""
        return FIRST + PER_CUBE * min(self.domains, MOST_DOMAINS) ** 3

    @property
    def is_over(self) -> bool:
        """Whether the whole budget is spent."""
        return self.spent >= COST * self.pages

    @property
    def penalty(self) -> int:
        """The fourth power of the number of budgets spent, rounded down to a power of two; 0 within the budget."""
        if not self.is_over:
            return 0
        budgets = self.spent / (COST * self.pages)
        return min(_MOST_PENALTY, 1 << math.frexp(budgets**4)[1] - 1)

    def __str__(self) -> str:
        links = "no other domain links" if not self.domains else f"{self.domains:,} other domains link"
        if self.domains == 1:
            links = "1 other domain links"
        if self.domains >= MOST_DOMAINS:
            links = f"{MOST_DOMAINS} or more other domains link"
        return f"cost as much as {self.spent / COST:,.0f} pages, its budget is {self.pages:,}; {links} to it"


def cost(importance: float | None, domains: int) -> int:
    """Returns the cost of a page for its owner, to whom `domains` other registered domains link.

    `importance` is a multiple of the mean, None if unknown. It counts up to 1, plus 1 for each linking domain: seeds to
    which nobody links may be important by their own links alone.
    """
    if importance is None or importance <= 1:
        return COST
    return max(1, round(COST / min(importance, 1 + domains)))


def slowdown(better: int, sunk: float, wide: float) -> Slowdown:
    """Returns by how much hosts at the lowest level are slowed down.

    `better` hosts have better URLs and could be asked soon; `sunk` owners of budgets have one host at the lowest level,
    and `wide` domains have many. A host of a wide domain is no owner of its own here.
    """
    owners, others = sunk + wide, better + sunk
    factor = _SHARE * better / owners if owners else 0.0
    return Slowdown(factor, max(1.0, _MANY / others) if others else 0.0)
