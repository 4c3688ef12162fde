"""Finished pages for whoever wants to hear of them: a stream in the engine, written by workers, read by listeners.

Nobody waits for anybody: the stream keeps the latest pages, whether they were read or not. A group of readers shares
what comes, each page to one of them, again and again until one has said that it is done with it. A page costs its
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
from webcrawl.engine.cluster import Command
from webcrawl.engine.keys import Keys
from webcrawl.engine.scripts import Call
from webcrawl.errors import EngineError, EngineFull, StoreError
from webcrawl.stores.group_commit import Gathered

logger = logging.getLogger(__name__)

_BATCH = 100
_WAIT_MS = 1_000
_LONGEST_PAUSE = 5.0
MOST_BYTES = 32 * 1024
"""Of a page in the stream, in ASCII."""


def encoded(row: Mapping[str, Any]) -> str:
    """A row of a page as JSON without what is not known; times in ISO 8601.

    Of what is longer than MOST_BYTES the longest fields are left out: the stream is bounded by the number of pages.
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
    """Appends pages to the stream of a crawl, those of several at once in one round trip."""

    def __init__(self, engine: Engine, keys: Keys, most: int) -> None:
        self._engine = engine
        self._key = keys.own("pages")
        self._most = most
        self._pages: Gathered[str, bool] = Gathered(self._append)

    async def publish(self, row: Mapping[str, Any]) -> bool:
        """Tell listeners of a page; False when the engine has no memory for it. Raises what is in UNAVAILABLE."""
        return await self._pages.put(encoded(row))

    async def _append(self, pages: list[str]) -> Sequence[bool]:
        try:
            await self._engine.run(Call("publish", [self._key], (self._most, *pages)))
        except EngineFull:
            return [False] * len(pages)
        return [True] * len(pages)


class Heard(NamedTuple):
    """A page that a listener got: its number in the stream, and its row."""

    number: str
    row: dict[str, Any]


