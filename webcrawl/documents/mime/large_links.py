"""The links of large documents in memory: further large documents wait while there are many.

Each link takes about a hundred bytes until it is added to the frontier, and documents add their links in turn. Many
hosts with a page of 200,000 links, or with a sitemap of 50,000, would fill the memory.
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
"""A gzip file may unpack to so many times its bytes; it counts as a sitemap with as many links as are allowed."""
MOST_LINKS = 250_000
"""A large document is read while fewer links of large documents are in memory, or none."""
_BYTES_A_LINK = 40
"""An HTML page that is being read counts as if it had a link in so many bytes, or two tags."""
_LINK = 2
"""A link of a sitemap or a feed, with its times, takes the memory of so many links,"""
_LONG = 100
"""and of one more for each so many characters."""
_MOST_SECONDS = 30.0
"""A document waits no longer, unless another document that waited as long was let in since."""
_LOOK_SECONDS = 0.1

_MANY = 5_000
"""The memory of documents with fewer links is used again for others."""
_GIVE_BACK_SECONDS = 1.0
"""The body of the document is freed by then, too."""

T = TypeVar("T")


class HeldLinks(list[Link]):
    """The links of a document, which count until the list is freed."""

    __slots__ = ("__weakref__",)


class LargeLinks:
    """The large documents of one worker. `number`: how many of their links are in memory, or expected."""

    def __init__(self) -> None:
        self.number = 0
        self._late_at = float("-inf")
        self._freed = 0
        """Links of freed documents whose memory the C library still has."""

    def page(self, size: int, tags: int = 0) -> int:
        """Returns how many links to expect of an HTML page of so many bytes and elements."""
        return max(size // _BYTES_A_LINK, tags)

    def document(self, size: int, mime_type: str) -> int:
        """Returns how many links to expect of another document of so many bytes; 0 if it need not wait."""
        if mime_type.endswith("gzip") and size > BYTES // _PACKED:
            return _LINK * MAX_LINKS
        if size > BYTES and (mime_type.startswith("text/") or mime_type.endswith(("xml", "json"))):
            return _LINK * min(size // _BYTES_A_LINK, MAX_LINKS) + size // _LONG
        return 0

    @asynccontextmanager
    async def room(self, expected: int) -> AsyncIterator[None]:
        """Waits for room for a document, and counts the links that it may have while it is read."""
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
        """Counts so many links until `holder`, which has them, is freed; returns `holder`."""
        self.number += number
        weakref.finalize(holder, self._free, number).atexit = False
        return holder

    def hold_links(self, links: Iterable[Link]) -> HeldLinks:
        """Counts the links of another document; returns the list that counts until it is freed."""
        held = HeldLinks(links)
        return self.hold(held, sum(_LINK + len(link.url) // _LONG for link in held))

    def _free(self, number: int) -> None:
        """Stops counting links. Many links count until their memory was given back to the system."""
        if number > _MANY:
            with suppress(RuntimeError):  # the crawl has ended, or another thread frees it
                loop = asyncio.get_running_loop()
                if not self._freed:
                    loop.call_later(_GIVE_BACK_SECONDS, self._give_back)
                self._freed += number
                return
        self.number -= number

    def _give_back(self) -> None:
        """Gives the memory of large documents back, in a thread: the C library keeps it, and it may take 20 ms."""
        freed, self._freed = self._freed, 0
        given = asyncio.get_running_loop().run_in_executor(None, give_back_memory)
        given.add_done_callback(lambda _: self._subtract(freed))

    def _subtract(self, number: int) -> None:
        self.number -= number
