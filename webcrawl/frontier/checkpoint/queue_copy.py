"""Reads the queues of one shard for a checkpoint, in the order in which their URLs were added.

A queue is read in one step: its hot list, its outbox, and the descriptors of its parts in the store. If its lists are
too long, the step returns only the parts, and keeps entries of the queue from moving to the store; the lists are then
read in pieces, from their ends. A part that is missing when it is read has moved to the hot list meanwhile, so its
entries are in the journal; see webcrawl.frontier.checkpoint.export.
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
from webcrawl.engine.scripts import Call
from webcrawl.errors import PartLost
from webcrawl.frontier.segments import Part
from webcrawl.frontier.tails import Tails

Queue = list[Any]
"""[host, [entry, ...]]: a host may occur again, with later entries of a level."""

_HOSTS_AT_ONCE = 200
_PARTS_AT_ONCE = 16


@dataclass(slots=True)
class QueueCopy:
    """Reads `batch` entries or so at a time. Methods raise StoreError while the store is unavailable."""

    engine: Engine
    keys: Keys
    tails: Tails
    shard: int
    batch: int
    lost: int = 0
    """URLs in parts that are damaged or missing."""
    _newest_first: bool = False
    _parts: set[bytes] = field(default_factory=set)
    """The parts that were read. A part may occur again as condemned."""

    async def hosts(self, hosts: list[bytes]) -> AsyncIterator[list[Queue]]:
        """The queues of these hosts."""
        self._newest_first = await self.engine.client.hget(self._key("conf"), "order") == b"depth-first"
        while hosts:
            found = await self._run("copy", self.batch, *hosts[:_HOSTS_AT_ONCE])
            yield [queue for queue in (self._short(*one) for one in found) if queue[1]]
            for host, queues in found:
                for level, parts, *lists in queues:
                    if parts or not lists:
                        async for entries in self._long(host, level, parts, lists):
                            yield [[host, entries]]
            del hosts[: len(found)]

    async def condemned(self) -> AsyncIterator[list[Any]]:
        """[host, reason, [entry, ...]] of the dead letters whose entries are in the store."""
        letters = await self.engine.client.lrange(self._key("condemned"), 0, -1)
        for host, reason, part, _ in (msgpack.unpackb(letter, raw=True) for letter in letters):
            if part not in self._parts:
                async for entries in self._stored(self._key("condemned"), [part]):
                    yield [host, reason, entries]

    def _short(self, host: bytes, queues: Sequence[Any]) -> Queue:
        """The queues that were read in one step and have no parts in the store."""
        whole = [one for one in queues if len(one) == 4 and not one[1]]
        return [host, [entry for _, _, hot, out in whole for entry in self._by_age([*hot, *out])]]

    async def _long(
        self, host: bytes, level: int, parts: list[bytes], lists: list[list[bytes]]
    ) -> AsyncIterator[list[bytes]]:
        with tempfile.TemporaryFile() as file:
            hot, out = _Pieces(file), _Pieces(file)
            for name, pieces in (("", hot), ("out:", out)):
                known = 0
                while not lists:
                    known, *entries = await self._run("copy_piece", host, level, name, known, self.batch)
                    yield []  # lets the caller do other work meanwhile
                    if not entries:
                        break
                    pieces.put(entries)
            for entries, pieces in zip(lists, (hot, out), strict=False):
                pieces.put(entries)
            stored = self._stored(self._key("tail:") + f"{host.decode()} {level}", parts)
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
        """The entries of parts by age. `holder` is the list that has, or had, these parts."""
        self._parts.update(parts)
        ordered = self._by_age(parts)
        for start in range(0, len(ordered), _PARTS_AT_ONCE):
            some = ordered[start : start + _PARTS_AT_ONCE]
            reads = (self.tails.read(self.shard, part) for part in some)
            for part, found in zip(some, await asyncio.gather(*reads, return_exceptions=True), strict=True):
                if isinstance(found, PartLost):
                    await self._lose(holder, part)
                elif isinstance(found, BaseException):
                    raise found
                else:
                    yield self._by_age(found)

    async def _lose(self, holder: str, part: bytes) -> None:
        """Count a missing part as lost, unless it has moved to the hot list."""
        held = await self.engine.client.lrange(holder, 0, -1)
        if any(part in one for one in held):
            self.lost += Part.parse(part).urls

    def _by_age(self, entries: list[bytes]) -> list[bytes]:
        return entries[::-1] if self._newest_first else entries

    def _key(self, name: str) -> str:
        return self.keys.queue(self.shard)[0] + name

    async def _run(self, script: str, *arguments: Any) -> Any:
        return await self.engine.run(Call(script, self.keys.queue(self.shard), arguments))


class _Pieces:
    """Pieces of a list that is read from its end, kept in a file."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._places: list[tuple[int, int]] = []

    def put(self, entries: list[bytes]) -> None:
        start = self._file.seek(0, 2)
        self._places.append((start, self._file.write(msgpack.packb(entries))))

    def from_end(self) -> Iterator[list[bytes]]:
        """The last piece of the list first."""
        for start, length in self._places:
            self._file.seek(start)
            yield msgpack.unpackb(self._file.read(length), raw=True)

    def from_head(self) -> Iterator[list[bytes]]:
        self._places.reverse()
        return self.from_end()