class Listener:
    """Reads the stream of a crawl, by itself or as one of a group.

    By itself it gets what comes from now on, or all that is kept (`from_start`). A group has a place in the stream that
    outlasts its readers: each page goes to one of them, and to another one if that has not called `done` after
    `idle_seconds`. So every page that is kept is got at least once, some twice.
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
        """What the group has still to be told of."""
        self._missed = 0
        self._resume = "0"
        """In a group: where in what this reader got and is not done with to go on; ">" when that is behind it."""

    async def pages(self, *, forever: bool = True, most: int | None = None) -> AsyncIterator[list[Heard]]:
        """Batches of pages as they come, `most` in all; without `forever` it ends when there are none.

        A group gives no more than these. While the engine is away it waits.
        """
        left = math.inf if most is None else most
        pause = 0.1
        begun = False
        while left > 0:
            try:
                if not begun:
                    await self._begin()
                    begun = True
                found = await self._next(_WAIT_MS if forever else 1, int(min(_BATCH, left)))
            except UNAVAILABLE as error:
                logger.warning("The engine is away, waiting: %s", error)
                # what was on its way when the connection was lost is to be got again
                self._resume = "0"
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
                continue
            pause = 0.1
            if found:
                yield found
                left -= len(found)
            elif not forever:
                return

    async def done(self, pages: Sequence[Heard]) -> None:
        """The group need not get these again. While the engine is away it is not told yet, and may give them again."""
        self._done += [page.number for page in pages if self._group]
        with suppress(*UNAVAILABLE):
            await self._tell_done()

    def missed(self) -> int:
        """About how many pages the stream had forgotten before the group was done with them; each is told once."""
        missed, self._missed = self._missed, 0
        return missed

    async def _passed_by(self) -> int:
        """Pages that no reader of the group will get, though it was there: the stream has forgotten them."""
        stream = await self._engine.client.xinfo_stream(self._key)
        groups = await self._engine.client.xinfo_groups(self._key)
        mine = next((one for one in groups if one["name"] == str(self._group).encode()), None)
        if mine is None or stream["length"] == 0:
            return 0
        first, last = stream["first-entry"][0], mine["last-delivered-id"]
        if _place(first) <= _place(last):
            return 0
        # all that is kept is new to the group: the rest of what was added since is gone
        return max(0, int(stream["entries-added"]) - int(stream["length"]) - int(mine["entries-read"] or 0))

    async def _tell_done(self) -> None:
        if self._done:
            words = ("XACK", self._key, str(self._group), *self._done)
            await self._engine.change_all([Command(self._key, words)])
            self._done.clear()

    async def _begin(self) -> None:
        client = self._engine.client
        if self._group is None:
            if self._after == "$":
                # a number, not "what comes after this call": nothing is missed between two of them
                latest = await client.xrevrange(self._key, count=1)
                self._after = latest[0][0].decode() if latest else "0"
            return
        place = (self._after, "MKSTREAM", "ENTRIESREAD", await self._before())
        try:
            words = ("XGROUP", "CREATE", self._key, self._group, *place)
            await self._engine.change_all([Command(self._key, words)])
        except EngineError as error:
            if "BUSYGROUP" not in str(error):  # it is there, and goes on where it was
                raise

    async def _before(self) -> int:
        """How many pages came before the first that a group which begins now is to read: these it does not miss."""
        client = self._engine.client
        if not await client.exists(self._key):
            return 0
        stream = await client.xinfo_stream(self._key)
        return int(stream["entries-added"]) - (0 if self._after == "$" else int(stream["length"]))

    async def _next(self, wait_ms: int, most: int) -> list[Heard]:
        client = self._engine.client
        if self._group is None:
            reply = await client.xread({self._key: self._after}, count=most, block=wait_ms)
            entries = _entries(reply)
            if entries:
                self._after = entries[-1][0].decode()
            return _heard(entries)
        try:
            await self._tell_done()
            return (
                await self._undone(most)
                or await self._undone_by_others(most)
                or await self._not_read_yet(most, wait_ms)
            )
        except ResponseError as error:
            if "NOGROUP" in str(error):
                raise StoreError(
                    f"group {self._group!r} is gone: the crawl was cleared or the group deleted"
                ) from error
            raise

    async def _undone(self, most: int) -> list[Heard]:
        """What this reader got once and was not done with."""
        while self._resume != ">":
            entries = await self._read(self._resume, most)
            self._resume = entries[-1][0].decode() if entries else ">"
            forgotten = [number.decode() for number, fields in entries if not fields]
            self._missed += len(forgotten)
            self._done += forgotten
            await self._tell_done()
            if pages := _heard(entries):
                return pages
        return []

    async def _undone_by_others(self, most: int) -> list[Heard]:
        while True:
            _, entries, forgotten = await self._engine.client.xautoclaim(
                self._key, self._group, self._reader, self._idle_ms, "0", count=most
            )
            self._missed += len(forgotten)
            # what was forgotten is the group's no more; behind it there may be what was not
            if entries or not forgotten:
                return _heard(entries)

    async def _not_read_yet(self, most: int, wait_ms: int) -> list[Heard]:
        self._missed += await self._passed_by()
        return _heard(await self._read(">", most, wait_ms))

    async def _read(self, after: str, most: int, wait_ms: int | None = None) -> list[Any]:
        reply = await self._engine.client.xreadgroup(
            self._group, self._reader, {self._key: after}, count=most, block=wait_ms
        )
        return _entries(reply)


def _entries(reply: Any) -> list[Any]:
    """The entries of one stream in what redis-py makes of a reply: a list of pairs, or a dict."""
    if not reply:
        return []
    streams = list(reply.values()) if isinstance(reply, dict) else [entries for _, entries in reply]
    (entries,) = streams
    return entries[0] if entries and isinstance(entries[0], list) else list(entries)


def _heard(entries: Sequence[Any]) -> list[Heard]:
    """Pages; an entry without fields was forgotten by the stream before anybody was done with it."""
    return [Heard(number.decode(), json.loads(fields[b"page"])) for number, fields in entries if fields]


def _place(number: bytes) -> tuple[int, int]:
    milliseconds, _, serial = number.partition(b"-")
    return int(milliseconds), int(serial)
