"""A generated web as a graph of numbers, its PageRank, and rank correlation. Used by benchmarks/importance.py.

Sizes of hosts, their popularity and the numbers of links follow power laws; four links in five stay on their host, and
within a host links prefer its first pages. Every page can be reached from page 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]

_PAGES_PER_HOST = 50
_MOST_LINKS = 300
_WITHOUT_LINKS = 0.05
_ON_HOST = 0.8


@dataclass(frozen=True, slots=True)
class LinkedWeb:
    """The links of page p are `targets[first[p]:first[p + 1]]`, each once and none to itself."""

    first: Numbers
    targets: Numbers
    host: Numbers
    """The number of each page's host."""

    @property
    def pages(self) -> int:
        return len(self.host)

    def links(self, page: int) -> list[int]:
        targets: list[int] = self.targets[self.first[page] : self.first[page + 1]].tolist()
        return targets


def linked_web(pages: int, seed: int = 1) -> LinkedWeb:
    """Returns a web of so many pages; the same seed gives the same web."""
    dice = np.random.default_rng(seed)
    sizes = _host_sizes(dice, pages)
    hosts = len(sizes)
    host, home = np.repeat(np.arange(hosts), sizes), np.cumsum(sizes) - sizes
    sources, targets = _links(dice, sizes, host, home)
    # a tree from page 0 to every page: from an earlier page of its host, to a host from an earlier page of another
    position = np.arange(pages) - home[host]
    parents = home[host] + (position * dice.random(pages)).astype(np.int64)
    parents[home] = (home * dice.random(hosts)).astype(np.int64)
    sources = np.concatenate([sources, parents[1:]])
    targets = np.concatenate([targets, np.arange(1, pages)])
    keys = np.unique((sources * pages + targets)[sources != targets])
    sources, targets = keys // pages, keys % pages
    return LinkedWeb(np.searchsorted(sources, np.arange(pages + 1)), targets, host)


def _host_sizes(dice: np.random.Generator, pages: int) -> Numbers:
    drawn = np.minimum(dice.zipf(1.8, max(10, pages // _PAGES_PER_HOST)).astype(float), pages / 20)
    sizes = np.maximum(1, (drawn / drawn.sum() * pages).astype(np.int64))
    largest = int(np.argmax(sizes))
    sizes[largest] += pages - int(sizes.sum())
    return sizes


def _links(
    dice: np.random.Generator, sizes: Numbers, host: Numbers, home: Numbers
) -> tuple[Numbers, Numbers]:
    """Returns sources and targets of links, some of them more than once."""
    pages, hosts = len(host), len(sizes)
    popularity = (dice.pareto(1.1, hosts) + 1) * np.sqrt(sizes)
    cumulated = np.cumsum(popularity / popularity.sum())
    number = np.clip(dice.lognormal(2.5, 0.9, pages).astype(np.int64), 1, _MOST_LINKS)
    number[dice.random(pages) < _WITHOUT_LINKS] = 0
    sources = np.repeat(np.arange(pages), number)
    inner = dice.random(len(sources)) < _ON_HOST
    drawn = np.minimum(np.searchsorted(cumulated, dice.random(len(sources))), hosts - 1)
    to = np.where(inner, host[sources], drawn)
    position = (sizes[to] * dice.random(len(sources)) ** np.where(inner, 2.0, 4.0)).astype(np.int64)
    return sources, home[to] + np.minimum(position, sizes[to] - 1)


def pagerank(web: LinkedWeb, damping: float = 0.9, rounds: int = 100) -> Reals:
    """Returns the PageRank of each page, by power iteration; pages without links give to all."""
    number = np.diff(web.first)
    sources = np.repeat(np.arange(web.pages), number)
    rank = np.full(web.pages, 1 / web.pages)
    for _ in range(rounds):
        given = np.where(number > 0, rank / np.maximum(number, 1), 0.0)
        rank = damping * np.bincount(web.targets, weights=given[sources], minlength=web.pages)
        rank += (1 - rank.sum()) / web.pages
    return rank


def spearman(values: Reals, others: Reals) -> float:
    """Returns the correlation of ranks; equal values have the mean of their ranks."""
    return float(np.corrcoef(_ranks(values), _ranks(others))[0, 1])


def _ranks(values: Reals) -> Reals:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[inverse]
