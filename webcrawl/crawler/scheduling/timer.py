"""A timer that several causes may set."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable


class EarliestTimer:
    """Calls a function once, at the earliest of the times for which it was set."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._handle: asyncio.TimerHandle | None = None
        self._at = math.inf

    def set(self, seconds: float) -> None:
        """Call the function in this number of seconds, or earlier if it was set to; infinite: never for this cause."""
        if math.isinf(seconds):
            return
        at = time.monotonic() + seconds
        if self._handle is not None:
            if self._at <= at:
                return
            self._handle.cancel()
        self._at = at
        self._handle = asyncio.get_running_loop().call_later(seconds, self._ring)

    def cancel(self) -> None:
        """Do not call the function."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _ring(self) -> None:
        self._handle = None
        self._call()
