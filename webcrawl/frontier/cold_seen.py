"""The cold part of the seen set: buckets in the store, for crawls that know more URLs than their engine can hold.

A mark begins with the number of its host, and a bucket is a range of marks. So a bucket has URLs of few hosts, and one
read answers for all of them. The engine keeps new marks, those that were found again, and a filter of each bucket.
add.lua asks for an answer only if a URL is not in the engine and passes the filter.

Only a full engine moves marks. A worker copies them into new parts of their buckets, puts these into the store,
replaces the buckets (merge_seen.lua), and only then removes the marks from the engine (drop_seen.lua). Buckets never
lose a mark, and merge_seen.lua refuses parts that were made from an outdated bucket. So several workers may serve one
shard, each may die at any point, and a step that is late or repeated changes nothing.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING

from cachetools import LRUCache

from webcrawl.engine.keys import Keys
from webcrawl.engine.scripts import Call, script_call
from webcrawl.errors import PartLost
from webcrawl.frontier.cold_part import FULL_SHARE, ColdPart
from webcrawl.frontier.segments import QueuePart
from webcrawl.frontier.tails import Tails

if TYPE_CHECKING:  # NumPy is slow to import, and most crawls never need it here
    from webcrawl.frontier.cold_bucket import Marks

logger = logging.getLogger(__name__)

LEAST_HOT = 100_000
"""With fewer marks in the engine (about a megabyte), a shard moves none: a move rewrites all buckets of the shard."""

KNOWN, MAYBE = 1, 2
"""Replies of is_seen.lua: in the engine, and perhaps in a cold bucket."""

_SEEN = "seen"
"""The answer for a mark that is in its bucket."""
_BUCKETS_AT_ONCE = 64
_CACHED_MARKS = 1 << 22
"""Marks of buckets that were read, 8 bytes each."""
_READS_AT_ONCE = 16
_LOOK_SECONDS = 5.0


class ColdSeen(ColdPart):
    """The cold buckets of one crawl. The verbs raise StoreError, and errors of UNAVAILABLE."""

    what = "the seen set"
    without_store = "known URLs stay in the engine"

    def __init__(
        self,
        tails: Tails,
        *,
        full_share: float = FULL_SHARE,
        least_hot: int = LEAST_HOT,
        look_seconds: float = _LOOK_SECONDS,
    ) -> None:
        super().__init__(tails, full_share)
        self._least_hot, self._look_seconds = least_hot, look_seconds
        self._parts: LRUCache[tuple[int, str], Marks] = LRUCache(_CACHED_MARKS, getsizeof=len)
        self._next: dict[int, int] = {}
        """Shard -> the bucket in the engine at which its next move begins."""
        self._counters = Counter[str]()

    def of(self, keys: Keys) -> ColdSeen:
        """Returns the cold part of another crawl of the same engine and store."""
        return self if keys == self._keys else ColdSeen(self._tails.of(keys))

    async def are_seen(self, marks: Sequence[int]) -> list[bool]:
        """Whether marks are in the seen set, in the engine or in the store."""
        states = await self._engine.run_all([seen_call(self._keys, mark) for mark in marks])
        unsure = [mark for mark, state in zip(marks, states, strict=True) if state == MAYBE]
        stored = dict(zip(unsure, await self.have(unsure), strict=True))
        return [state == KNOWN or stored.get(mark, False) for mark, state in zip(marks, states, strict=True)]

    async def have(self, marks: Sequence[int]) -> list[bool]:
        """Whether the cold buckets have marks."""
        return [answer == _SEEN for answer in await self.answers(marks, await self.parts_of(marks))]

    async def parts_of(self, marks: Sequence[int]) -> list[str]:
        """Returns the descriptors of the parts of the buckets of marks; "" for an empty bucket."""
        by_shard: dict[int, list[int]] = {}
        for index, mark in enumerate(marks):
            by_shard.setdefault(self._keys.shard_of_mark(mark), []).append(index)
        calls = [
            script_call(
                "seen_buckets", self._keys.queue(shard)[:1], url={"mark": [marks[index] for index in some]}
            )
            for shard, some in by_shard.items()
        ]
        parts = [""] * len(marks)
        for some, descriptors in zip(by_shard.values(), await self._engine.run_all(calls), strict=True):
            for index, descriptor in zip(some, descriptors, strict=True):
                parts[index] = descriptor.decode()
        return parts

    async def answers(self, marks: Sequence[int], parts: Sequence[str]) -> list[str]:
        """Returns "seen" for each mark that is in the part of its bucket, and the part's descriptor for others.

        `parts`: the descriptors of these parts.
        """
        from webcrawl.frontier.cold_bucket import have_marks

        by_part: dict[tuple[int, str], list[int]] = {}
        for index, (mark, part) in enumerate(zip(marks, parts, strict=True)):
            by_part.setdefault((self._keys.shard_of_mark(mark), part), []).append(index)
        answers = [""] * len(marks)
        room = asyncio.Semaphore(_READS_AT_ONCE)

        async def answer(part: tuple[int, str], indexes: list[int]) -> None:
            async with room:
                known = await self._part(*part)
            has = have_marks(known, [marks[index] for index in indexes])
            for index, is_seen in zip(indexes, has, strict=True):
                answers[index] = _SEEN if is_seen else part[1]
            seen = sum(has)
            self._counters.update(cold_known=seen, cold_new=len(indexes) - seen)

        for outcome in await asyncio.gather(
            *itertools.starmap(answer, by_part.items()), return_exceptions=True
        ):
            if isinstance(outcome, BaseException):
                raise outcome
        return answers

    async def _part(self, shard: int, descriptor: str) -> Marks:
        """Returns the marks of a part. A lost part has none: its URLs count as new, and are fetched again."""
        from webcrawl.frontier.cold_bucket import as_marks, unpack_marks

        if not descriptor:
            return as_marks(())
        if (known := self._parts.get((shard, descriptor))) is None:
            part = QueuePart.parse(descriptor.encode())
            try:
                known = unpack_marks(await self._tails.read_bytes(shard, part), part)
                self._counters["cold_reads"] += 1
            except PartLost as error:
                logger.error(
                    "%d URLs are no longer known, and may be fetched again: segment %s of shard %d: %s",
                    *(part.urls, part.segment, shard, error),
                )
                known = as_marks(())
            if len(known) <= _CACHED_MARKS:
                self._parts[shard, descriptor] = known
        return known

    async def all_marks(self, shard: int) -> AsyncIterator[Marks]:
        """Yields the marks of all buckets of a shard; buckets may be split and get marks meanwhile."""
        prefix, after = self._keys.queue(shard)[0], "-inf"
        while fences := await self._engine.client.zrange(
            f"{prefix}seen:cold", after, "+inf", byscore=True, offset=0, num=_BUCKETS_AT_ONCE
        ):
            for descriptor in await self._engine.run(
                script_call("seen_buckets", [prefix], url={"mark": fences})
            ):
                if descriptor:
                    yield await self._part(shard, descriptor.decode())
            after = f"({fences[-1].decode()}"

    def start(self, shards: Callable[[], Sequence[int]], counters: Counter[str] | None = None) -> None:
        """Starts a task that moves marks of these shards to the store while their servers are full.

        `counters` are the increments for the crawl's totals, which count what is read.
        """
        if counters is not None:
            self._counters = counters
        super().start(shards)

    async def _serve_once(self, shards: Sequence[int]) -> float:
        await self.spill_if_full(shards)
        return self._look_seconds

    async def spill_if_full(self, shards: Sequence[int]) -> int:
        """Moves marks to the store until the servers of these shards are no longer full; returns their number."""
        moved = 0
        while (shard := await self._fullest(shards)) is not None and (some := await self.spill(shard)):
            moved += some
        return moved

    async def _fullest(self, shards: Sequence[int]) -> int | None:
        """Returns the shard with the most marks on a full server; None without one."""
        plans = await self._full(shards)
        full = {shard: plan.hot for shard, plan in plans.items() if plan.hot >= self._least_hot}
        return max(full, key=full.__getitem__, default=None)

    async def spill(self, shard: int) -> int:
        """Moves marks of a shard to the store; returns the number that left the engine."""
        from webcrawl.frontier.cold_move import SeenMove

        move = SeenMove(self._tails, shard, self._next.get(shard, 0), self._part)
        moved = await move.run()
        self._next[shard] = move.next
        return moved


def seen_call(keys: Keys, mark: int) -> Call:
    """Returns the call that tests a mark, without a change."""
    return script_call("is_seen", keys.queue(keys.shard_of_mark(mark))[:1], mark=mark)
