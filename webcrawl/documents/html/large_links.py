"""The links of large pages in memory: further large pages wait while there are many.

Each link takes about a hundred bytes until it is added to the frontier, and pages take turns in that. So hosts with a
page of 200,000 links each would fill the memory if there are many.
"""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from webcrawl.documents.html.outline import Outline

MOST_LINKS = 250_000
"""A page is read while fewer links of large pages are in memory, or none."""
_BYTES_A_LINK = 40
"""A page that is being read counts as if it had a link in so many bytes."""
_MOST_SECONDS = 30.0
"""A page waits no longer, whatever keeps the links of others in memory."""
_LOOK_SECONDS = 0.1


class LargeLinks:
    """The large pages of one worker. `number`: how many links of theirs are in memory, or expected."""

    def __init__(self) -> None:
        self.number = 0

    @asynccontextmanager
    async def room(self, size: int) -> AsyncIterator[None]:
        """Waits for room for a page of so many bytes, and counts links that it may have while it is read."""
        expected = size // _BYTES_A_LINK
        deadline = time.monotonic() + _MOST_SECONDS
        while self.number and self.number + expected > MOST_LINKS and time.monotonic() < deadline:
            await asyncio.sleep(_LOOK_SECONDS)
        self.number += expected
        try:
            yield
        finally:
            self.number -= expected

    def hold(self, outline: Outline) -> Outline:
        """Counts the links of a page until its outline is freed; returns the outline."""
        number = len(outline.links.links)
        self.number += number
        weakref.finalize(outline, self._free, number).atexit = False
        return outline

    def _free(self, number: int) -> None:
        self.number -= number
