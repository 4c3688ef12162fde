"""The trust of hosts: how many pages each may have before others, by what flows to it from hosts that had trust before.

After TrustRank (Gyongyi, Garcia-Molina and Pedersen, "Combating Web Spam with TrustRank", VLDB 2004): all trust begins
at the hosts of seeds, a host divides what it got among the hosts to which it links, and a part is lost on each link. So
however many hosts of a group link to each other, the group has only what the links of others bring to it. TrustRank
needs the graph. Here a host gives while the crawl finds its links, like the pages of OPIC
(webcrawl.policies.importance), and keeps a rest for hosts to which it links later.

The pages of a host divided by its trust are its cost, as in fair queueing (Demers, Keshav and Shenker, "Analysis and
simulation of a fair queueing algorithm", SIGCOMM 1989). A host whose next page would cost more than `most_cost` waits
while hosts with trust have URLs. The scripts in webcrawl/engine/lua compute the same numbers.
"""

from __future__ import annotations

import math
from typing import NamedTuple

SEED = 1.0
"""The trust of the host of a seed, and of a request that a spider yields without a page that links to it."""

KEPT = 0.85
"""The part of a gift that arrives; what is lost keeps loops from adding trust."""

FEW = 3
"""A host that has linked to n hosts divides its rest among the next m as if there were n + m + FEW."""

FIRST_COST = 50.0
"""The pages for each unit of trust that are never too many."""

SLACK = 8.0
"""A host may have so many times the pages for its trust that the crawl has for all trust."""

STRAY_SHARE = 0.05
"""The share of the pages of a crawl with a page limit that go to hosts of low trust while others have URLs."""

_RAISE, _STEEPER, _DECLINE = 2.0, 1.25, 0.97
"""The most cost is raised to so many times the least, and more if that is far above the usual most cost: then it stays
above for some looks. From look to look, its logarithm above the usual cost declines by 3 %, so that a short time
without URLs of trusted hosts is soon over."""


class Gift(NamedTuple):
    """What each host gets, and what is left."""

    each: float
    left: float


def give(left: float, given: int, hosts: int) -> Gift:
    """Divides the rest of a host that has given to `given` hosts among further ones; trust is never made."""
    part = left / (given + hosts + FEW)
    return Gift(KEPT * part, left - part * hosts)


class Standing(NamedTuple):
    """What one shard, or the crawl, has.

    better   hosts with URLs that have trust left and could be asked soon
    pages    fetched pages
    strays   those of hosts without trust left
    trust    of all hosts
    least    the lowest cost of a host that waits for its cost; infinite without such a host
    """

    better: int = 0
    pages: int = 0
    strays: int = 0
    trust: float = 0.0
    least: float = math.inf

    def plus(self, other: Standing) -> Standing:
        """Returns the standing of two shards together."""
        return Standing(
            self.better + other.better,
            self.pages + other.pages,
            self.strays + other.strays,
            self.trust + other.trust,
            min(self.least, other.least),
        )


class Fairness(NamedTuple):
    """The most that a page may cost; how many pages that cost more may be fetched soon, -1 for any number."""

    most_cost: float = math.inf
    strays: int = -1

    def after(self, standing: Standing, *, limited: bool) -> Fairness:
        """Returns what holds next; `limited`: the crawl has a page limit.

        The most cost grows with the crawl, and when no host with trust left has URLs.
        """
        if not standing.trust:
            return Fairness()
        usual = max(FIRST_COST, SLACK * standing.pages / standing.trust)
        excess = max(1.0, self.most_cost / usual) ** _DECLINE if math.isfinite(self.most_cost) else 1.0
        if not standing.better and math.isfinite(standing.least):
            excess = max(excess, _RAISE * max(1.0, standing.least / usual) ** _STEEPER)
        strays = max(0, int(STRAY_SHARE * standing.pages) - standing.strays) if limited else -1
        return Fairness(usual * excess, strays)
