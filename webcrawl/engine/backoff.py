"""Pauses between two retries of a call, and between two polls of a worker that waits."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush

SHUTDOWN_SECONDS = 3.0
"""How long to keep retrying an unavailable engine during shutdown, in seconds."""
_LONGEST_AT_SHUTDOWN = 0.5
_IDLE_SHARE = 0.1
"""The pause between two polls, as a share of the time that a worker has been idle."""
_FORESEEN_SECONDS = 60.0
"""What is due later is not foreseen, because a second more or less does not matter then."""


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


class IdleTime:
    """The time for which a worker has been idle: it waits for the turn of a host, or for other workers.

    The longer it is, the less often the worker polls the engine. So it learns of the work of others at most a tenth
    later than it could, and starts at once with the work that it foresees.
    """

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._foreseen: list[float] = []
        """A heap of monotonic times."""

    def end(self) -> None:
        """Notes that something has happened."""
        self._since = time.monotonic()

    def foresee(self, seconds: float) -> None:
        """Notes that there will be work after these seconds."""
        if seconds < _FORESEEN_SECONDS:
            heappush(self._foreseen, time.monotonic() + seconds)

    def seconds(self) -> float:
        """Returns the seconds since something happened or foreseen work was due."""
        now = time.monotonic()
        while self._foreseen and self._foreseen[0] <= now:
            self._since = max(self._since, heappop(self._foreseen))
        return now - self._since

    def pause(self, shortest: float, longest: float) -> float:
        """Returns the seconds to pause, from `shortest` to `longest`, at most until foreseen work is due."""
        pause = _pause(self.seconds(), shortest, longest)
        return min(pause, self._foreseen[0] - time.monotonic()) if self._foreseen else pause


@dataclass(slots=True)
class Polling:
    """The times at which a worker polls the engine, from `shortest` to `longest` seconds apart.

    `idle_seconds` returns for how long the worker has been idle.
    """

    idle_seconds: Callable[[], float]
    shortest: float
    longest: float
    _last: float = field(default=-math.inf, init=False)

    @property
    def is_due(self) -> bool:
        """Whether it is time for the next poll."""
        pause = _pause(self.idle_seconds(), self.shortest, self.longest)
        return time.monotonic() - self._last >= pause

    def polled(self) -> None:
        """Notes a poll."""
        self._last = time.monotonic()

    def reset(self) -> None:
        """Makes the next poll due now."""
        self._last = -math.inf


def _pause(idle_seconds: float, shortest: float, longest: float) -> float:
    return min(max(shortest, _IDLE_SHARE * idle_seconds), longest)


async def ended(*tasks: asyncio.Task[None]) -> None:
    """Cancels tasks that use the engine, and returns when all are done."""
    while running := [task for task in tasks if not task.done()]:
        # repeated, because the engine's client may swallow a cancellation
        for task in running:
            task.cancel()
        await asyncio.wait(running, timeout=0.1)
