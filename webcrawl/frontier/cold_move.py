"""Moves marks of the seen set from a full engine to the store; see webcrawl.frontier.cold_seen."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from webcrawl.engine.scripts import Call, script_call
from webcrawl.errors import PartLost
from webcrawl.frontier.cold_bucket import (
    LEAST_MARK,
    Marks,
    as_marks,
    bloom_filter,
    pack_marks,
    pieces_of,
    unpack_marks,
)
from webcrawl.frontier.operations import BATCH
from webcrawl.frontier.segments import QueuePart
from webcrawl.frontier.tails import Tails
from webcrawl.stores.group_commit import batched

_MARKS_AT_ONCE = 1 << 22
"""The most marks that move at once: a worker needs about 150 MB for them."""
_BUCKETS_AT_ONCE = 64


class SeenMove:
    """One move of marks of a shard, from its bucket number `first` in the engine on.

    `lost` returns the marks of a part whose segment is damaged or missing.
    """

    def __init__(
        self, tails: Tails, shard: int, first: int, lost: Callable[[int, str], Awaitable[Marks]]
    ) -> None:
        self._tails, self._shard, self._first, self._lost = tails, shard, first, lost
        self._engine, self._keys = tails.engine, tails.keys
        self._prefix = tails.keys.queue(shard)[0]
        self._segment = ""
        """The last segment with parts in use."""
        self.next = 0
        """The bucket in the engine at which the next move begins."""

    async def run(self) -> int:
        """Moves marks to the store, and returns the number that left the engine.

        Marks of leased hosts stay, unless they are the majority.
        """
        hot = await self._read_hot()
        chosen = await self._without_leased(np.unique(hot.marks))
        if not len(chosen):
            return 0
        return await self._drop(hot, await self.store(chosen))

    async def store(self, marks: Marks) -> Marks:
        """Adds marks to the cold buckets; returns those that are there now. Another worker may have prevented some."""
        fences = await self._fences(marks)
        stored = [as_marks(())]
        for news in batched(_ranges(fences, marks), _BUCKETS_AT_ONCE):
            stored += itertools.compress((some.marks for some in news), await self._merge(news))
        return np.concatenate(stored)

    async def _read_hot(self) -> _HotMarks:
        """Returns the marks of the next buckets in the engine."""
        plan, read = await self._engine.run(script_call("plan_seen", [self._prefix])), 0
        numbers: list[int] = []
        pieces: list[Marks] = []
        for start in range(self._first, plan.buckets, _BUCKETS_AT_ONCE):
            some = range(start, min(start + _BUCKETS_AT_ONCE, plan.buckets))
            pipeline = self._engine.client.pipeline(transaction=False)
            for number in some:
                pipeline.smembers(f"{self._prefix}seen:{number}")
            pieces += map(as_marks, await pipeline.execute())
            numbers += some
            read += sum(map(len, pieces[-len(some) :]))
            if read >= _MARKS_AT_ONCE and some.stop < plan.buckets:
                self.next = some.stop
                break
        return _HotMarks(numbers, pieces)

    async def _without_leased(self, marks: Marks) -> Marks:
        """Returns the marks of idle hosts, because links to leased hosts are found now; all marks if these are few."""
        leased = await self._engine.client.zrange(f"{self._prefix}leases", 0, -1)
        hosts = {self._keys.mark(host.decode(), 0) >> 48 for host in leased}
        idle = marks[~np.isin(marks >> 48, list(hosts))]
        return idle if 2 * len(idle) >= len(marks) else marks

    async def _fences(self, marks: Marks) -> Marks:
        """Returns the lower ends of the cold buckets; makes empty buckets for these marks if there are none."""
        directory = f"{self._prefix}seen:cold"
        if not await self._engine.client.exists(directory):
            starts = [LEAST_MARK, *(int(piece[0]) for piece in itertools.islice(pieces_of(marks), 1, None))]
            empty: dict[str, Sequence[Any]] = {
                "from": starts,
                "part": [""] * len(starts),
                "filter": [""] * len(starts),
            }
            await self._engine.run(self._merge_call("", _Range(LEAST_MARK, "", marks[:0]), "", empty))
        return as_marks(await self._engine.client.zrange(directory, 0, -1))

    async def _merge(self, news: Sequence[_Range]) -> list[bool]:
        """Adds marks to their buckets; returns for each bucket whether it has them now."""
        replies = await self._engine.run(
            script_call("seen_buckets", [self._prefix], url={"mark": [some.fence for some in news]})
        )
        descriptors = [descriptor.decode() for descriptor in replies]
        old = await self._old_marks(descriptors)
        name = uuid.uuid4().hex[:16]
        content, pieces = await asyncio.to_thread(_merged, name, old, news)
        await self._tails.put_segment(self._shard, name, content)
        calls = [
            self._merge_call(name, some, descriptor, columns)
            for some, descriptor, columns in zip(news, descriptors, pieces, strict=True)
        ]
        replies = await self._engine.run_all(calls)
        if any(replies):
            self._segment = name
        return [bool(reply) for reply in replies]

    async def _old_marks(self, descriptors: Sequence[str]) -> list[Marks]:
        """Reads the parts of buckets. Neighbouring parts of a segment are read together."""
        parts = [QueuePart.parse(text.encode()) if text else None for text in descriptors]
        old = [as_marks(())] * len(parts)
        spans: list[list[int]] = []
        for index, part in enumerate(parts):
            before = parts[index - 1] if index else None
            if (
                part
                and before
                and (before.segment, before.offset + before.length) == (part.segment, part.offset)
            ):
                spans[-1].append(index)
            elif part:
                spans.append([index])
        for span in spans:
            some = [part for index in span if (part := parts[index])]
            whole = QueuePart(some[0].segment, some[0].offset, sum(part.length for part in some), 0, "")
            try:
                raw = await self._tails.read_bytes(self._shard, whole)
                for index, part in zip(span, some, strict=True):
                    start = part.offset - whole.offset
                    old[index] = unpack_marks(raw[start : start + part.length], part)
            except PartLost:
                # reads each part alone, and logs the lost ones
                for index in span:
                    old[index] = await self._lost(self._shard, descriptors[index])
        return old

    def _merge_call(
        self, segment: str, some: _Range, descriptor: str, pieces: Mapping[str, Sequence[Any]]
    ) -> Call:
        return script_call(
            "merge_seen",
            self._keys.queue(self._shard),
            segment=segment,
            fence=some.fence,
            upper=some.upper,
            descriptor=descriptor,
            piece=pieces,
        )

    async def _drop(self, hot: _HotMarks, stored: Marks) -> int:
        """Removes marks that are in the store from the engine; returns the number that was removed."""
        calls: list[Call] = []
        dropped = 0
        marks = hot.marks
        at = np.minimum(np.searchsorted(stored, marks), max(0, len(stored) - 1))
        is_stored = stored[at] == marks if len(stored) else np.zeros(len(marks), np.bool_)
        ends = np.cumsum([len(piece) for piece in hot.pieces])
        for number, piece, there in zip(hot.buckets, hot.pieces, np.split(is_stored, ends[:-1]), strict=True):
            calls += [
                script_call("drop_seen", [self._prefix], bucket=number, segment=self._segment, marks=gone)
                for gone in batched(piece[there].tolist(), BATCH)
            ]
        for some in batched(calls, _BUCKETS_AT_ONCE):
            dropped += sum(await self._engine.run_all(some))
        return dropped


@dataclass(frozen=True, slots=True)
class _Range:
    """New marks of a cold bucket: its lower end, and that of the next bucket, or "" if there is none."""

    fence: int
    upper: int | str
    marks: Marks


@dataclass(frozen=True, slots=True)
class _HotMarks:
    """Buckets in the engine, by number, and the marks of each."""

    buckets: list[int]
    pieces: list[Marks]

    @property
    def marks(self) -> Marks:
        return np.concatenate([as_marks(()), *self.pieces])


def _ranges(fences: Marks, marks: Marks) -> Iterator[_Range]:
    """Yields the new marks of each bucket that gets some."""
    # by doubles, like the engine
    starts = np.searchsorted(marks.astype(np.float64), fences.astype(np.float64), side="left")
    ends = [*starts[1:].tolist(), len(marks)]
    for number, (start, end) in enumerate(zip(starts.tolist(), ends, strict=True)):
        if start < end:
            upper = int(fences[number + 1]) if number + 1 < len(fences) else ""
            yield _Range(int(fences[number]), upper, marks[start:end])


def _merged(
    name: str, old: Sequence[Marks], news: Sequence[_Range]
) -> tuple[bytes, list[dict[str, list[Any]]]]:
    """Returns a segment with the merged buckets, and the pieces of each bucket for merge_seen.lua."""
    buckets = [[*pieces_of(np.union1d(known, some.marks))] for known, some in zip(old, news, strict=True)]
    content, parts = pack_marks(name, [piece for pieces in buckets for piece in pieces])
    left = iter(parts)
    return content, [
        {
            "from": [some.fence, *(int(piece[0]) for piece in pieces[1:])],
            "part": [part.descriptor() for _, part in zip(pieces, left, strict=False)],
            "filter": [bloom_filter(piece) for piece in pieces],
        }
        for some, pieces in zip(news, buckets, strict=True)
    ]
