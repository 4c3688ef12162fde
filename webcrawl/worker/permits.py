"""The part of the crawl's page limit that one worker has reserved."""

from __future__ import annotations

import math
import time

from webcrawl.frontier import Crawl


class Permits:
    """One permit for each page. A `limit` of 0 means no limit.

    Each URL takes a permit when it is handed out, and returns it if it turns out to be no page. The engine counts all
    reserved permits of the crawl, so the limit holds exactly for any number of workers. Permits of a worker without
    heartbeats go to others; if it is alive after all, only its fetches in flight exceed the limit.
    """

    def __init__(self, crawl: Crawl, limit: int) -> None:
        self._crawl = crawl
        self._limit = limit
        self._free = 0
        self._used = 0
        self.valid_until = math.inf
        """Monotonic time at which the engine may have given the free permits to others."""
        self.short = False
        """A permit was wanted and none was free: call `reserve`."""

    def take(self) -> bool:
        """Takes a permit; returns False if none is free."""
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
        """Uses the permit of a URL that was a page, or frees it."""
        if page:
            self._used += 1
        else:
            self._free += 1

    def give_back(self) -> None:
        """Returns the free permits to the crawl."""
        self._used += self._free
        self._free = 0

    def take_used(self) -> int:
        """Returns how many permits were used or given back since the last call."""
        used, self._used = self._used, 0
        return used if self._limit else 0

    async def reserve(self, wanted: int) -> bool:
        """Reserves up to `wanted` permits if none is free; returns whether any is free now."""
        if self._free <= 0:
            granted = await self._crawl.workers.reserve_pages(max(1, wanted), self._limit)
            self._free += granted  # after the await, because a URL may have been settled meanwhile
        if self._free > 0:
            self.short = False
        return not self.short

    async def exhausted(self) -> bool:
        """Whether the crawl has as many pages as the limit allows."""
        return (await self._crawl.totals()).get("pages", 0) >= self._limit
