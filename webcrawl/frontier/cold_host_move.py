"""Moves records of idle hosts from a full engine to the store, and forgets there; see webcrawl.frontier.cold_hosts."""

from __future__ import annotations

import asyncio
import itertools
import logging
import uuid
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import ne
from typing import Any, TypeAlias

import msgpack

from webcrawl.engine.scripts import Call, script_call
from webcrawl.errors import PartLost, StoreError
from webcrawl.frontier.credit import number_of
from webcrawl.frontier.operations import batches
from webcrawl.frontier.segments import QueuePart, pack
from webcrawl.frontier.tails import Tails
from webcrawl.stores.group_commit import batched

logger = logging.getLogger(__name__)

FACTS = ("trust", "spent", "errors", "budgets", "patterns", "dust", "unknown")
"""The hashes of a shard whose fields move, in the order of lua/common/cold_hosts.lua. New ones come last."""
HostFacts: TypeAlias = Mapping[bytes, bytes]
"""Host, or owner of a budget -> what is known of it, as MessagePack: a value or False for each of FACTS."""
FORGOTTEN = ("spent", "errors", "patterns", "dust", "unknown")
"""The facts that a crawl without end forgets of hosts without URLs, as in forget_hosts.lua."""
RECORD_VERSION = 1
DESCRIPTOR = 96
"""Bytes of the padded descriptor in front of the filter of a bucket."""
MOST_HOSTS, MOST_BYTES = 500, 1 << 16
"""A larger bucket is split: a worker reads a whole bucket for one host."""

_MOVED_AT_ONCE = 50_000
"""About the most hosts of a move."""
_BUCKETS_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class _Bucket:
    """Hosts that move to a bucket: its lower end, and that of the next bucket, or "" if there is none."""

    fence: int
    upper: int | str
    news: HostFacts


class _HostBuckets:
    """The buckets of a shard, which are read and replaced."""

    def __init__(self, tails: Tails, shard: int) -> None:
        self._tails, self._shard = tails, shard
        self._engine, self._keys = tails.engine, tails.keys
        self._prefix = tails.keys.queue(shard)[0]

    async def _all_fences(self) -> list[int]:
        """Returns the lower ends of the buckets."""
        return [
            int(fence) for fence in await self._engine.client.zrange(f"{self._prefix}records:cold", 0, -1)
        ]

    async def _descriptors(self, fences: Sequence[int]) -> list[bytes]:
        """Returns the descriptors of the parts of buckets; b"" for an empty bucket."""
        pipeline = self._engine.client.pipeline(transaction=False)
        for fence in fences:
            pipeline.getrange(f"{self._prefix}records:cold:{fence}", 0, DESCRIPTOR - 1)
        return [descriptor.rstrip() for descriptor in await pipeline.execute()]

    async def _replace(
        self, buckets: Sequence[_Bucket], descriptors: Sequence[bytes], hosts: Sequence[HostFacts]
    ) -> list[int]:
        """Gives buckets new parts with these hosts; returns how many hosts of `news` left the engine for each bucket.

        Changes no bucket that another worker has changed since the descriptors were read.
        """
        name = uuid.uuid4().hex[:16]
        content, pieces = await asyncio.to_thread(_packed, name, buckets, hosts)
        await self._tails.put_segment(self._shard, name, content)
        calls = [
            self._merge_call(name, bucket, descriptor, columns)
            for bucket, descriptor, columns in zip(buckets, descriptors, pieces, strict=True)
        ]
        return await self._engine.run_all(calls)

    def _merge_call(
        self, segment: str, bucket: _Bucket, descriptor: str | bytes, pieces: Mapping[str, Sequence[Any]]
    ) -> Call:
        return script_call(
            "merge_hosts",
            self._keys.queue(self._shard),
            segment=segment,
            fence=bucket.fence,
            upper=bucket.upper,
            descriptor=descriptor,
            piece=pieces,
            host={"name": [*bucket.news], "facts": [*bucket.news.values()]},
        )


