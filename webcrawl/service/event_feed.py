"""The events of a crawl for many readers: one blocking read of the engine, and its latest events in memory."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from webcrawl.engine.client import UNAVAILABLE
from webcrawl.opened import Connection
from webcrawl.stores.listeners import stream_entries

logger = logging.getLogger(__name__)

BEGINNING = "0-0"
"""The position before the first event of a stream."""
_BATCH = 200
_RECENT = 2_000
_BLOCK_MS = 1_000
_PAUSE = 0.5


class FeedEvent(NamedTuple):
    """An event: its ID in the stream, and its fields as in `webcrawl.live.events`."""

    id: str
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class FeedBatch:
    """Events, and the position after them. `missed`: the stream has dropped events before these."""

    events: Sequence[FeedEvent]
    position: str
    missed: bool = False


class EventFeed:
    """The stream of a crawl, read only while somebody reads it here.

    A reader asks for what comes after its position. The latest events are in memory. A reader further behind reads the
    engine, so a slow reader costs nobody else.
    """

    def __init__(self, connection: Connection, crawl: str) -> None:
        self._engine = connection.engine
        self._key = replace(connection.keys, crawl=crawl).own("pages")
        self._recent: deque[FeedEvent] = deque(maxlen=_RECENT)
        self._before = self._end = BEGINNING
        """The positions before and after the events in memory."""
        self._news = asyncio.Event()
        self._readers = 0
        self._follower: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[str]:
        """Follows the stream meanwhile; yields the position of its end. Raises the errors of UNAVAILABLE."""
        if self._follower is None:
            latest = await self._engine.client.xrevrange(self._key, count=1)
            if self._follower is None:  # nobody else began meanwhile
                self._recent.clear()
                self._before = self._end = latest[0][0].decode() if latest else BEGINNING
                self._follower = asyncio.create_task(self._follow())
        self._readers += 1
        try:
            yield self._end
        finally:
            self._readers -= 1
            if not self._readers:
                self._follower.cancel()
                self._follower = None

    async def after(self, position: str, wait: float) -> FeedBatch:
        """Returns events after a position, none if none comes in `wait` seconds. Raises the errors of UNAVAILABLE."""
        news = self._news
        if _order(position) >= _order(self._end):
            try:
                async with asyncio.timeout(wait):
                    await news.wait()
            except TimeoutError:
                return FeedBatch([], position)
        if _order(position) < _order(self._before):
            return await self._read_engine(position)
        events = [event for event in self._recent if _order(event.id) > _order(position)][:_BATCH]
        return FeedBatch(events, events[-1].id if events else position)

    async def _read_engine(self, position: str) -> FeedBatch:
        client = self._engine.client
        entries = await client.xrange(self._key, min=f"({position}", count=_BATCH)
        # the stream drops the event at the position before it drops later ones
        missed = position != BEGINNING and not await client.xrange(self._key, min=position, max=position)
        return FeedBatch(_events(entries), entries[-1][0].decode() if entries else self._before, missed)

    async def _follow(self) -> None:
        while True:
            try:
                reply = await self._engine.client.xread({self._key: self._end}, count=_BATCH, block=_BLOCK_MS)
            except UNAVAILABLE as error:
                logger.warning("The events of a crawl cannot be read now: %s", error)
                await asyncio.sleep(_PAUSE)
                continue
            if entries := stream_entries(reply):
                self._keep(entries)

    def _keep(self, entries: Sequence[Any]) -> None:
        for event in _events(entries):
            if len(self._recent) == _RECENT:
                self._before = self._recent[0].id
            self._recent.append(event)
        self._end = entries[-1][0].decode()
        news, self._news = self._news, asyncio.Event()
        news.set()


def is_position(text: str) -> bool:
    """Returns whether a text is the ID of an event: milliseconds, a hyphen, and a serial number."""
    milliseconds, hyphen, serial = text.partition("-")
    return bool(hyphen) and all(
        part.isascii() and part.isdigit() and len(part) <= 19 for part in (milliseconds, serial)
    )


def _order(position: str) -> tuple[int, int]:
    milliseconds, _, serial = position.partition("-")
    return int(milliseconds), int(serial)


def _events(entries: Sequence[Any]) -> list[FeedEvent]:
    events = []
    for number, fields in entries:
        try:
            event = json.loads(fields[b"page"])
        except (KeyError, ValueError):
            continue  # of another version
        events.append(FeedEvent(number.decode(), event if "kind" in event else _event_of(event)))
    return events


def _event_of(row: dict[str, Any]) -> dict[str, Any]:
    """Returns the event of a page of a crawl other than the live lane, whose stream has rows."""
    url, status = row.get("url", ""), row.get("status")
    asked = {"kind": "page", "ids": [], "url": url, "final_url": row.get("final_url") or url, "chain": []}
    outcome = {"status": status, "error": "dead" if status is None else "", "reason": row.get("error") or ""}
    return {**asked, "tag": "", "meta": {}, **outcome, "stored": False, "page": row}
