"""The importance of pages: credit that flows along links while the crawl goes on.

After AOPIC, the adaptive on-line page importance computation of Abiteboul, Preda and Cobena ("Adaptive On-Line Page
Importance Computation", WWW 2003). The credit of a crawl is constant. A page that was fetched keeps nothing: a tenth of
its credit goes to the virtual page Lambda, and the rest in equal parts to the distinct links that the crawl follows,
to known URLs too. Of two URLs, the URL with more credit is more important.

Three rules fit it to a crawl that fetches most pages once and keeps no graph of links:

- Lambda belongs in equal parts to the URLs that wait, so nothing is stored for it. A URL takes its part when it is
  fetched. All credit begins in Lambda, so the seeds share it equally.
- Credit that reaches a page after it was fetched is counted for the page, and goes on to Lambda, because the page's
  links are not known any more.
- The importance of a page is not the sum of the credit that reached it, but of its `worth`, credit divided by the mean
  credit of a waiting URL at that time. Otherwise pages found early, when few URLs share all credit, would count too
  much. Lambda's part, which is the same for all, is left out. docs/reference/importance.md compares the alternatives.

Credit is a whole number, so that nothing is lost when it is divided; remainders go to Lambda. The scripts in
webcrawl/engine/lua compute the same numbers.
"""

from __future__ import annotations

import math
from typing import NamedTuple

TOTAL = 2**46
"""The credit of a crawl. Sums and products of credit stay exact in the doubles of Lua, and a hundredth of the mean
credit of a billion URLs is still a hundred units."""

LAMBDA_PART = 10
"""The credit of a fetched page is divided by this for Lambda; a damping factor of 0.9 in terms of PageRank."""

UNIT = 4096
"""The worth of a URL with mean credit."""

BEST, WORST = 3, -2
"""The most levels by which importance makes a URL better, and worse."""

_STEP = 8
"""Each level of importance stands for this factor of credit."""

_MOST_WORTH = 2**47


class Given(NamedTuple):
    """The credit that a fetched page gives to each of its links, to all of them, and to Lambda."""

    each: int
    links: int
    rest: int


def give(credit: int, links: int) -> Given:
    """Divides the credit of a fetched page with this number of links; nothing is lost.

    A hundred units over ten links are nine for each, and ten for Lambda.
    """
    each = (credit - credit // LAMBDA_PART) // links if links else 0
    return Given(each, each * links, credit - each * links)


def first_pool(shard: int, shards: int) -> int:
    """Returns Lambda's credit in one of the shards of a crawl before anything is fetched."""
    return TOTAL // shards + (shard < TOTAL % shards)


def part_of_lambda(pool: int, waiting: int) -> int:
    """Returns the part of Lambda's credit that one of `waiting` URLs takes when it is fetched."""
    return pool // waiting


def worth(credit: int, waiting: int) -> int:
    """Returns the worth of credit: UNIT for the mean credit of the `waiting` URLs of the crawl.

    Computed in floating point and rounded down, as in the scripts, so that both give the same number.
    """
    return min(math.floor(float(credit) * waiting / (TOTAL / UNIT)), _MOST_WORTH)


def rise(worth: int) -> int:
    """Returns the levels, from WORST to BEST, by which a worth makes a URL better; 0 from 1 to 8 times the mean."""
    steps, least = WORST, UNIT * _STEP ** (WORST + 1)
    while steps < BEST and worth >= least:
        steps, least = steps + 1, least * _STEP
    return steps


def importance(worth: int) -> float:
    """Returns a worth as a multiple of the mean, as in the column `importance`."""
    return worth / UNIT
