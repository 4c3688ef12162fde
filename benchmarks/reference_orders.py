"""Orders in which a computed web could be crawled, with a page of each of some hosts at a time, without an engine."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.power_law_web import Numbers, PowerLawWeb, Reals
from webcrawl.policies.importance import BEST, LAMBDA_PART, WORST


class KnownOrder:
    """An order that knows no more than a crawl: the links of the pages that were fetched.

    In each step, `window` hosts give the page with the greatest value: by links, the links to it so far (Cho,
    Garcia-Molina and Page, WWW 1998), and with `credit` its credit (webcrawl.policies.importance), which arrives at
    once. Of equal pages, the first that was linked comes first: hosts and pages are numbered by popularity, so an order
    by number would know more than a crawl.

    seeds  the first pages of so many hosts, the most popular ones, are known at first
    step   with `credit`: the factor between two levels, within which all pages are equal; 0 compares the credit itself
    kept   pages for which a host keeps its place in the window
    """

    def __init__(
        self,
        web: PowerLawWeb,
        window: int,
        seeds: int,
        *,
        credit: bool = False,
        step: float = 0,
        kept: int = 1,
    ) -> None:
        self._web, self._window, self._credited, self._step, self._kept = web, window, credit, step, kept
        self._firsts: Numbers = np.cumsum(web.sizes) - web.sizes
        self._links: Numbers = np.zeros(web.urls, np.int64)
        self._since: Numbers = np.full(web.urls, -1)
        self._credit: Reals = np.zeros(web.urls)
        self._lambda = 1.0
        self._fetched = np.zeros(web.urls, bool)
        self._left: Numbers = np.zeros(web.hosts, np.int64)
        """Pages for which hosts still keep their places."""
        dice = np.random.default_rng(1)
        self._note_links(self._firsts[dice.permutation(min(seeds, web.hosts))])

    def importance(self, fetches: int) -> Reals:
        """The importance of the first pages."""
        caught, done = list[Reals](), 0
        for hosts, pages in self._steps():
            caught.append(self._web.importance(hosts, pages))
            done += len(hosts)
            if done >= fetches:
                break
        return np.concatenate(caught)[:fetches]

    def _steps(self) -> Iterator[tuple[Numbers, Numbers]]:
        """Yields the hosts and pages of each step, until no page is known."""
        while len(known := np.flatnonzero((self._links > 0) & ~self._fetched)):
            urls = self._chosen(known)
            hosts = self._host_of(urls)
            pages = urls - self._firsts[hosts]
            left = np.where(self._left[hosts], self._left[hosts], self._kept) - 1
            self._left[:] = 0  # a host without a known page loses its place
            self._left[hosts] = left
            self._fetched[urls] = True
            to_hosts, to_pages, degrees = self._web.targets(hosts, pages)
            targets = self._firsts[to_hosts] + to_pages
            self._note_links(targets)
            self._give(urls, targets, np.repeat(np.arange(len(urls)), degrees), len(known))
            yield hosts, pages

    def _chosen(self, known: Numbers) -> Numbers:
        """The best page of each host that has a place."""
        best = known[np.lexsort((self._since[known], -self._values(known)))]
        hosts = self._host_of(best)
        first = np.sort(np.unique(hosts, return_index=True)[1])
        return best[first[np.argsort(self._left[hosts[first]] == 0, kind="stable")][: self._window]]

    def _values(self, known: Numbers) -> Reals:
        if not self._credited:
            return self._links[known].astype(np.float64)
        worth = self._credit[known] * len(known)
        if not self._step:
            return worth
        levels = np.floor(np.log(np.maximum(worth, 1e-30)) / np.log(self._step))
        return np.asarray(np.clip(levels, WORST, BEST))

    def _host_of(self, urls: Numbers) -> Numbers:
        return np.searchsorted(self._firsts, urls, side="right") - 1

    def _note_links(self, targets: Numbers) -> None:
        """Counts links to pages; numbers the pages that have their first link, in the order of the links."""
        np.add.at(self._links, targets, 1)
        pages, at = np.unique(targets, return_index=True)
        new = pages[np.argsort(at)]
        new = new[self._since[new] < 0]
        self._since[new] = self._since.max() + 1 + np.arange(len(new))

    def _give(self, urls: Numbers, targets: Numbers, sources: Numbers, waiting: int) -> None:
        """Moves the credit of fetched pages to their distinct links; `sources`: the number of the page of each link."""
        part = self._lambda / waiting
        credit = self._credit[urls] + part
        self._credit[urls] = 0
        source, target = np.unique(np.stack([sources, targets]), axis=1)
        links = np.maximum(1, np.bincount(source, minlength=len(urls)))
        gifts = (credit * (1 - 1 / LAMBDA_PART) / links)[source]
        arrives = ~self._fetched[target]
        np.add.at(self._credit, target[arrives], gifts[arrives])
        self._lambda += credit.sum() - gifts[arrives].sum() - part * len(urls)
