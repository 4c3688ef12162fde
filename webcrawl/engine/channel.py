"""Messages of a channel (PUBLISH) to this process, while it runs; what is sent while it is not connected is lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import NoReturn

from webcrawl.engine.client import UNAVAILABLE, Engine

logger = logging.getLogger(__name__)

_AGAIN_SECONDS = 1.0


async def hear(engine: Engine, channel: str, heard: Callable[[bytes], None]) -> NoReturn:
    """Calls `heard` with each message until cancelled; connects again after an outage.

    A cluster has no such messages for this client: then nothing is heard.
    """
    while not engine.is_cluster:
        try:
            async with (
                engine.separate() as client,
                client.pubsub(ignore_subscribe_messages=True) as messages,
            ):
                await messages.subscribe(channel)
                async for message in messages.listen():
                    heard(message["data"])
        except UNAVAILABLE as error:
            logger.debug("Not connected to channel %s: %s", channel, error)
        await asyncio.sleep(_AGAIN_SECONDS)
    await asyncio.Event().wait()
    raise AssertionError("never set")
