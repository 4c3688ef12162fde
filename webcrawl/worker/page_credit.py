"""The importance of pages in one worker: which page links to which, and what the links get of the page's credit."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from webcrawl.errors import EngineFull
from webcrawl.frontier import Candidate, Frontier, LeasedURL, LeaseReport
from webcrawl.frontier.credit import Better, Purse, queue_again, share_of_link
from webcrawl.frontier.link_memory import LinkMemory
from webcrawl.policies.importance import importance, rise
from webcrawl.policies.priorities import Prospect
from webcrawl.urls.canonical import normalize, split

MOST_LINKS = 5_000
"""Links of a page that get credit. A list of a whole site says little about each page on it."""

_SOONEST_SECONDS = 0.25
_LATEST_SECONDS = 5.0
_EVERY = 0.5
"""The time between two payments, as a part of the time since the first page.

It is short at first, when few pages have all credit: credit should arrive before the page that it is for is fetched."""
_MOST_OWED = 50_000
"""Credit is paid at once when this many URLs are to get some."""
_IDLE_SECONDS = 120.0
"""A purse that was idle for this time belongs to a dead worker; workers pay at least every _LATEST_SECONDS."""

Weigh = Callable[[Prospect], int]


@dataclass(slots=True)
class _Page:
    """A page that was handed out: its worth, and the URLs to which it links so far."""

    worth: int | None
    links: dict[str, None] = field(default_factory=dict)


class _Origin(NamedTuple):
    """The page with a link, and the depth of the link."""

    page: str
    depth: int


class PageCredit:
    """Collects the links of pages from the time that they are handed out until they are settled, and pays their credit.

    `weigh` returns the level of a URL by the chain of PRIORITIZERS; None if importance changes no level. `memory` keeps
    the links of settled pages for the end of the crawl.
    """

    def __init__(self, frontier: Frontier, weigh: Weigh | None, memory: LinkMemory | None = None) -> None:
        self._frontier = frontier
        self._weigh = weigh
        self._memory = memory
        self._purse = Purse(frontier.engine, frontier.keys)
        self._pages: dict[str, _Page] = {}
        self._origins: dict[str, _Origin] = {}
        """Where URLs were linked since the last payment but one."""
        self._new_origins: dict[str, _Origin] = {}
        self._begun = False
        """A page was handed out. Before, Lambda's credit moves at once to where the seeds are."""
        self._began_at = time.monotonic()
        self._pay_at = 0.0
        self._collect_at = time.monotonic() + _IDLE_SECONDS
        frontier.purse = self._purse.name

    def begin(self, url: LeasedURL) -> None:
        """Begins to collect the links of a page that is handed out."""
        self._pages[url.url] = _Page(url.worth)
        if not self._begun:
            self._begun, self._began_at = True, time.monotonic()

    def end(self, url: str, *, keep: bool) -> tuple[str, ...]:
        """Returns the distinct URLs to which a page links, now that all work on it is done.

        `keep`: the page was fetched, so its links are kept in `memory`.
        """
        page = self._pages.pop(url, None)
        links = tuple(page.links) if page else ()
        if keep and self._memory is not None:
            self._memory.remember(url, links)
        return links

    def link(self, url: str, targets: Iterable[str], depth: int, refused: Collection[str] = ()) -> None:
        """Adds links of a page, except `refused` links; `depth` is the depth of the links."""
        page = self._pages.get(url)
        if page is None or len(page.links) >= MOST_LINKS:
            return
        links = dict.fromkeys(targets)
        for link in refused:
            links.pop(link, None)
        page.links |= links
        if self._weigh:
            self._new_origins |= dict.fromkeys(links, _Origin(url, depth))

    def of_link(self, url: str, links: int) -> int | None:
        """Returns the worth of each of `links` links of a page; None if it is not known or changes no level."""
        page = self._pages.get(url)
        if page is None or page.worth is None or self._weigh is None:
            return None
        return share_of_link(page.worth + self._purse.worth_of_lambda, links)

    def rise(self, worth: int | None) -> int | None:
        """Returns by how many levels a worth raises a link; None if importance changes no level."""
        return None if self._weigh is None else 0 if worth is None else rise(worth)

    def of(self, url: str) -> float | None:
        """Returns the importance that a page in work had when it was handed out; None if that is not known."""
        page = self._pages.get(url)
        return None if page is None or page.worth is None else importance(page.worth)

    def divide(self, report: LeaseReport, given: Sequence[int]) -> None:
        """Divides the credit that the purse got for the pages of a report among the links of these pages."""
        for settled, credit in zip(report.settled, given, strict=bool(given)):
            if credit:
                self._purse.owe(report.lease.host, credit, settled.links)

    async def pay_if_due(self, shards: Sequence[int]) -> None:
        """Pays the links from time to time, and collects the purses that dead workers left in the shards."""
        now = time.monotonic()
        if self._begun and now < self._pay_at and self._purse.owed < _MOST_OWED:
            return
        await self.pay(shards)
        if not self._begun:
            return
        self._pay_at = now + min(max(_SOONEST_SECONDS, _EVERY * (now - self._began_at)), _LATEST_SECONDS)
        if now >= self._collect_at:
            await self._purse.collect(shards, _IDLE_SECONDS)
            self._collect_at = now + _IDLE_SECONDS

    async def pay(self, shards: Sequence[int]) -> None:
        """Pays the links their credit. URLs whose level improves are queued again."""
        better = await self._purse.settle(shards)
        self._frontier.purse = self._purse.name
        known = self._origins | self._new_origins if better else {}
        candidates = [self._candidate(link, known[link.url]) for link in better if link.url in known]
        if candidates:
            with suppress(EngineFull):  # more credit will try it again
                await queue_again(self._frontier.engine, self._frontier.keys, candidates)
        # a page may be settled only after the payment that follows its links
        self._origins, self._new_origins = self._new_origins, {}

    def flush(self) -> None:
        """Writes the links that are kept, so that they survive the process."""
        if self._memory is not None:
            self._memory.flush()

    def close(self) -> None:
        """Closes the file of links."""
        if self._memory is not None:
            self._memory.close()

    def forget(self) -> None:
        """Forgets the credit that is not paid yet, because the engine may have lost its last writes."""
        self._purse.forget()
        self._frontier.purse = self._purse.name

    def _candidate(self, better: Better, origin: _Origin) -> Candidate:
        assert self._weigh is not None
        host, path = split(better.url)
        prospect = Prospect(
            better.url, path, origin.depth, normalize(origin.page), time.time(), worth=better.worth
        )
        level, change = self._weigh(prospect), rise(better.worth)
        return Candidate(host, path, None, level, origin.depth, origin.page, rise=change)
