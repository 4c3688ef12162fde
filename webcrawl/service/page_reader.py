"""Reads stored pages for the API: requests that arrive together share a query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from webcrawl.errors import InvalidURL
from webcrawl.opened import OpenedCrawl
from webcrawl.service.problem import ApiProblem, ProblemKind
from webcrawl.service.tally import ServiceTally
from webcrawl.stores.group_commit import Batches
from webcrawl.urls.canonical import normalize

if TYPE_CHECKING:
    from webcrawl.stores.metadata import Metadata
    from webcrawl.stores.redirect_chains import ChainRow, EarlierFetch, RedirectChains

_MOST_URLS = 1_000
"""The most URLs of a query: requests behind it should not wait for long."""
_MOST_TOGETHER = 50
_MOST_WAITING, _MOST_OF_CALLER = 12_000, 8_000
"""The URLs that may wait; reading them takes under a second."""


class StoredPage(NamedTuple):
    """What is stored about a URL: its row, and those to which it redirects; its earlier fetches, if asked for."""

    chain: list[ChainRow]
    earlier: list[EarlierFetch] | None = None


class _Wanted(NamedTuple):
    urls: tuple[str, ...]
    history: bool


class PageReader:
    """Reads the metadata database in a thread of its own."""

    def __init__(self, opened: OpenedCrawl, tally: ServiceTally) -> None:
        self._opened = opened
        self._tally = tally
        tally.waiting["read"] = self.waiting
        self._metadata: Metadata | None = None
        self._chains: RedirectChains | None = None
        self._waiting = Counter[str]()
        """Caller -> the URLs of its requests."""
        self._batches: Batches[_Wanted, dict[str, StoredPage]] = Batches(self._read, most=_MOST_TOGETHER)

    async def pages(
        self, urls: Sequence[str], *, caller: str, history: bool = False
    ) -> dict[str, StoredPage]:
        """Returns stored pages by URL as given; others are left out.

        A URL has the page of its normalized form, or else that of its canonical form. Raises StoreError, and
        ApiProblem if so many URLs wait, of the caller or of all, that answers would come late.
        """
        if max(self._waiting.total() / _MOST_WAITING, self._waiting[caller] / _MOST_OF_CALLER) >= 1:
            raise ApiProblem(
                ProblemKind.TOO_MANY_REQUESTS, "too many URLs wait to be read", retry_after=1, reason="reads"
            )
        self._waiting[caller] += len(urls)
        try:
            with self._tally.timed("read"):
                return await self._pages(urls, history=history)
        finally:
            self._waiting[caller] -= len(urls)
            if not self._waiting[caller]:
                del self._waiting[caller]

    async def _pages(self, urls: Sequence[str], *, history: bool) -> dict[str, StoredPage]:
        forms = {url: self._forms(url) for url in urls}
        wanted = dict.fromkeys(form for of_url in forms.values() for form in of_url)
        pages = await self._batches.put(_Wanted(tuple(wanted), history))
        return {
            url: pages[form]
            for url, of_url in forms.items()
            if (form := next((form for form in of_url if form in pages), None)) is not None
        }

    def waiting(self) -> int:
        """Returns the number of URLs that wait to be read."""
        return self._waiting.total()

    async def close(self) -> None:
        """Ends the thread and the connection to the database."""
        await self._batches.close(self._disconnect)

    def _forms(self, url: str) -> tuple[str, ...]:
        try:
            normalized = normalize(url)
        except InvalidURL:
            return ()
        canonical = self._opened.canonicalizer.canonical(normalized)
        return (normalized,) if canonical == normalized else (normalized, canonical)

    def _read(self, wanted: list[_Wanted]) -> list[dict[str, StoredPage]]:
        chains = self._connect()
        if chains is None:
            return [{} for _ in wanted]
        urls = list(dict.fromkeys(url for each in wanted for url in each.urls))
        rows: dict[str, list[ChainRow]] = {}
        for begin in range(0, len(urls), _MOST_URLS):
            rows |= chains.read(urls[begin : begin + _MOST_URLS])
        return [_of_request(each, rows, chains) for each in wanted]

    def _connect(self) -> RedirectChains | None:
        """Returns None while nothing is stored: a crawl creates the database."""
        if self._chains is None and (metadata := self._opened.metadata_if_any()) is not None:
            from webcrawl.stores.redirect_chains import RedirectChains

            self._metadata, self._chains = metadata, RedirectChains(metadata.database)
        return self._chains

    def _disconnect(self) -> None:
        if self._metadata is not None:
            self._metadata.close()


def _of_request(
    wanted: _Wanted, rows: dict[str, list[ChainRow]], chains: RedirectChains
) -> dict[str, StoredPage]:
    pages = {url: StoredPage(_without_loop(rows[url])) for url in wanted.urls if url in rows}
    if not wanted.history:
        return pages
    repeated = [page.chain[-1].url for page in pages.values() if page.chain[-1].fetches > 1]
    earlier = chains.earlier(repeated) if repeated else {}
    return {url: page._replace(earlier=earlier.get(page.chain[-1].url, [])) for url, page in pages.items()}


def _without_loop(chain: list[ChainRow]) -> list[ChainRow]:
    """Returns a chain up to the first URL that comes again."""
    return chain if len(chain) == 1 else list({row.url: row for row in chain}.values())
