"""Messages of a channel (PUBLISH) to this process, while it runs; what is sent while it is not connected is lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import NoReturn

from webcrawl.engine.client import UNAVAILABLE, Engine

logger = logging.getLogger(__name__)

_AGAIN_SECONDS = 1.0
_LOOK_SECONDS = 5.0


async def hear(engine: Engine, channel: str, heard: Callable[[bytes], None]) -> NoReturn:
    """Calls `heard` with each message until cancelled; connects again after an outage.

    A cluster has no such messages for this client: then nothing is heard.
    """
    while not engine.is_cluster:
        try:
            async with (
                engine.separate() as client,
                client.pubsub() as messages,
            ):
                await messages.subscribe(channel)
                while not _is_cancelled():
                    message = await messages.get_message(timeout=_LOOK_SECONDS)
                    if message is None:
                        # the client also returns None, and at once, when the system has given the connection up
                        await messages.ping()
                    elif message["type"] == "message":
                        heard(message["data"])
        except UNAVAILABLE as error:
            logger.debug("Not connected to channel %s: %s", channel, error)
        if _is_cancelled():
            raise asyncio.CancelledError
        await asyncio.sleep(_AGAIN_SECONDS)
    await asyncio.Event().wait()
    raise AssertionError("never set")


def _is_cancelled() -> bool:
    """Whether this task was cancelled: the client drops a cancellation that comes while it connects."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
