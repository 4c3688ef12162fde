"""Whether the stores take more: what makes a worker hold, and go on by itself."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from webcrawl.engine.backoff import Patience
from webcrawl.errors import StoreUnavailable

T = TypeVar("T")

LOOK_SECONDS = 1.0
"""How often it is looked whether there is room."""
PATIENCE_AT_THE_END = 10.0
_REFUSED_SECONDS = 5.0


class Room:
    """What one process knows of the room in its stores."""

    def __init__(self) -> None:
        self.measured = ""
        """Why the stores should take no more, as somebody who looks from time to time found; "" while they may."""
        self._waiting: dict[object, str] = {}
        self._refused = ""
        self._refused_until = -math.inf

    @property
    def lacking(self) -> str:
        """Why nothing more should be fetched now, for a person; "" while there is room."""
        refused = self._refused if time.monotonic() < self._refused_until else ""
        return next(iter(self._waiting.values()), "") or self.measured or refused

    def refuse(self, reason: str) -> None:
        """There was no room for what will be fetched again: there may be in five seconds."""
        self._refused, self._refused_until = reason, time.monotonic() + _REFUSED_SECONDS

    async def patiently(self, work: Callable[[], Awaitable[T]], ending: asyncio.Event) -> T:
        """The result of `work`, begun anew while that raises StoreUnavailable, until ten seconds after `ending`."""
        patience = Patience(PATIENCE_AT_THE_END, ending, first=LOOK_SECONDS, longest=LOOK_SECONDS)
        this = object()
        try:
            while True:
                try:
                    return await work()
                except StoreUnavailable as error:
                    self._waiting[this] = str(error)
                    if patience.is_over:
                        raise
                    await patience.pause()
        finally:
            self._waiting.pop(this, None)
