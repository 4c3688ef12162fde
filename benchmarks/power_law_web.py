"""A web of any size that is computed and not stored: sizes, popularity and links of hosts and pages by power laws.

Hosts are numbered by popularity. A link leads to another host h with a probability of log((h + 2) / (h + 1)), and there
to a page by the same law, so the first page of a host is its most popular one. Every other link leads to the same host.
The importance of a page is the share of all links of the web that lead to it on average, which no graph is needed for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

SIZE_EXPONENT = 1.2
"""Of the sizes of hosts, a Pareto distribution."""
DEGREE, DEGREE_EXPONENT, MOST_LINKS = 6, 1.4, 300
NOISE = 1.5
"""Of the logarithm of a host's rank: large hosts are popular, but not in the same order."""
HOST, PATH = "https://www.site-{:08}.example", "/articles/{:010}/the-title-of-a-page"
Numbers = npt.NDArray[np.int64]
Bits = npt.NDArray[np.uint64]
Reals = npt.NDArray[np.float64]


def mixed(seed: int, *columns: npt.NDArray[Any]) -> Bits:
    """64 bits that look random for each row of numbers, always the same (splitmix64)."""
    state = np.full(len(columns[0]), seed, np.uint64)
    for column in columns:
        state = (state ^ column.astype(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ state >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ state >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        state ^= state >> np.uint64(31)
    return state


def share(bits: Bits) -> Reals:
    """Numbers above 0 and below 1."""
    return ((bits >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53


def ranked(shares: Reals, size: Numbers | int) -> Numbers:
    """Ranks from 0, log-uniform below each size."""
    return (np.power(np.asarray(size, np.float64) + 1, shares)).astype(np.int64) - 1


def chance(rank: Numbers, size: Numbers | int) -> Reals:
    """The probability of a rank."""
    return np.asarray(np.log1p(1 / (rank + 1.0)) / np.log1p(np.asarray(size, np.float64)))


class PowerLawWeb:
    """Some hosts with about `urls` pages in all; `sizes` has the pages of each host."""

    def __init__(self, hosts: int, urls: int, seed: int = 1) -> None:
        self.hosts, self._seed = hosts, seed
        sizes = np.sort(self._sizes(urls))[::-1]
        dice = np.random.default_rng(seed)
        by_rank = np.argsort(np.log1p(np.arange(hosts)) + NOISE * dice.standard_normal(hosts))
        self.sizes: Numbers = np.empty(hosts, np.int64)
        self.sizes[by_rank] = sizes
        self.urls = int(self.sizes.sum())

    def _sizes(self, urls: int) -> Numbers:
        """Pareto numbers of at least 1 whose sum is about `urls`.

        No host has more than a five-hundredth of them, or twenty times the mean if that is more.
        """
        pareto = share(mixed(self._seed, np.arange(self.hosts))) ** (-1 / SIZE_EXPONENT)
        low, high, most = 0.0, float(urls), max(20 * urls // self.hosts, urls // 500)
        for _ in range(60):
            scale = (low + high) / 2
            sizes = np.clip(pareto * scale, 1, most).astype(np.int64)
            low, high = (scale, high) if sizes.sum() < urls else (low, scale)
        return sizes

    def importance(self, hosts: Numbers, pages: Numbers) -> Reals:
        """The share of the links of the web that lead to each of these pages."""
        size = self.sizes[hosts]
        return chance(pages, size) * (chance(hosts, self.hosts) + size / self.urls) / 2

    def all_importance(self) -> Reals:
        """The importance of all pages, sorted, the most important first."""
        hosts = np.repeat(np.arange(self.hosts), self.sizes)
        firsts = np.repeat(np.cumsum(self.sizes) - self.sizes, self.sizes)
        return np.sort(self.importance(hosts, np.arange(self.urls) - firsts))[::-1]

    def best_polite(self, fetches: int, window: int) -> Reals:
        """The importance of pages in the best order of a crawl that gets a page of `window` hosts at a time."""
        following = np.zeros(self.hosts, np.int64)
        hosts, caught = np.arange(self.hosts), []
        while fetches > sum(map(len, caught)):
            left = following < self.sizes
            if not left.any():
                break
            value = np.where(left, self.importance(hosts, np.minimum(following, self.sizes - 1)), -1.0)
            best = np.argsort(-value)[: min(window, int(left.sum()))]
            caught.append(value[best])
            following[best] += 1
        return np.concatenate(caught)[:fetches]

    def links(self, hosts: Numbers, pages: Numbers) -> list[list[str]]:
        """The links of each page, as URLs."""
        to_host, to_page, degrees = self.targets(hosts, pages)
        urls = [url_of(*pair) for pair in zip(to_host.tolist(), to_page.tolist(), strict=True)]
        ends = np.cumsum(degrees).tolist()
        return [urls[end - degree : end] for end, degree in zip(ends, degrees.tolist(), strict=True)]

    def targets(self, hosts: Numbers, pages: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """The host and the page of each link of these pages, one page after the other, and the links of each page."""
        bits = mixed(self._seed, hosts, pages)
        degrees = np.minimum(MOST_LINKS, DEGREE * share(bits) ** (-1 / DEGREE_EXPONENT)).astype(np.int64)
        ends = np.cumsum(degrees)
        number = np.arange(ends[-1]) - np.repeat(ends - degrees, degrees)
        of_link = mixed(self._seed, np.repeat(bits, degrees), number)
        strangers = ranked(share(of_link), self.hosts)
        to_host = np.where(number % 2, np.repeat(hosts, degrees), strangers)
        to_page = ranked(share(mixed(self._seed + 1, of_link)), self.sizes[to_host])
        return to_host, to_page, degrees


def url_of(host: int, page: int) -> str:
    return HOST.format(host) + PATH.format(page)


def numbers_of(host: str, path: str) -> tuple[int, int]:
    """The numbers of the host and of the page of a URL."""
    return int(host[17:25]), int(path[10:20])
