"""The stream of the live lane, as those who put URLs in see it."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Sequence

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import LIVE_URLS
from webcrawl.engine.replication import Command
from webcrawl.errors import LiveLaneFull
from webcrawl.live.request import LiveRequest

MOST_WAITING = 5_000
"""The messages that may wait or be worked on before the lane is full."""
_LOOK_SECONDS = 0.2
_SAMPLES = 50
_SHORTEST_RETRY, _LONGEST_RETRY = 1.0, 60.0


class LiveLane:
    """Puts messages into the stream of the live lane. The stream has only messages that are not finished.

    `most` is the number of messages that may wait; `stream` is LIVE_STREAM. Methods raise the errors of UNAVAILABLE.
    """

    def __init__(self, engine: Engine, *, stream: str = LIVE_URLS, most: int = MOST_WAITING) -> None:
        self.stream = stream
        self._engine = engine
        self._most = most
        self._waiting = 0
        """The number of messages in the stream when it was last looked at, and those that were put since."""
        self._looked = -math.inf
        self._finished: deque[tuple[float, int]] = deque(maxlen=_SAMPLES)
        """Monotonic time, and the number of messages that were finished since the stream began."""

    async def put(self, requests: Sequence[LiveRequest]) -> list[str]:
        """Appends messages; returns their IDs in the stream. Raises LiveLaneFull, and then appends none."""
        if time.monotonic() - self._looked > _LOOK_SECONDS or self._waiting + len(requests) > self._most:
            await self._look()
        if self._waiting + len(requests) > self._most:
            raise LiveLaneFull(self._waiting, self._retry_after(len(requests)))
        self._waiting += len(requests)
        commands = [
            Command(self.stream, ("XADD", self.stream, "*", *_flat(request.to_message())))
            for request in requests
        ]
        return [_text(number) for number in await self._engine.change_all(commands)]

    async def waiting(self) -> int:
        """Returns the number of messages that wait or are worked on."""
        await self._look()
        return self._waiting

    async def _look(self) -> None:
        client, self._looked = self._engine.client, time.monotonic()
        if not await client.exists(self.stream):
            self._waiting = 0
            return
        stream = await client.xinfo_stream(self.stream)
        self._waiting = int(stream["length"])
        self._finished.append((self._looked, int(stream["entries-added"]) - self._waiting))

    def _retry_after(self, more: int) -> float:
        """Returns the seconds in which the messages that are too many will be finished, at the rate of late."""
        (since, before), (now, finished) = self._finished[0], self._finished[-1]
        rate = (finished - before) / (now - since) if now > since else 0.0
        seconds = (self._waiting + more - self._most) / rate if rate > 0 else _LONGEST_RETRY
        return min(max(seconds, _SHORTEST_RETRY), _LONGEST_RETRY)


def _flat(message: dict[str, str]) -> list[str]:
    return [word for field in message.items() for word in field]


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
