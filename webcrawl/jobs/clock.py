"""The clock of a scheduler, which tests move."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from contextlib import suppress
from datetime import UTC, datetime


class Clock(ABC):
    """What time it is, and how to wait."""

    @abstractmethod
    def now(self) -> datetime:
        """The time in UTC."""

    @abstractmethod
    async def wait(self, seconds: float, event: asyncio.Event) -> None:
        """Waits for some seconds, or until the event is set."""


class SystemClock(Clock):
    """The clock of this machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    async def wait(self, seconds: float, event: asyncio.Event) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await event.wait()
