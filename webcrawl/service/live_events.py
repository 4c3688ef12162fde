"""Follows the stream in which the live lane tells what became of URLs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

import msgspec
from msgspec import Struct

from webcrawl.engine.client import UNAVAILABLE
from webcrawl.engine.keys import LIVE_CRAWL
from webcrawl.opened import Connection
from webcrawl.stores.listeners import stream_entries

_BLOCK_MS = 1_000
_BATCH = 500
_PAUSE = 0.5
logger = logging.getLogger(__name__)


class LiveEvent(Struct):
    """What became of a URL. `error` is "" for a page, or a word; `ids` are those of the requests for it."""

    kind: str = ""
    ids: list[str] = []
    url: str = ""
    final_url: str = ""
    status: int | None = None
    error: str | None = None
    reason: str | None = None
    stored: bool = False


class LiveEvents:
    """Passes each event with IDs to `take`."""

    def __init__(self, connection: Connection, take: Callable[[LiveEvent], object]) -> None:
        self._connection = connection
        self._key = replace(connection.keys, crawl=LIVE_CRAWL).own("pages")
        self._take = take
        self._decode = msgspec.json.Decoder(LiveEvent).decode
        self._after = ""

    async def begin(self) -> None:
        """Notes the end of the stream: later events are followed. Raises the errors of UNAVAILABLE."""
        if not self._after:
            latest = await self._connection.engine.client.xrevrange(self._key, count=1)
            self._after = self._after or (latest[0][0].decode() if latest else "0")

    async def follow(self) -> None:
        """Follows the stream until it is cancelled; waits while the engine is unavailable."""
        while True:
            try:
                await self.begin()
                reply = await self._connection.engine.client.xread(
                    {self._key: self._after}, count=_BATCH, block=_BLOCK_MS
                )
            except UNAVAILABLE as error:
                logger.warning("The events of the live lane cannot be read now: %s", error)
                await asyncio.sleep(_PAUSE)
                continue
            for number, fields in stream_entries(reply):
                self._after = number.decode()
                try:
                    event = self._decode(fields[b"page"])
                except (msgspec.MsgspecError, KeyError):
                    continue  # a row of another version
                if event.kind == "page" and event.ids:
                    self._take(event)
