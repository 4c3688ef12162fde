"""Puts the records of a checkpoint into a crawl of any number of shards."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgpack

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.engine.lock import EngineLock
from webcrawl.engine.replication import Command
from webcrawl.engine.scripts import Argument, script_call
from webcrawl.errors import StoreError
from webcrawl.frontier.checkpoint.export import ANSWERS, HASHES, WAITING, Record, flat
from webcrawl.frontier.checkpoint.hold import HOLD_SECONDS
from webcrawl.frontier.entry import DATED, Candidate, without_time
from webcrawl.frontier.operations import BATCH
from webcrawl.urls.canonical import split

_CARRIED = ("added", "done", "reaped", "refused")
"""Counters of the past. The other counters follow from the restored records."""

_OF_THE_COPY = (b"format", b"restoring", b"tails")
"""Fields of `info` that are not restored, because the new crawl sets its own values."""

_MAX_ARGUMENTS = 20 * BATCH
"""The most arguments of calls that are sent together."""


Lacking: TypeAlias = Callable[[Sequence[str]], set[str]]


class Importer:
    """Fills a crawl that no worker has begun. `name` identifies this restore.

    `lacking` returns those of some URLs that the crawl's metadata database has no row of: known pages without a row
    have no plan there, so they are queued, to be fetched once more. Without it, the plan of a checkpoint is left out.
    """

    def __init__(self, engine: Engine, keys: Keys, name: str, lacking: Lacking | None = None) -> None:
        self.engine = engine
        self.keys = keys
        self.name = name
        self.urls = 0
        """The number of URLs put into queues, sorted sets and dead letters."""
        self.lacking = 0
        """The number of known pages that the metadata database lacks."""
        self._lacking = lacking
        self._moved: dict[bytes, bytes] = {}
        """The journal: host LF entry without its counters and time -> the last counters of the entry."""
        self._lock = EngineLock(engine, keys.own("restorer"), name, HOLD_SECONDS)
        self._batches = ScriptBatches(engine, keys)
        self._crawl_records = CrawlRecords(engine, keys)

    async def hold(self) -> None:
        """Takes or renews the lock of this restore; raises StoreError if another process has the lock."""
        holder = (await self._lock.state_after_claim()).holder
        if holder != self.name:
            raise StoreError(
                f"crawl {self.keys.crawl!r} is being restored by {holder}; if it was killed, wait "
                f"{HOLD_SECONDS:.0f} seconds"
            )

    async def finish(self) -> None:
        """Admits workers, because everything is restored."""
        await self.hold()
        await self.engine.change(self.keys.own("info"), "HDEL", "restoring")

    async def release(self) -> None:
        """Releases the lock of this restore."""
        await self._lock.leave()

    async def load(self, records: Callable[[], Iterable[Record]]) -> None:
        """Restores the records of one file. Reads them twice, the journal first.

        Raises StoreError for a kind of record that this version does not know.
        """
        for record in records():
            if record[0] == "moved":
                self._read_journal(record[1])
        for record in records():
            await self._put(record)
        await self._put_journal()
        await self._batches.send()

    def _read_journal(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            host, _, entry = line.partition(b"\n")
            self._moved[_key(host, entry)] = entry[:4]

    async def _put_journal(self) -> None:
        """Queues the URLs of the journal before all others, because most of them were being fetched."""
        hosts: dict[bytes, list[bytes]] = {}
        for key, counters in self._moved.items():
            host, _, rest = key.partition(b"\n")
            hosts.setdefault(host, []).append(counters + rest)
        self._moved.clear()
        await self._put_queue("head", hosts.items())

    async def _put(self, record: Record) -> None:
        kind, *values = record
        if kind in ("queue", "leased"):
            await self._put_queue("tail" if kind == "queue" else "head", *values)
        elif kind in WAITING:
            await self._put_waiting(kind, *values)
        elif kind in (*HASHES, ANSWERS):
            await self._put_hash(kind, *values)
        elif kind in ("seen", "dead", "dropped", "bury", "hosts", "credit", "plan"):
            await getattr(self, f"_put_{kind}")(*values)
        elif kind != "moved":
            await getattr(self._crawl_records, f"put_{kind}", _unknown)(*values)

    async def _put_waiting(self, kind: str, members: Iterable[tuple[int, bytes]]) -> None:
        for due, member in members:
            head, _, entry = member.partition(b"\n")
            host = head.partition(b" ")[2]
            if _key(host, entry) not in self._moved:
                await self._add(self._shard(host), kind, member, due, urls=1)

    async def _put_hash(self, kind: str, pairs: Sequence[bytes]) -> None:
        for host, value in zip(pairs[::2], pairs[1::2], strict=True):
            await self._add(self._shard(host), kind, host, value)

    async def _put_bury(self, host: bytes, reason: bytes, entries: Iterable[bytes]) -> None:
        left = self._left(host, entries)
        await self._add(self._shard(host), "bury", host, reason, left, urls=len(left))

    async def _put_queue(self, end: str, hosts: Iterable[Sequence[Any]]) -> None:
        for host, entries in hosts:
            left = self._left(host, entries)
            starts = range(0, len(left), BATCH)
            for start in starts if end == "tail" else reversed(starts):
                some = left[start : start + BATCH]
                await self._add(self._shard(host), end, host, parts=some, urls=len(some))

    async def _put_seen(self, packed: bytes) -> None:
        by_shard: dict[int, list[int]] = {}
        for (mark,) in struct.iter_unpack("<q", packed):
            by_shard.setdefault(self.keys.shard_of_mark(mark), []).append(mark)
        for shard, marks in by_shard.items():
            for start in range(0, len(marks), BATCH):
                await self._add(shard, "seen", "", parts=marks[start : start + BATCH])

    async def _put_credit(self, shards: int, shard: int, pairs: Sequence[bytes]) -> None:
        """Restores credit. With another number of shards, Lambda gets all, because a record does not name its host."""
        if shards == self.keys.shards:
            for number, record in zip(pairs[::2], pairs[1::2], strict=True):
                await self._add(shard, "credit", number, record)

    async def _put_dead(self, urls: Iterable[Sequence[bytes]]) -> None:
        for url, packed in urls:
            host = split(url.decode())[0].encode()
            letters = [
                letter
                for letter in msgpack.unpackb(packed, raw=True)
                if _key(host, letter[2]) not in self._moved
            ]
            if letters:
                value = msgpack.packb(letters, use_bin_type=False)
                await self._add(self._shard(host), "dead", url, value, urls=len(letters))

    async def _put_dropped(self, pairs: Sequence[bytes]) -> None:
        for url, time in zip(pairs[::2], pairs[1::2], strict=True):
            await self._add(self.keys.shard(split(url.decode())[0]), "dropped", url, time)

    async def _put_plan(self, pages: Iterable[Sequence[Any]]) -> None:
        if self._lacking is None:
            return
        await self.engine.change(self.keys.own("recrawl"), "HSET", "visits", 0)
        rows = {url.decode(): row for url, *row in pages}
        lacking = await asyncio.to_thread(self._lacking, [*rows])
        hosts: dict[bytes, list[bytes]] = {}
        for url in sorted(lacking):
            host, path = split(url)
            hosts.setdefault(host.encode(), []).append(_planned_entry(host, path, *rows[url]))
        self.lacking += len(lacking)
        await self._put_queue("tail", hosts.items())

    async def _put_hosts(self, records: Iterable[tuple[bytes, dict[bytes, bytes]]]) -> None:
        for host, record in records:
            if fields := flat(record):
                await self._add(self._shard(host), "host", host, parts=fields)

    async def _add(
        self,
        shard: int,
        kind: str,
        name: Argument,
        value: Argument = "",
        parts: Sequence[Argument] = (),
        *,
        urls: int = 0,
    ) -> None:
        self.urls += urls
        await self._batches.add(shard, kind, name, value, parts)

    def _left(self, host: bytes, entries: Iterable[bytes]) -> list[bytes]:
        """Returns the entries that are not in the journal."""
        return [entry for entry in entries if _key(host, entry) not in self._moved]

    def _shard(self, host: bytes) -> int:
        return self.keys.shard(host.decode())


def _planned_entry(
    host: str, path: str, depth: int, referrer: bytes | None, fetch_class: bytes, request: bytes | None
) -> bytes:
    """Returns the entry of a page that is to be fetched again now."""
    extra = base64.b64decode(request) if request else None
    linked_by = None if referrer is None else referrer.decode()
    page = Candidate(
        host, path, None, depth=depth, referrer=linked_by, extra=extra, fetch_class=fetch_class.decode()
    )
    entry = page.entry()
    return bytes((entry[0] | DATED,)) + entry[1:]


def _key(host: bytes, entry: bytes) -> bytes:
    # an entry that moves may lose its time
    return host + b"\n" + without_time(entry)[4:]


async def _unknown(*_: Any) -> None:
    raise StoreError("the checkpoint contains records that this version of webcrawl does not know")


class CrawlRecords:
    """A method for each kind of record, called `put_` and the kind."""

    def __init__(self, engine: Engine, keys: Keys) -> None:
        self._engine = engine
        self._keys = keys

    async def put_counters(self, counters: dict[bytes, int]) -> None:
        for name in _CARRIED:
            if amount := counters.get(name.encode()):
                await self._engine.change(self._keys.counters(0), "HINCRBY", name, amount)

    async def put_info(self, info: dict[bytes, bytes]) -> None:
        await self._set_fields(
            "info", {name: value for name, value in info.items() if name not in _OF_THE_COPY}
        )

    async def put_totals(self, totals: dict[bytes, bytes]) -> None:
        await self._set_fields("totals", totals)

    async def put_seed_addresses(self, addresses: dict[bytes, bytes]) -> None:
        await self._set_fields("seed_addresses", addresses)

    async def _set_fields(self, name: str, fields: dict[bytes, bytes]) -> None:
        if fields:
            await self._engine.change(self._keys.own(name), "HSET", *flat(fields))

    async def put_set(self, name: bytes, members: Sequence[bytes]) -> None:
        if members:
            await self._engine.change(self._keys.own(name.decode()), "SADD", *members)

    async def put_met(self, hyperloglog: bytes) -> None:
        if hyperloglog:
            await self._engine.change(self._keys.own("hosts"), "SET", hyperloglog)

    async def put_sums(self, sums: Iterable[Sequence[bytes]]) -> None:
        await self._set_hashes((self._keys.checksum(digest), (digest, first)) for digest, first in sums)

    async def put_texts(self, texts: Iterable[Sequence[bytes]]) -> None:
        await self._set_hashes((self._keys.text(url_id), (url_id, text)) for url_id, text in texts)

    async def put_like(self, blocks: Iterable[Sequence[bytes]]) -> None:
        keys = [(self._keys.like(int(block, 16)), texts) for block, texts in blocks]
        await self._engine.change_all([Command(key, ("SET", key, texts)) for key, texts in keys])

    async def put_outdated(self, members: Sequence[bytes]) -> None:
        if members:
            await self._engine.change(self._keys.own("outdated"), "SADD", *members)

    async def put_runs(self, runs: bytes) -> None:
        # new runs get a folder of their own: the crawl that was copied may still use the old one, and delete it
        listed = {**json.loads(runs), "folder": ""}
        await self._engine.change(self._keys.own("runs"), "SET", json.dumps(listed))

    async def _set_hashes(self, hashes: Iterable[tuple[str, Sequence[bytes]]]) -> None:
        await self._engine.change_all([Command(key, ("HSET", key, *fields)) for key, fields in hashes])


@dataclass(slots=True)
class _Batch:
    """Records for one call of restore.lua."""

    names: list[Argument] = field(default_factory=list)
    values: list[Argument] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    parts: list[Argument] = field(default_factory=list)


class ScriptBatches:
    """Sends records of one kind at a time, in batches for each shard."""

    def __init__(self, engine: Engine, keys: Keys) -> None:
        self._engine = engine
        self._keys = keys
        self._kind = ""
        self._batches: dict[int, _Batch] = {}
        self._left = _MAX_ARGUMENTS

    async def add(
        self, shard: int, kind: str, name: Argument, value: Argument = "", parts: Sequence[Argument] = ()
    ) -> None:
        """Adds a record; may send the records that were added so far."""
        if kind != self._kind:
            await self.send()
            self._kind = kind
        batch = self._batches.setdefault(shard, _Batch())
        batch.names.append(name)
        batch.values.append(value)
        batch.counts.append(len(parts))
        batch.parts += parts
        self._left -= 2 + len(parts)
        if 2 * len(batch.names) + len(batch.parts) >= 2 * BATCH or self._left <= 0:
            await self.send()

    async def send(self) -> None:
        """Sends all records that were added."""
        calls = [
            script_call(
                "restore",
                self._keys.queue(shard),
                kind=self._kind,
                record={"name": batch.names, "value": batch.values, "n": batch.counts},
                parts=batch.parts,
            )
            for shard, batch in self._batches.items()
        ]
        self._batches.clear()
        self._left = _MAX_ARGUMENTS
        await self._engine.run_all(calls)
