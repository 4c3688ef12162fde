"""Limits the share of time that costly work for a few hosts may take."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class DutyCycle:
    """Runs one piece of work at a time, each followed by a pause, so that work takes `share` of the time."""

    def __init__(self, share: float) -> None:
        self._pause = (1 - share) / share
        self._lock = asyncio.Lock()
        self._free_at = 0.0

    @property
    def is_taken(self) -> bool:
        """Whether work that begins now must wait."""
        return self._lock.locked() or time.monotonic() < self._free_at

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Waits until the work in its context may run."""
        async with self._lock:
            await asyncio.sleep(max(0.0, self._free_at - time.monotonic()))
            began = time.monotonic()
            try:
                yield
            finally:
                ended = time.monotonic()
                self._free_at = ended + self._pause * (ended - began)
