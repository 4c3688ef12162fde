"""Whether the stores take more: what makes a worker hold, and go on by itself."""

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
"""How often it is looked whether there is room."""
SHUTDOWN_SECONDS = 10.0
_REFUSED_SECONDS = 5.0


class Backpressure:
    """What one process knows of the room in its stores."""

    def __init__(self) -> None:
        self.shortage = ""
        """Why the stores should take no more, as somebody who looks from time to time found; "" while they may."""
        self._waiting: dict[object, str] = {}
        self._refused = ""
        self._refused_until = -math.inf

    @property
    def reason(self) -> str:
        """Why nothing more should be fetched now, for a person; "" while there is room."""
        refused = self._refused if time.monotonic() < self._refused_until else ""
        return next(iter(self._waiting.values()), "") or self.shortage or refused

    def hold_briefly(self, reason: str) -> None:
        """There was no room for what will be fetched again: there may be in five seconds."""
        self._refused, self._refused_until = reason, time.monotonic() + _REFUSED_SECONDS

    async def retry_until_available(self, work: Callable[[], Awaitable[T]], ending: asyncio.Event) -> T:
        """The result of `work`, begun anew while that raises StoreUnavailable, until ten seconds after `ending`."""
        backoff = Backoff(SHUTDOWN_SECONDS, ending, first=POLL_SECONDS, longest=POLL_SECONDS)
        this = object()
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
            self._waiting.pop(this, None)