class HostMove(_HostBuckets):
    """One move of hosts of a shard. `first`: the number of the hash of FACTS at which it begins, and a cursor there."""

    def __init__(self, tails: Tails, shard: int, first: tuple[int, bytes]) -> None:
        super().__init__(tails, shard)
        self.next = first
        """Where the next move begins."""

    async def run(self, least: int = 1) -> int:
        """Moves idle hosts to the store, if there are at least so many; returns how many left the engine."""
        hosts = await self._idle()
        if len(hosts) < least:
            return 0
        numbered = sorted((number_of(name.decode()), name, facts) for name, facts in hosts.items())
        fences, moved = await self._fences(numbered), 0
        starts = [bisect_left(numbered, (fence,)) for fence in fences]
        buckets = []
        for index, (start, end) in enumerate(itertools.pairwise([*starts, len(numbered)])):
            upper = fences[index + 1] if index + 1 < len(fences) else ""
            if start < end:
                news = {name: facts for _, name, facts in numbered[start:end]}
                buckets.append(_Bucket(fences[index], upper, news))
        for at in range(0, len(buckets), _BUCKETS_AT_ONCE):
            moved += await self._merge(buckets[at : at + _BUCKETS_AT_ONCE])
        return moved

    async def _idle(self) -> dict[bytes, bytes]:
        """Returns idle hosts from where the last move has ended, up to the end of the last hash."""
        (number, cursor), hosts = self.next, dict[bytes, bytes]()
        while number < len(FACTS) and len(hosts) < _MOVED_AT_ONCE:
            call = script_call("idle_hosts", self._keys.queue(self._shard), fact=FACTS[number], cursor=cursor)
            reply = await self._engine.run(call)
            hosts |= zip(reply.names, reply.facts, strict=True)
            cursor = reply.next_cursor
            number += cursor == b"0"
        self.next = (number, cursor) if number < len(FACTS) else (0, b"0")
        return hosts

    async def _fences(self, numbered: Sequence[tuple[int, bytes, bytes]]) -> list[int]:
        """Returns the lower ends of the buckets; makes empty buckets for these hosts if there are none."""
        if not (fences := await self._all_fences()):
            firsts = [0, *(number for number, *_ in numbered[MOST_HOSTS::MOST_HOSTS])]
            empty = [""] * len(firsts)
            pieces: dict[str, Sequence[Any]] = {"from": firsts, "part": empty, "filter": empty}
            await self._engine.run(self._merge_call("", _Bucket(0, "", {}), "", pieces))
            fences = await self._all_fences()
        return fences

    async def _merge(self, buckets: Sequence[_Bucket]) -> int:
        """Puts hosts into their buckets; returns how many left the engine."""
        descriptors = await self._descriptors([bucket.fence for bucket in buckets])
        old = await asyncio.gather(
            *(read_records(self._tails, self._shard, descriptor) for descriptor in descriptors)
        )
        hosts = [{**known, **bucket.news} for known, bucket in zip(old, buckets, strict=True)]
        return sum(await self._replace(buckets, descriptors, hosts))


class HostForgetting(_HostBuckets):
    """Drops from the store what forget_hosts.lua drops from the engine, and records of hosts that have come back.

    `swept`: lower end of a bucket -> the descriptor of its part after the last run, which is not read again.
    """

    def __init__(self, tails: Tails, shard: int, swept: dict[int, bytes]) -> None:
        super().__init__(tails, shard)
        self._swept = swept

    async def run(self) -> int:
        """Forgets in all buckets; returns how many hosts were forgotten."""
        if not (fences := await self._all_fences()):
            return 0
        uppers: list[int | str] = [*fences[1:], ""]
        buckets = [_Bucket(fence, upper, {}) for fence, upper in zip(fences, uppers, strict=True)]
        return sum([await self._sweep(some) for some in batched(buckets, _BUCKETS_AT_ONCE)])

    async def _sweep(self, buckets: Sequence[_Bucket]) -> int:
        descriptors = await self._descriptors([bucket.fence for bucket in buckets])
        changed: list[tuple[_Bucket, bytes, HostFacts, int]] = []
        for bucket, descriptor in zip(buckets, descriptors, strict=True):
            if not descriptor or self._swept.get(bucket.fence) == descriptor:
                continue
            known = await read_records(self._tails, self._shard, descriptor)
            kept, forgotten = await self._kept(known)
            if kept == known:
                self._swept[bucket.fence] = descriptor
            else:
                changed.append((bucket, descriptor, kept, forgotten))
        if not changed:
            return 0
        some, old, hosts, counts = map(list, zip(*changed, strict=True))
        await self._replace(some, old, hosts)
        new = await self._descriptors([bucket.fence for bucket in some])
        # another worker may have changed a bucket before, or a checkpoint is being written: the next run tries again
        return sum(itertools.compress(counts, map(ne, old, new)))

    async def _kept(self, known: HostFacts) -> tuple[HostFacts, int]:
        """Returns what stays of the hosts of a part, and how many hosts were forgotten.

        A host that has come back has its record in the engine, unless it is in `waking`: then this one is still needed.
        """
        kept, forgotten = dict[bytes, bytes](), 0
        for names in batches([*known]):
            reply = await self._engine.run(
                script_call("host_facts", self._keys.queue(self._shard)[:1], names=names)
            )
            for name, here, is_waking in zip(names, reply.facts, reply.waking, strict=True):
                if is_waking:
                    kept[name] = known[name]
                elif not here:
                    facts = _without_forgotten(known[name])
                    forgotten += facts != known[name]
                    if facts:
                        kept[name] = facts
        return kept, forgotten


