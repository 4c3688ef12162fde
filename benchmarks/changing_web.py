"""Generated pages that change, for the benchmark of recrawls: no network, and the same pages for the same seed.

Pages change as often as those of Cho and Garcia-Molina, "The Evolution of the Web and Implications for an Incremental
Crawler" (VLDB 2000): 23 % daily, 30 % less than once in four months, and those of com far more often than those of edu
and gov. Some change at random, some at regular times, some in bursts. Their weights follow Zipf's law and have nothing
to do with their changes.

Half of the hosts announce changes, as sitemaps do by `lastmod`: half of these nearly all changes, the others at times
that have nothing to do with changes, so often that half of all announcements are false.

The pages of a share of the hosts change in working hours, in all time zones, as often in a week as others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Reals = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

INTERVALS = ((0.25, 1), (1, 7), (7, 30), (30, 120), (120, 1000))
"""Classes of pages by the mean days between two changes."""
DOMAINS = {
    "com": (132, (0.40, 0.15, 0.17, 0.14, 0.14)),
    "netorg": (30, (0.08, 0.20, 0.20, 0.22, 0.30)),
    "edu": (78, (0.06, 0.13, 0.14, 0.15, 0.52)),
    "gov": (30, (0.04, 0.10, 0.13, 0.20, 0.53)),
}
"""Domain -> how many hosts were observed, and the share of their pages in each class."""
HOST_PAGES, HOST_PATTERNS = 100, 5
KINDRED = 0.5
"""The share of pages whose class is that of their URL pattern; the others' depends on the domain alone."""
KINDS = {"random": 0.6, "regular": 0.2, "bursts": 0.2}
BURST = 5
"""The mean number of changes in a burst; within a burst, a page changes ten times as often as on average."""
RECALL = 0.95
WORK = tuple(1.0 if hour < 5 * 24 and 8 <= hour % 24 < 18 else 0.05 for hour in range(168))
"""How often pages change in the hours of a week, beside each other."""


class ChangingWeb(NamedTuple):
    """Pages by number: weights with a mean of 1, changes a day, host, pattern, and days of changes and announcements.

    `announces`: whether the host of a page announces changes.
    """

    weights: Reals
    rates: Reals
    hosts: Integers
    patterns: Integers
    changes: list[Reals]
    announces: npt.NDArray[np.bool_]
    announcements: list[Reals]

    def freshness(self, pages: Integers, visits: Reals, edges: Reals) -> Reals:
        """Returns the mean freshness by weight between each two edges, for these pages visited at these times."""
        order = np.lexsort((visits, pages))
        pages, visits = pages[order], visits[order]
        following = np.append(visits[1:], np.inf)
        following[np.append(pages[1:] != pages[:-1], True)] = np.inf
        apart = 2 * edges[-1] + 1000  # so that the changes of all pages are in one sorted array
        times = np.concatenate([*(days + apart * page for page, days in enumerate(self.changes)), [np.inf]])
        changes = times[np.searchsorted(times, visits + apart * pages, side="right")] - apart * pages
        weights = self.weights[pages]
        until = _covered(np.minimum(following, changes), weights, edges)
        fresh = np.diff(_covered(visits, weights, edges) - until) / np.diff(edges)
        return np.asarray(fresh / self.weights.sum())


def changing_web(
    pages: int, first: float, last: float, zipf: float, seed: int, at_work: float = 0.0
) -> ChangingWeb:
    """Returns so many pages with their changes between two days; `at_work`: the share of hosts with working hours."""
    random = np.random.default_rng(seed)
    hosts = np.arange(pages) // HOST_PAGES
    patterns = hosts * HOST_PATTERNS + random.integers(HOST_PATTERNS, size=pages)
    seen = np.array([number for number, _ in DOMAINS.values()], float)
    domains = random.choice(len(DOMAINS), hosts[-1] + 1, p=seen / seen.sum())
    bounds = np.cumsum([shares for _, shares in DOMAINS.values()], axis=1)[:, :-1]

    def classes(of_hosts: Integers) -> Integers:
        above: Integers = (random.random(len(of_hosts))[:, None] > bounds[domains[of_hosts]]).sum(1)
        return above

    own, kindred = classes(hosts), classes(np.arange((hosts[-1] + 1) * HOST_PATTERNS) // HOST_PATTERNS)
    chosen = np.where(random.random(pages) < KINDRED, kindred[patterns], own)
    low, high = np.log(INTERVALS).T
    rates = np.exp(-random.uniform(low[chosen], high[chosen]))
    weights = (1.0 + random.permutation(pages)) ** -zipf
    kinds = random.choice(list(KINDS), pages, p=list(KINDS.values()))
    changes = [_changes(random, kind, rate, first, last) for kind, rate in zip(kinds, rates, strict=True)]
    works, zones = np.random.default_rng(seed).random((2, hosts[-1] + 1))
    for page in np.flatnonzero(works[hosts] < at_work):
        changes[page] = _in_working_hours(changes[page], zones[hosts[page]])
    announces, honest = random.random((2, hosts[-1] + 1)) < 0.5
    often = RECALL * rates.mean()
    announcements = [np.empty(0)] * pages
    for page in np.flatnonzero(announces[hosts]):
        if honest[hosts[page]]:
            announcements[page] = changes[page][random.random(len(changes[page])) < RECALL]
        else:
            announcements[page] = _changes(random, "random", often, first, last)
    return ChangingWeb(
        weights / weights.mean(), rates, hosts, patterns, changes, announces[hosts], announcements
    )


def _changes(random: np.random.Generator, kind: str, rate: float, first: float, last: float) -> Reals:
    """Returns the days between two days on which a page changes."""
    if kind == "regular":
        return np.arange(first + random.uniform(0, 1 / rate), last, 1 / rate)
    if kind == "random":
        return np.sort(random.uniform(first, last, random.poisson(rate * (last - first))))
    lead = BURST / rate  # bursts that have begun before
    bursts = random.poisson(rate / BURST * (last - first + lead))
    sizes = random.geometric(1 / BURST, bursts)
    gaps = random.exponential(0.1 / rate, sizes.sum())
    ends = np.cumsum(sizes)
    within = np.cumsum(gaps)
    within -= np.repeat(within[ends - sizes], sizes)
    days = np.sort(np.repeat(random.uniform(first - lead, last, bursts), sizes) + within)
    return days[(days > first) & (days < last)]


def _in_working_hours(days: Reals, zone: float) -> Reals:
    """Returns the days of changes so that they follow the hours of the week, each in its own week.

    `zone`: the part of a day by which the clocks of a host are ahead.
    """
    passed = np.append(0, np.cumsum(WORK)) * 7 / sum(WORK)
    weeks = np.floor(days / 7)
    return np.asarray(7 * weeks + np.interp(days - 7 * weeks, passed, np.arange(len(passed)) / 24) - zone)


def _covered(starts: Reals, weights: Reals, edges: Reals) -> Reals:
    """Returns at each edge the sum of weights, each times the days since its start."""
    order = np.argsort(starts)
    starts, weights = starts[order], weights[order]
    weights = np.where(np.isfinite(starts), weights, 0)
    number = np.searchsorted(starts, edges)
    days = np.where(np.isfinite(starts), starts, 0)
    sums = np.append(0, np.cumsum(weights)), np.append(0, np.cumsum(weights * days))
    return np.asarray(edges * sums[0][number] - sums[1][number])
