"""The messages of a client's stream, in batches for the engine."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

_MOST = 1000
"""URLs in a batch."""


async def batches(
    requests: AsyncIterator[list[Any]], weight: Callable[[Any], int] = lambda _: 1
) -> AsyncGenerator[list[Any]]:
    """Yields lists of messages with up to about a thousand URLs, from lists of those that came together.

    `weight` returns the number of URLs in a message. While a batch is stored nothing is read, so the client sends no
    more than the window of its stream has room for.
    """
    async for messages in requests:
        batch, urls = [], 0
        for message in messages:
            batch.append(message)
            urls += weight(message)
            if urls >= _MOST:
                yield batch
                batch, urls = [], 0
        if batch:
            yield batch
