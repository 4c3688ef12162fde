"""Limits the links of large documents in memory: further large documents wait while there are many.

Each link takes about 100 bytes until it is added to the frontier, and documents add their links one after another.
Pages of 200,000 links, or sitemaps of 50,000, from many hosts would fill the memory.
"""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

from webcrawl.documents.mime.facts import MAX_LINKS, Link
from webcrawl.documents.sandbox import give_back_memory

BYTES = 512 * 1024
"""Smaller documents have too few links to wait."""
_PACKED = 128
"""How many times its size a gzip file may unpack to. A large gzip file counts as a sitemap with the most links."""
MOST_LINKS = 250_000
"""The most links of large documents in memory. If there are none, any document may be read."""
_BYTES_A_LINK = 40
"""While an HTML page is being read, a link is expected for each of these many bytes, or for each element if more."""
_LINK = 2
"""A link of a sitemap or a feed, with its times, counts as this many links of a page."""
_LONG = 100
"""A link of a sitemap or a feed counts as one link more for each of these many characters of its URL."""
_MOST_SECONDS = 30.0
"""How long a document waits. If another document waited as long, the time starts again when that one is let in."""
_LOOK_SECONDS = 0.1

_MANY = 5_000
"""The C library reuses the memory of documents with fewer links for other documents."""
_GIVE_BACK_SECONDS = 1.0
"""The delay until memory is given back: by then, the body of the document is freed too."""

T = TypeVar("T")


class HeldLinks(list[Link]):
    """The links of a document, which count until the list is freed."""

    __slots__ = ("__weakref__",)


class LargeLinks:
    """Counts the links of the large documents of a worker. `number`: the links in memory, and those expected."""

    def __init__(self) -> None:
        self.number = 0
        self._late_at = float("-inf")
        self._freed = 0
        """The number of links of freed documents whose memory the C library still has."""

    def page(self, size: int, tags: int = 0) -> int:
        """Returns the number of links to expect of an HTML page of `size` bytes with about `tags` elements."""
        return max(size // _BYTES_A_LINK, tags)

    def document(self, size: int, mime_type: str) -> int:
        """Returns the number of links to expect of another document of `size` bytes; 0 if it need not wait."""
        if mime_type.endswith("gzip") and size > BYTES // _PACKED:
            return _LINK * MAX_LINKS
        if size > BYTES and (mime_type.startswith("text/") or mime_type.endswith(("xml", "json"))):
            return _LINK * min(size // _BYTES_A_LINK, MAX_LINKS) + size // _LONG
        return 0

    @asynccontextmanager
    async def room(self, expected: int) -> AsyncIterator[None]:
        """Waits for room for a document; counts its expected links while the block reads it."""
        began = time.monotonic()
        while self.number and self.number + expected > MOST_LINKS:
            if (now := time.monotonic()) - max(began, self._late_at) >= _MOST_SECONDS:
                self._late_at = now
                break
            await asyncio.sleep(_LOOK_SECONDS)
        self.number += expected
        try:
            yield
        finally:
            self.number -= expected

    def hold(self, holder: T, number: int) -> T:
        """Counts `number` links until `holder`, the object that has them, is freed; returns `holder`."""
        self.number += number
        weakref.finalize(holder, self._free, number).atexit = False
        return holder

    def hold_links(self, links: Iterable[Link]) -> HeldLinks:
        """Counts the links of another document; returns the list that counts until it is freed."""
        held = HeldLinks(links)
        return self.hold(held, sum(_LINK + len(link.url) // _LONG for link in held))

    def _free(self, number: int) -> None:
        """Stops counting links. Many links count until their memory has been given back to the system."""
        if number > _MANY:
            with suppress(RuntimeError):  # the crawl has ended, or another thread frees it
                loop = asyncio.get_running_loop()
                if not self._freed:
                    loop.call_later(_GIVE_BACK_SECONDS, self._give_back)
                self._freed += number
                return
        self.number -= number

    def _give_back(self) -> None:
        """Returns the memory of large documents from the C library to the system, in a thread: this may take 20 ms."""
        freed, self._freed = self._freed, 0
        given = asyncio.get_running_loop().run_in_executor(None, give_back_memory)
        given.add_done_callback(lambda _: self._subtract(freed))

    def _subtract(self, number: int) -> None:
        self.number -= number
