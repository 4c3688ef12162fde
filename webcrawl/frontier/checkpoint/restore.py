"""The way back from a checkpoint: its records into a crawl of any number of shards."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgpack

from webcrawl.engine.client import Engine
from webcrawl.engine.cluster import Command
from webcrawl.engine.keys import Keys
from webcrawl.engine.scripts import Call
from webcrawl.errors import StoreError
from webcrawl.frontier.checkpoint.export import HASHES, HOLD_SECONDS, WAITING, Record
from webcrawl.frontier.operations import BATCH
from webcrawl.urls.canonical import split

_CARRIED = ("added", "done", "reaped", "refused")
"""Counters that tell of the past; the others follow from what is restored."""

_TOGETHER = 20 * BATCH
"""Arguments of all scripts that are sent together."""


@dataclass(slots=True)
class Importer:
    """Fills a crawl that nobody works on, `name` tells it from others who would do the same."""

    engine: Engine
    keys: Keys
    name: str
    urls: int = 0
    """URLs put into queues, sorted sets and dead letters."""
    _moved: dict[bytes, bytes] = field(default_factory=dict)
    """Host LF entry without its counters -> the last of these counters."""
    _kind: str = ""
    _batches: dict[int, list[Any]] = field(default_factory=dict)
    """What waits to be sent, all of one kind: shard -> arguments."""
    _room: int = _TOGETHER

    async def hold(self) -> None:
        """Keep others from restoring the same crawl, or go on doing so; raises StoreError when somebody does."""
        key = self.keys.own("restorer")
        milliseconds = int(HOLD_SECONDS * 1000)
        if await self.engine.change(key, "SET", self.name, "NX", "PX", milliseconds):
            return
        if (holder := await self.engine.client.get(key)) != self.name.encode():
            raise StoreError(
                f"crawl {self.keys.crawl!r} is being restored by {(holder or b'').decode() or 'another'}; one that "
                f"was killed counts for {HOLD_SECONDS:.0f} seconds"
            )
        await self.engine.change(key, "PEXPIRE", milliseconds)

    async def finish(self) -> None:
        """All is restored: from now on workers are let in."""
        await self.hold()
        await self.engine.change(self.keys.own("info"), "HDEL", "restoring")

    async def let_go(self) -> None:
        """Others may restore the crawl."""
        key = self.keys.own("restorer")
        if await self.engine.client.get(key) == self.name.encode():
            await self.engine.change(key, "DEL")

    async def load(self, records: Callable[[], Iterable[Record]]) -> None:
        """Put all records of a shard, or those of the crawl, in their places; they are gone through twice.

        Raises StoreError for unknown ones.
        """
        for record in records():
            if record[0] == "moved":
                self._note_moved(record[1])
        for record in records():
            await self._put(record)
        await self._put_moved()
        await self._flush()

    def _note_moved(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            host, _, entry = line.partition(b"\n")
            self._moved[_key(host, entry)] = entry[:4]

    async def _put_moved(self) -> None:
        """Queue what had left its place, before all other URLs: most of it was being fetched."""
        hosts: dict[bytes, list[bytes]] = {}
        for key, counters in self._moved.items():
            host, _, rest = key.partition(b"\n")
            hosts.setdefault(host, []).append(counters + rest)
        self._moved.clear()
        await self._queue("head", hosts.items())

    async def _put(self, record: Record) -> None:
        kind = record[0]
        if kind in ("queue", "leased"):
            await self._queue("tail" if kind == "queue" else "head", record[1])
        elif kind == "seen":
            await self._seen(record[1])
        elif kind in WAITING:
            for due, member in record[1]:
                head, _, entry = member.partition(b"\n")
                host = head.partition(b" ")[2]
                if _key(host, entry) not in self._moved:
                    await self._add(self._shard(host), kind, [due, member], 1)
        elif kind in HASHES:
            pairs = record[1]
            for host, value in zip(pairs[::2], pairs[1::2], strict=True):
                await self._add(self._shard(host), kind, [host, value])
        elif kind == "bury":
            host, reason, entries = record[1:]
            left = self._left(host, entries)
            await self._add(self._shard(host), kind, [host, reason, len(left), *left], len(left))
        elif kind != "moved":
            await getattr(self, f"_put_{kind}", _unknown)(*record[1:])

    async def _flush(self) -> None:
        """Send what is held back."""
        calls = [
            Call("restore", self.keys.queue(shard), (self._kind, *arguments))
            for shard, arguments in self._batches.items()
        ]
        self._batches.clear()
        self._room = _TOGETHER
        await self.engine.run_all(calls)

    async def _queue(self, end: str, hosts: Iterable[Sequence[Any]]) -> None:
        for host, entries in hosts:
            left = self._left(host, entries)
            starts = range(0, len(left), BATCH)
            for start in starts if end == "tail" else reversed(starts):
                some = left[start : start + BATCH]
                await self._add(self._shard(host), end, [host, len(some), *some], len(some))

    async def _seen(self, packed: bytes) -> None:
        by_shard: dict[int, list[int]] = {}
        for (mark,) in struct.iter_unpack("<q", packed):
            by_shard.setdefault(self.keys.shard_of_mark(mark), []).append(mark)
        for shard, marks in by_shard.items():
            for start in range(0, len(marks), BATCH):
                await self._add(shard, "seen", marks[start : start + BATCH])

    async def _put_dead(self, found: Iterable[Sequence[bytes]]) -> None:
        for url, packed in found:
            host = split(url.decode())[0].encode()
            letters = [
                letter
                for letter in msgpack.unpackb(packed, raw=True)
                if _key(host, letter[2]) not in self._moved
            ]
            if letters:
                value = msgpack.packb(letters, use_bin_type=False)
                await self._add(self._shard(host), "dead", [url, len(letters), value], len(letters))

    async def _put_hosts(self, found: Iterable[tuple[bytes, dict[bytes, bytes]]]) -> None:
        for host, record in found:
            if fields := _flat(record):
                await self._add(self._shard(host), "host", [host, len(fields), *fields])

    async def _put_counters(self, counters: dict[bytes, int]) -> None:
        for name in _CARRIED:
            if amount := counters.get(name.encode()):
                await self.engine.change(self.keys.counters(0), "HINCRBY", name, amount)

    async def _put_info(self, info: dict[bytes, bytes]) -> None:
        told = {
            name: value for name, value in info.items() if name not in (b"format", b"restoring", b"tails")
        }
        await self._set_fields("info", told)

    async def _put_totals(self, totals: dict[bytes, bytes]) -> None:
        await self._set_fields("totals", totals)

    async def _set_fields(self, name: str, fields: dict[bytes, bytes]) -> None:
        if fields:
            await self.engine.change(self.keys.own(name), "HSET", *_flat(fields))

    async def _put_set(self, name: bytes, members: Sequence[bytes]) -> None:
        if members:
            await self.engine.change(self.keys.own(name.decode()), "SADD", *members)

    async def _put_met(self, hyperloglog: bytes) -> None:
        if hyperloglog:
            await self.engine.change(self.keys.own("hosts"), "SET", hyperloglog)

    async def _put_sums(self, found: Iterable[Sequence[bytes]]) -> None:
        await self._set_hashes((self.keys.checksum(digest), (digest, first)) for digest, first in found)

    async def _put_texts(self, found: Iterable[Sequence[bytes]]) -> None:
        await self._set_hashes((self.keys.text(url_id), (url_id, text)) for url_id, text in found)

    async def _put_like(self, found: Iterable[Sequence[bytes]]) -> None:
        keys = [(self.keys.like(int(block, 16)), texts) for block, texts in found]
        await self.engine.change_all([Command(key, ("SET", key, texts)) for key, texts in keys])

    async def _put_near(self, _: Any) -> None:
        """Texts as earlier versions kept them: the next page of each is the first."""

    async def _set_hashes(self, hashes: Iterable[tuple[str, Sequence[bytes]]]) -> None:
        await self.engine.change_all([Command(key, ("HSET", key, *fields)) for key, fields in hashes])

    async def _add(self, shard: int, kind: str, arguments: Sequence[Any], urls: int = 0) -> None:
        if kind != self._kind:
            await self._flush()
            self._kind = kind
        batch = self._batches.setdefault(shard, [])
        batch += arguments
        self.urls += urls
        self._room -= len(arguments)
        if len(batch) >= 2 * BATCH or self._room <= 0:
            await self._flush()

    def _left(self, host: bytes, entries: Iterable[bytes]) -> list[bytes]:
        """Those that are not in the journal."""
        return [entry for entry in entries if _key(host, entry) not in self._moved]

    def _shard(self, host: bytes) -> int:
        return self.keys.shard(host.decode())


def _flat(fields: dict[bytes, bytes]) -> list[bytes]:
    return [part for pair in fields.items() for part in pair]


def _key(host: bytes, entry: bytes) -> bytes:
    return host + b"\n" + entry[4:]


async def _unknown(*_: Any) -> None:
    raise StoreError("the checkpoint has records that this version of webcrawl does not know")
