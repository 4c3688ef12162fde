"""Whether the stores take more: what makes a worker hold, and go on by itself."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from webcrawl.errors import StoreUnavailable

T = TypeVar("T")

LOOK_SECONDS = 1.0
"""How often it is looked whether there is room."""
PATIENCE_AT_THE_END = 10.0


class Room:
    """What one process knows of the room in its stores."""

    def __init__(self) -> None:
        self.measured = ""
        """Why the stores should take no more, as somebody who looks from time to time found; "" while they may."""
        self._refused = ""

    @property
    def lacking(self) -> str:
        """Why nothing more can be stored now, for a person; "" while there is room."""
        return self._refused or self.measured

    async def patiently(self, work: Callable[[], Awaitable[T]], ending: asyncio.Event) -> T:
        """The result of `work`, begun anew while that raises StoreUnavailable, until ten seconds after `ending`."""
        deadline = math.inf
        while True:
            try:
                result = await work()
            except StoreUnavailable as error:
                self._refused = str(error)
                if ending.is_set():
                    deadline = min(deadline, time.monotonic() + PATIENCE_AT_THE_END)
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(LOOK_SECONDS)
            else:
                self._refused = ""
                return result
