"""Reads the queues of one shard for a checkpoint, in the order in which their URLs were added.

One step reads a queue: its hot list, its outbox, and the descriptors of its parts in the store. If the two lists are
too long, the step returns only the descriptors and stops moves from the queue to the store; the lists are then read in
pieces, from their ends. A part that has moved to the hot list meanwhile is missing in the store, but its entries are
in the journal; see webcrawl.frontier.checkpoint.export.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import IO, Any

import msgpack

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.engine.scripts import script_call
from webcrawl.errors import PartLost
from webcrawl.frontier.overtaken import sift
from webcrawl.frontier.segments import QueuePart
from webcrawl.frontier.tails import Tails

Queue = list[Any]
"""[host, [entry, ...]]. The same host may follow again with later entries of a level."""

_HOSTS_AT_ONCE = 200
_PARTS_AT_ONCE = 16


@dataclass(slots=True)
class QueueCopy:
    """Reads about `batch` entries at a time. Methods raise StoreError while the store is unavailable."""

    engine: Engine
    keys: Keys
    tails: Tails
    shard: int
    batch: int
    lost: int = 0
    """The number of URLs in damaged or missing parts."""
    live_only: bool = False
    """Drops entries of long queues that were queued again at a better level; copy.lua drops those of short queues."""
    overtaken: list[tuple[bytes, bytes]] = field(default_factory=list)
    """Hosts and entries that were dropped. Their better entries may have been added after the lists were read."""
    _newest_first: bool = False
    _parts: set[bytes] = field(default_factory=set)
    """The parts read so far, so that `condemned` skips them."""

    async def hosts(self, hosts: list[bytes]) -> AsyncIterator[list[Queue]]:
        """Yields the queues of these hosts in batches; removes hosts that were read from the list."""
        self._newest_first = await self.engine.client.hget(self._key("conf"), "order") == b"depth-first"
        while hosts:
            copies = await self.engine.run(
                script_call("copy", self._prefixes, room=self.batch, hosts=hosts[:_HOSTS_AT_ONCE])
            )
            yield [queue for queue in (self._short(*copy) for copy in copies) if queue[1]]
            for host, queues in copies:
                for level, parts, *lists in queues:
                    if parts or not lists:
                        async for entries in self._long(host, level, parts, lists):
                            yield [[host, await self._live(host, entries)]]
            del hosts[: len(copies)]

    async def condemned(self) -> AsyncIterator[list[Any]]:
        """Yields [host, reason, [entry, ...]] for the dead letters whose entries are in the store."""
        letters = await self.engine.client.lrange(self._key("condemned"), 0, -1)
        for host, reason, part, _ in (msgpack.unpackb(letter, raw=True) for letter in letters):
            if part not in self._parts:
                async for entries in self._stored(self._key("condemned"), [part]):
                    yield [host, reason, await self._live(host, entries)]

    def _short(self, host: bytes, queues: Sequence[Any]) -> Queue:
        """Returns all queues of a host that were read in one step and have no parts in the store, as one queue."""
        whole = [queue for queue in queues if len(queue) == 4 and not queue[1]]
        return [host, [entry for _, _, hot, out in whole for entry in self._by_age([*hot, *out])]]

    async def _long(
        self, host: bytes, level: bytes, parts: list[bytes], lists: list[list[bytes]]
    ) -> AsyncIterator[list[bytes]]:
        with tempfile.TemporaryFile() as file:
            hot, out = _Pieces(file), _Pieces(file)
            for name, pieces in (("", hot), ("out:", out)):
                read = 0
                while not lists:
                    call = script_call(
                        "copy_piece",
                        self._prefixes,
                        host=host,
                        level=level,
                        list=name,
                        read=read,
                        most=self.batch,
                    )
                    read, entries = await self.engine.run(call)
                    yield []  # lets the caller do other work meanwhile
                    if not entries:
                        break
                    pieces.put(entries)
            for entries, pieces in zip(lists, (hot, out), strict=False):
                pieces.put(entries)
            stored = self._stored(self._key("tail:") + f"{host.decode()} {level.decode()}", parts)
            if self._newest_first:
                async for entries in stored:
                    yield entries
                for entries in chain(out.from_end(), hot.from_end()):
                    yield entries[::-1]
            else:
                for entries in hot.from_head():
                    yield entries
                async for entries in stored:
                    yield entries
                for entries in out.from_head():
                    yield entries

    async def _stored(self, holder: str, parts: list[bytes]) -> AsyncIterator[list[bytes]]:
        """Yields the entries of parts in the order of the queue. `holder` is the key of their list."""
        self._parts.update(parts)
        ordered = self._by_age(parts)
        for start in range(0, len(ordered), _PARTS_AT_ONCE):
            some = ordered[start : start + _PARTS_AT_ONCE]
            reads = (self.tails.read(self.shard, part) for part in some)
            for part, entries in zip(some, await asyncio.gather(*reads, return_exceptions=True), strict=True):
                if isinstance(entries, PartLost):
                    await self._lose(holder, part)
                elif isinstance(entries, BaseException):
                    raise entries
                else:
                    yield self._by_age(entries)

    async def _live(self, host: bytes, entries: list[bytes]) -> list[bytes]:
        if not self.live_only:
            return entries
        sifted = await sift(self.engine, self.keys, self.shard, host, entries)
        self.overtaken += [(host, entry) for entry in sifted.overtaken]
        return sifted.live

    async def _lose(self, holder: str, part: bytes) -> None:
        """Counts a missing part as lost, unless it has moved to the hot list."""
        elements = await self.engine.client.lrange(holder, 0, -1)
        if any(part in element for element in elements):
            self.lost += QueuePart.parse(part).urls

    def _by_age(self, entries: list[bytes]) -> list[bytes]:
        return entries[::-1] if self._newest_first else entries

    def _key(self, name: str) -> str:
        return self._prefixes[0] + name

    @property
    def _prefixes(self) -> tuple[str, str]:
        return self.keys.queue(self.shard)


class _Pieces:
    """Keeps in a file the pieces of a list that is read from its end."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._pieces: list[tuple[int, int]] = []

    def put(self, entries: list[bytes]) -> None:
        start = self._file.seek(0, 2)
        self._pieces.append((start, self._file.write(msgpack.packb(entries))))

    def from_end(self) -> Iterator[list[bytes]]:
        """Yields the pieces from the end of the list to its head."""
        for start, length in self._pieces:
            self._file.seek(start)
            yield msgpack.unpackb(self._file.read(length), raw=True)

    def from_head(self) -> Iterator[list[bytes]]:
        self._pieces.reverse()
        return self.from_end()
