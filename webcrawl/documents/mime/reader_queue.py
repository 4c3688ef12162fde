"""The queue for the reader processes: the site that has used them least comes first."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from cachetools import FIFOCache

from webcrawl.errors import InvalidURL
from webcrawl.urls.canonical import hostname, normalize, registered_domain, split

_SITES_REMEMBERED = 10_000


class ReaderQueue:
    """Admits `number` documents at a time to reading.

    The next document belongs to the site whose documents were read for the fewest seconds. The documents of a site are
    read in the order of arrival. A site is a registered domain.
    """

    def __init__(self, number: int) -> None:
        self.most_of_a_site = 2 * number
        """The most documents of a site that are read or wait."""
        self._free = number
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._held: Counter[str] = Counter()
        self._seconds: FIFOCache[str, float] = FIFOCache(_SITES_REMEMBERED)
        self._left = asyncio.Event()

    def has_room(self, url: str) -> bool:
        """Returns whether the site of `url` may add another document; always true while nothing is read."""
        return not self._held or self._held[site_of(url)] < self.most_of_a_site

    async def left(self) -> None:
        """Waits until a document has been read."""
        await self._left.wait()

    @asynccontextmanager
    async def turn(self, url: str) -> AsyncIterator[None]:
        """Waits until the document at `url` may be read; the block reads it."""
        site = site_of(url)
        with self.hold(url):
            await self._take(site)
            began = time.monotonic()
            try:
                yield
            finally:
                self._charge(site, time.monotonic() - began)
                self._free += 1
                self._grant()

    @contextmanager
    def hold(self, url: str) -> Iterator[None]:
        """Counts a document against the room of its site."""
        site = site_of(url)
        self._held[site] += 1
        try:
            yield
        finally:
            self._held[site] -= 1
            if not self._held[site]:
                del self._held[site]
            self._left.set()
            self._left = asyncio.Event()

    async def _take(self, site: str) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue = self._waiting.setdefault(site, deque())
        queue.append(turn)
        self._grant()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._free += 1
            else:
                queue.remove(turn)
            self._grant()
            raise

    def _grant(self) -> None:
        """Admits waiting documents while processes are free."""
        while self._free and (sites := [site for site, queue in self._waiting.items() if queue]):
            site = min(sites, key=lambda site: self._seconds.get(site, 0.0))
            queue = self._waiting[site]
            queue.popleft().set_result(None)
            if not queue:
                del self._waiting[site]
            self._free -= 1

    def _charge(self, site: str, seconds: float) -> None:
        self._seconds[site] = self._seconds.get(site, 0.0) + seconds


def site_of(url: str) -> str:
    """Returns the registered domain of a URL's host; the URL itself if it is not valid."""
    try:
        return registered_domain(hostname(split(normalize(url))[0]))
    except InvalidURL:
        return url
