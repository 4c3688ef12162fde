"""The part of the crawl's page limit that one worker has reserved."""

from __future__ import annotations

import math
import time

from webcrawl.frontier import Crawl

AHEAD_SECONDS = 0.5
"""A worker reserves the pages that it will hand out in this time; a reservation takes a few hundredths of a second."""
_SHORTEST = 0.01
_LONGEST = 1.0


class Permits:
    """One permit for each page. A `limit` of 0 means no limit.

    Each URL takes a permit when it is handed out, and returns it if it turns out to be no page. The engine counts all
    reserved permits of the crawl, so the limit holds exactly for any number of workers. Permits of a worker without
    heartbeats go to others; if it is alive after all, only its fetches in flight exceed the limit.

    Permits are reserved by demand, before the last one is taken. Those that are not needed after all go back to the
    crawl within a second or two.
    """

    def __init__(self, crawl: Crawl, limit: int) -> None:
        self._crawl = crawl
        self._limit = limit
        self._free = 0
        self._used = 0
        self._ahead = 0
        self._taken = 0
        self._since = time.monotonic()
        """When `_taken` began to count."""
        self.valid_until = math.inf
        """Monotonic time at which the engine may have given the free permits to others."""
        self.short = False
        """A permit was wanted and none was free."""
        self.pages = 0
        """Pages that this worker has finished."""

    @property
    def low(self) -> bool:
        """Whether it is time to call `reserve`."""
        return self.short or 2 * self._free < self._ahead

    def take(self) -> bool:
        """Takes a permit; returns False if none is free."""
        if not self._limit:
            return True
        if time.monotonic() > self.valid_until:
            self.give_back()
        if self._free > 0:
            self._free -= 1
            self._taken += 1
            return True
        self.short = True
        return False

    def settle(self, *, page: bool) -> None:
        """Uses the permit of a URL that was a page, or frees it."""
        if page:
            self._used += 1
            self.pages += 1
        else:
            self._free += 1

    def give_back(self, kept: int = 0) -> None:
        """Returns the free permits to the crawl, except `kept` of them."""
        back = max(0, self._free - kept)
        self._used += back
        self._free -= back
        self._ahead = min(self._ahead, kept)

    def give_back_unneeded(self, due: int) -> None:
        """Returns what is not needed for `due` URLs or at the rate of the last second; call it often."""
        if self._limit and self._free and time.monotonic() - self._since >= _LONGEST:
            self.give_back(kept=self._needed(due))

    def take_used(self) -> int:
        """Returns how many permits were used or given back since the last call."""
        used, self._used = self._used, 0
        return used if self._limit else 0

    async def reserve(self, due: int) -> bool:
        """Reserves what is needed for `due` URLs and at the present rate, at least one; returns whether any is free.

        When few are left, the engine grants each worker its share of them.
        """
        self._ahead = max(1, self._needed(due))
        if self._free < self._ahead:
            granted = await self._crawl.workers.reserve_pages(self._ahead - self._free, self._limit)
            self._free += granted  # after the await, because a URL may have been settled meanwhile
            # what is refused now is asked for again when a permit is wanted
            self._ahead = min(self._ahead, self._free)
        if self._free > 0:
            self.short = False
        return not self.short

    async def exhausted(self) -> bool:
        """Whether the crawl has as many pages as the limit allows."""
        return (await self._crawl.totals()).get("pages", 0) >= self._limit

    def _needed(self, due: int) -> int:
        now = time.monotonic()
        rate = self._taken / max(now - self._since, _SHORTEST)
        self._taken, self._since = 0, now
        return max(due, math.ceil(rate * AHEAD_SECONDS))
