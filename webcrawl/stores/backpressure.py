"""Backpressure: a worker holds while its stores accept nothing more."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from webcrawl.engine.backoff import Backoff
from webcrawl.errors import StoreUnavailable

T = TypeVar("T")

POLL_SECONDS = 1.0
"""Seconds between two attempts to use a full or unavailable store."""
SHUTDOWN_SECONDS = 10.0
"""Seconds for which a store is tried again during shutdown."""
_REFUSED_SECONDS = 5.0


class Backpressure:
    """Whether the stores of one process accept more."""

    def __init__(self) -> None:
        self.shortage = ""
        """The shortage that a store measured, such as too little free disk; "" while there is none."""
        self.unseen = ""
        """Why it cannot be told or stored which URLs were seen; "" while it can."""
        self.writes = 0
        """Number of calls of `retry_until_available` under way."""
        self._waiting: dict[object, str] = {}
        self._refused = ""
        self._refused_until = -math.inf

    @property
    def reason(self) -> str:
        """The reason why nothing should be fetched now; "" if the stores accept more."""
        refused = self._refused if time.monotonic() < self._refused_until else ""
        return next(iter(self._waiting.values()), "") or self.shortage or self.unseen or refused

    def hold_briefly(self, reason: str) -> None:
        """Holds for five seconds, after a store had no room for a page that will be fetched again."""
        self._refused, self._refused_until = reason, time.monotonic() + _REFUSED_SECONDS

    async def retry_until_available(self, work: Callable[[], Awaitable[T]], ending: asyncio.Event) -> T:
        """Returns the result of `work`, repeated while it raises StoreUnavailable.

        Gives up, and raises StoreUnavailable, ten seconds after `ending` is set.
        """
        backoff = Backoff(SHUTDOWN_SECONDS, ending, first=POLL_SECONDS, longest=POLL_SECONDS)
        this = object()
        self.writes += 1
        try:
            while True:
                try:
                    return await work()
                except StoreUnavailable as error:
                    self._waiting[this] = str(error)
                    if backoff.is_over:
                        raise
                    await backoff.pause()
        finally:
            self.writes -= 1
            self._waiting.pop(this, None)