async def read_records(tails: Tails, shard: int, descriptor: bytes) -> HostFacts:
    """Reads the hosts of a part. A lost part has none: what was known of its hosts is lost, which is logged."""
    if not descriptor:
        return {}
    try:
        entries = await tails.read(shard, descriptor)
    except PartLost as error:
        part = QueuePart.parse(descriptor)
        logger.error(
            "What was known of %d idle hosts and domains is lost: segment %s of shard %d: %s",
            *(part.urls, part.segment, shard, error),
        )
        return {}
    rows = [msgpack.unpackb(entry, raw=True) for entry in entries]
    if any(row[0] != RECORD_VERSION for row in rows):
        raise StoreError("a later version of webcrawl has written records of hosts: use that version")
    return {name: facts for _, name, facts in rows}


def _without_forgotten(facts: bytes) -> bytes:
    """Returns what stays of a host that is forgotten, packed; b"" for nothing."""
    values = dict(zip(FACTS, msgpack.unpackb(facts, raw=True), strict=False))
    kept = [value if fact not in FORGOTTEN else False for fact, value in values.items()]
    if kept == [*values.values()]:
        return facts
    # cmsgpack of the engine knows no binary data
    return msgpack.packb(kept, use_bin_type=False) if any(value is not False for value in kept) else b""


def _packed(
    name: str, buckets: Sequence[_Bucket], hosts: Sequence[HostFacts]
) -> tuple[bytes, list[dict[str, list[Any]]]]:
    """Returns a segment with these hosts of each bucket, and the pieces of each bucket for merge_hosts.lua."""
    from webcrawl.frontier.cold_bucket import as_marks, bloom_filter  # NumPy is slow to import

    cut = [[*_pieces(some)] for some in hosts]
    content, parts = pack(name, [entries for pieces in cut for _, entries in pieces])
    left = iter(parts)
    return content, [
        {
            "from": [bucket.fence, *(numbers[0] for numbers, _ in pieces[1:])],
            "part": [next(left).descriptor() for _ in pieces],
            "filter": [bloom_filter(as_marks(numbers)) for numbers, _ in pieces],
        }
        for bucket, pieces in zip(buckets, cut, strict=True)
    ]


def _pieces(hosts: HostFacts) -> Iterator[tuple[list[int], list[bytes]]]:
    """Cuts hosts into about equal pieces; yields the numbers of each, and its entries.

    Hosts with the same number stay together, because the number leads to the bucket.
    """
    rows = sorted(
        (number_of(name.decode()), msgpack.packb([RECORD_VERSION, name, facts]))
        for name, facts in hosts.items()
    )
    size = sum(len(entry) for _, entry in rows)
    count = max(-(-len(rows) // MOST_HOSTS), -(-size // MOST_BYTES))
    numbers: list[int] = []
    entries: list[bytes] = []
    had = 0
    for number, entry in rows:
        if entries and number != numbers[-1] and had >= size / count:
            yield numbers, entries
            numbers, entries, had = [], [], 0
        numbers.append(number)
        entries.append(entry)
        had += len(entry)
    yield numbers, entries
