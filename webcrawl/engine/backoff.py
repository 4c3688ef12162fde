"""Exponential backoff with a deadline."""

from __future__ import annotations

import asyncio
import math
import time

SHUTDOWN_SECONDS = 3.0
"""How long to keep retrying an unavailable engine during shutdown, in seconds."""
_LONGEST_AT_SHUTDOWN = 0.5


class Backoff:
    """The pauses of one series of retries: each twice as long as its predecessor, from `first` to `longest` seconds.

    The series lasts `seconds`. With an event `ending`, the series lasts until the event is set and then for `seconds`,
    with short pauses.
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
        """Whether the last attempt was the final one."""
        if self._ending and self._ending.is_set() and math.isinf(self._deadline):
            self._deadline = time.monotonic() + self._seconds
            self._longest = min(self._longest, _LONGEST_AT_SHUTDOWN)
        return time.monotonic() > self._deadline

    async def pause(self) -> None:
        """Waits before the next attempt, at most until `ending` is set."""
        pause = min(self._pause, self._longest)
        self._pause *= 2
        if self._ending is None or self._ending.is_set():
            await asyncio.sleep(pause)
            return
        try:
            async with asyncio.timeout(pause):
                await self._ending.wait()
        except TimeoutError:
            return
