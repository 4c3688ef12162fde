"""The part of a crawl's page limit that one worker has reserved."""

from __future__ import annotations

import math
import time

from webcrawl.frontier import Crawl


class Permits:
    """One permit a page. `limit` 0 means that there is none.

    A URL takes a permit when it is handed out; when it turns out to be no page, its permit serves another. Reserved
    permits are counted for the whole crawl, so the limit holds exactly, however many workers there are. Those of a
    worker that is not heard of are given to others: should it live after all, only what it had in the air comes on top.
    """

    def __init__(self, crawl: Crawl, limit: int) -> None:
        self._crawl = crawl
        self._limit = limit
        self._free = 0
        self._used = 0
        self.valid_until = math.inf
        """Monotonic time at which the server may have given the free ones to others."""
        self.short = False
        """One was wanted and there was none: `reserve` should be called."""

    def take(self) -> bool:
        """Take one, or say that there is none just now."""
        if not self._limit:
            return True
        if time.monotonic() > self.valid_until:
            self.give_back()
        if self._free > 0:
            self._free -= 1
            return True
        self.short = True
        return False

    def settle(self, *, page: bool) -> None:
        """What had a permit has been fetched: it was a page, or not."""
        if page:
            self._used += 1
        else:
            self._free += 1

    def give_back(self) -> None:
        """Nothing needs the free ones just now: others may."""
        self._used += self._free
        self._free = 0

    def take_used(self) -> int:
        """Permits used or given back since last asked: to be taken off the reservation, with the pages counted."""
        used, self._used = self._used, 0
        return used if self._limit else 0

    async def reserve(self, wanted: int) -> bool:
        """Reserve some more when short; True when there are any."""
        if self._free <= 0:
            granted = await self._crawl.workers.reserve_pages(max(1, wanted), self._limit)
            self._free += granted  # not before: one may have been settled while this was asked
        if self._free > 0:
            self.short = False
        return not self.short

    async def exhausted(self) -> bool:
        """Whether all pages of the limit are there."""
        return (await self._crawl.totals()).get("pages", 0) >= self._limit
