"""How long to try again what cannot be had for now, and how long to pause in between."""

from __future__ import annotations

import asyncio
import math
import time

SHUTDOWN_SECONDS = 3.0
"""Seconds for which an engine that is away is waited for when a crawl ends; of a restart no more is to be noticed."""
_OFTEN = 0.5


class Backoff:
    """One wait: each pause is twice as long as the one before, from `first` up to `longest` seconds.

    It lasts `seconds`; with an event `ending`, as long as that is not set, and then for so many seconds, in which it is
    tried often: somebody wants to see the end of it.
    """

    def __init__(
        self,
        seconds: float,
        ending: asyncio.Event | None = None,
        *,
        first: float = 0.1,
        longest: float = 5.0,
    ) -> None:
        self._seconds = seconds
        self._ending = ending
        self._pause = first
        self._longest = longest
        self._deadline = math.inf if ending else time.monotonic() + seconds

    @property
    def is_over(self) -> bool:
        """Whether an attempt that has failed by now was the last one."""
        if self._ending and self._ending.is_set() and math.isinf(self._deadline):
            self._deadline = time.monotonic() + self._seconds
            self._longest = min(self._longest, _OFTEN)
        return time.monotonic() > self._deadline

    async def pause(self) -> None:
        """Wait a little before the next attempt; when `ending` is set meanwhile that is at once."""
        pause = min(self._pause, self._longest)
        self._pause *= 2
        if self._ending is None or self._ending.is_set():
            await asyncio.sleep(pause)
            return
        try:
            await asyncio.wait_for(self._ending.wait(), pause)
        except TimeoutError:
            return
