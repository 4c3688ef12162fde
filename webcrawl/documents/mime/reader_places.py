"""The places of the reader processes, which go to the site that has used them least."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from webcrawl.errors import InvalidURL
from webcrawl.urls.canonical import hostname, normalize, registered_domain, split

_SITES_REMEMBERED = 10_000


class ReaderPlaces:
    """Places for `number` documents at a time.

    A free place goes to the site that has had them for the fewest seconds, and among its documents to the first. A site
    is a registered domain.
    """

    def __init__(self, number: int) -> None:
        self.most_of_a_site = 2 * number
        """A site with so many documents, read or waiting, has no room for another."""
        self._free = number
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._held: Counter[str] = Counter()
        self._seconds: OrderedDict[str, float] = OrderedDict()
        self._left = asyncio.Event()

    def has_room(self, url: str) -> bool:
        """Returns whether a further document of this URL's site may come; always true while nothing is read."""
        return not self._held or self._held[site_of(url)] < self.most_of_a_site

    async def left(self) -> None:
        """Waits until a document has been read."""
        await self._left.wait()

    @asynccontextmanager
    async def place(self, url: str) -> AsyncIterator[None]:
        """Waits for a place for the document at `url`, and keeps it for as long as the block runs."""
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
        """Gives the free places to those that wait."""
        while self._free and (sites := [site for site, queue in self._waiting.items() if queue]):
            site = min(sites, key=lambda one: self._seconds.get(one, 0.0))
            queue = self._waiting[site]
            queue.popleft().set_result(None)
            if not queue:
                del self._waiting[site]
            self._free -= 1

    def _charge(self, site: str, seconds: float) -> None:
        self._seconds[site] = self._seconds.get(site, 0.0) + seconds
        self._seconds.move_to_end(site)
        if len(self._seconds) > _SITES_REMEMBERED:
            self._seconds.popitem(last=False)


def site_of(url: str) -> str:
    """Returns the registered domain of a URL's host; the URL itself if it is not valid."""
    try:
        return registered_domain(hostname(split(normalize(url))[0]))
    except InvalidURL:
        return url
