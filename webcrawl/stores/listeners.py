"""The stream of finished pages in the engine: workers append, listeners read.

The stream keeps the latest pages, read or not, so neither side waits for the other. A group of readers shares the
pages: a page is delivered to one reader, and then to other readers until it is acknowledged. A page costs its
worker 25 to 50 us, and the engine about 950 bytes.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple

from redis.exceptions import ResponseError

from webcrawl.documents.values import plain
from webcrawl.engine.client import UNAVAILABLE, Engine
from webcrawl.engine.keys import Keys
from webcrawl.engine.replication import Command
from webcrawl.engine.scripts import script_call
from webcrawl.errors import EngineError, EngineFull, StoreError
from webcrawl.stores.group_commit import GroupCommit

logger = logging.getLogger(__name__)

_BATCH = 100
_WAIT_MS = 1_000
_LONGEST_PAUSE = 5.0
MOST_BYTES = 32 * 1024
"""The most bytes of a page in the stream, as JSON in ASCII."""


def encoded(row: Mapping[str, Any]) -> str:
    """Returns a row of a page as JSON, without columns that are null; times in ISO 8601.

    Drops the longest fields of rows over MOST_BYTES, because the stream is bounded by the number of pages only.
    """
    known = {name: value for name, value in row.items() if value is not None}
    if "details" in known:
        known["details"] = plain(known["details"])
    text = _json(known)
    while len(text) > MOST_BYTES and len(known) > 1:
        del known[max(known.keys() - {"url"}, key=lambda name: len(_json(known[name])))]
        text = _json(known)
    return text


def _json(value: Any) -> str:
    return json.dumps(value, default=_in_iso, separators=(",", ":"))


def _in_iso(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else plain(value)


class Publisher:
    """Appends pages to the stream of a crawl, in batches."""

    def __init__(self, engine: Engine, keys: Keys, most: int) -> None:
        self._engine = engine
        self._key = keys.own("pages")
        self._most = most
        self._pages: GroupCommit[str, bool] = GroupCommit(self._append)

    async def publish(self, row: Mapping[str, Any]) -> bool:
        """Appends a page. Returns False if the engine has no memory for it. Raises the exceptions of UNAVAILABLE."""
        return await self.publish_encoded(encoded(row))

    async def publish_encoded(self, text: str) -> bool:
        """Appends a JSON object, such as `encoded` returns."""
        return await self._pages.put(text)

    async def _append(self, pages: list[str]) -> Sequence[bool]:
        try:
            await self._engine.run(script_call("publish", [self._key], most=self._most, pages=pages))
        except EngineFull:
            return [False] * len(pages)
        return [True] * len(pages)


class Heard(NamedTuple):
    """A delivered page: its ID in the stream, and its row."""

    number: str
    row: dict[str, Any]


class Listener:
    """Reads the stream of a crawl, alone or in a group.

    A single listener reads new pages, or all pages of the stream if `from_start`. A group has a position in the
    stream that outlasts its readers. Each page is delivered to one reader, and to another reader if the first has not
    called `done` after `idle_seconds`: delivery is at least once.
    """

    def __init__(
        self,
        engine: Engine,
        keys: Keys,
        *,
        group: str | None = None,
        reader: str = "",
        from_start: bool = False,
        idle_seconds: float = 60.0,
    ) -> None:
        self._engine = engine
        self._key = keys.own("pages")
        self._group = group
        self._reader = reader
        self._after = "0" if from_start else "$"
        self._idle_ms = int(1000 * idle_seconds)
        self._done: list[str] = []
        """The pages that are not acknowledged yet."""
        self._missed = 0
        self._resume = "0"
        """The position in the unacknowledged pages of this reader; ">" after the last page."""

    async def pages(self, *, forever: bool = True, most: int | None = None) -> AsyncIterator[list[Heard]]:
        """Batches of pages, `most` pages in all. Without `forever`, ends when there are no more.

        Waits while the engine is unavailable.
        """
        left = math.inf if most is None else most
        pause = 0.1
        begun = False
        while left > 0:
            try:
                if not begun:
                    await self._create_group()
                    begun = True
                heard = await self._next(_WAIT_MS if forever else 1, int(min(_BATCH, left)))
            except UNAVAILABLE as error:
                logger.warning("The engine is unavailable, waiting: %s", error)
                # pages that were in flight are read again
                self._resume = "0"
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
                continue
            pause = 0.1
            if heard:
                yield heard
                left -= len(heard)
            elif not forever:
                return

    async def done(self, pages: Sequence[Heard]) -> None:
        """Acknowledges pages, or later if the engine is unavailable: the group may then deliver them again."""
        self._done += [page.number for page in pages if self._group]
        with suppress(*UNAVAILABLE):
            await self._acknowledge()

    def missed(self) -> int:
        """Returns the approximate number of pages that the stream dropped unacknowledged since the last call."""
        missed, self._missed = self._missed, 0
        return missed

    async def _count_dropped(self) -> int:
        """Returns the number of pages that the stream dropped before the group read them."""
        stream = await self._engine.client.xinfo_stream(self._key)
        groups = await self._engine.client.xinfo_groups(self._key)
        mine = next((group for group in groups if group["name"] == str(self._group).encode()), None)
        if mine is None or stream["length"] == 0:
            return 0
        first, last = stream["first-entry"][0], mine["last-delivered-id"]
        if _stream_id(first) <= _stream_id(last):
            return 0
        # the group has read no page in the stream: other pages added since its last read are gone
        return max(0, int(stream["entries-added"]) - int(stream["length"]) - int(mine["entries-read"] or 0))

    async def _acknowledge(self) -> None:
        if self._done:
            words = ("XACK", self._key, str(self._group), *self._done)
            await self._engine.change_all([Command(self._key, words)])
            self._done.clear()

    async def _create_group(self) -> None:
        client = self._engine.client
        if self._group is None:
            if self._after == "$":
                # an ID instead of "$", which would miss pages between two calls
                latest = await client.xrevrange(self._key, count=1)
                self._after = latest[0][0].decode() if latest else "0"
            return
        options = (self._after, "MKSTREAM", "ENTRIESREAD", await self._count_before())
        try:
            words = ("XGROUP", "CREATE", self._key, self._group, *options)
            await self._engine.change_all([Command(self._key, words)])
        except EngineError as error:
            if "BUSYGROUP" not in str(error):  # the group exists, and keeps its position
                raise

    async def _count_before(self) -> int:
        """Returns the number of pages before the position of a new group, which do not count as missed."""
        client = self._engine.client
        if not await client.exists(self._key):
            return 0
        stream = await client.xinfo_stream(self._key)
        return int(stream["entries-added"]) - (0 if self._after == "$" else int(stream["length"]))

    async def _next(self, wait_ms: int, most: int) -> list[Heard]:
        client = self._engine.client
        if self._group is None:
            reply = await client.xread({self._key: self._after}, count=most, block=wait_ms)
            entries = stream_entries(reply)
            if entries:
                self._after = entries[-1][0].decode()
            return _heard(entries)
        try:
            await self._acknowledge()
            return (
                await self._read_pending(most)
                or await self._read_claimed(most)
                or await self._read_new(most, wait_ms)
            )
        except ResponseError as error:
            if "NOGROUP" in str(error):
                raise StoreError(
                    f"group {self._group!r} does not exist any more: the crawl was cleared, or the group deleted"
                ) from error
            raise

    async def _read_pending(self, most: int) -> list[Heard]:
        """Returns pages that this reader has read but not acknowledged."""
        while self._resume != ">":
            entries = await self._read(self._resume, most)
            self._resume = entries[-1][0].decode() if entries else ">"
            forgotten = [number.decode() for number, fields in entries if not fields]
            self._missed += len(forgotten)
            self._done += forgotten
            await self._acknowledge()
            if pages := _heard(entries):
                return pages
        return []

    async def _read_claimed(self, most: int) -> list[Heard]:
        while True:
            _, entries, forgotten = await self._engine.client.xautoclaim(
                self._key, self._group, self._reader, self._idle_ms, "0", count=most
            )
            self._missed += len(forgotten)
            # the group has removed the dropped pages; other pages may follow them
            if entries or not forgotten:
                return _heard(entries)

    async def _read_new(self, most: int, wait_ms: int) -> list[Heard]:
        self._missed += await self._count_dropped()
        return _heard(await self._read(">", most, wait_ms))

    async def _read(self, after: str, most: int, wait_ms: int | None = None) -> list[Any]:
        reply = await self._engine.client.xreadgroup(
            self._group, self._reader, {self._key: after}, count=most, block=wait_ms
        )
        return stream_entries(reply)


def stream_entries(reply: Any) -> list[Any]:
    """Returns the entries of one stream in a reply of redis-py: a list of pairs, or a dict."""
    if not reply:
        return []
    streams = list(reply.values()) if isinstance(reply, dict) else [entries for _, entries in reply]
    (entries,) = streams
    return entries[0] if entries and isinstance(entries[0], list) else list(entries)


def _heard(entries: Sequence[Any]) -> list[Heard]:
    """Returns pages. The stream dropped an entry without fields before it was acknowledged."""
    return [Heard(number.decode(), json.loads(fields[b"page"])) for number, fields in entries if fields]


def _stream_id(number: bytes) -> tuple[int, int]:
    milliseconds, _, serial = number.partition(b"-")
    return int(milliseconds), int(serial)
