"""The messages of a client's stream, in batches for the engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from webcrawl.errors import WrongField
from webcrawl.urlfrontier.messages import Unreadable

_MOST = 1000
"""URLs in a batch, and messages that wait for the next one; gRPC lets the client send no more then."""


class Incoming:
    """Yields lists of messages: those that came while the list before was stored, up to about a thousand URLs.

    `weight` returns the number of URLs in a message. While `_MOST` messages wait, none is read, so gRPC's flow control
    slows the client down. Raises WrongField for bytes that are no message.
    """

    def __init__(self, requests: AsyncIterator[Any], weight: Callable[[Any], int] = lambda _: 1) -> None:
        self._requests = requests
        self._weight = weight
        self._waiting: asyncio.Queue[Any] = asyncio.Queue(_MOST)

    async def __aiter__(self) -> AsyncIterator[list[Any]]:
        reading = asyncio.create_task(self._read())
        try:
            is_open = True
            while is_open:
                messages, urls = [], 0
                message = await self._waiting.get()
                while message is not None:
                    messages.append(message)
                    urls += self._weight(message)
                    if urls >= _MOST or self._waiting.empty():
                        break
                    message = self._waiting.get_nowait()
                is_open = message is not None
                if messages:
                    yield messages
            await reading
        finally:
            reading.cancel()

    async def _read(self) -> None:
        try:
            async for message in self._requests:
                if isinstance(message, Unreadable):
                    raise WrongField("request: these bytes are not a message of the stream")
                await self._waiting.put(message)
        finally:
            await self._waiting.put(None)
