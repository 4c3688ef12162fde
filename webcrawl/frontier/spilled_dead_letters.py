"""Dead letters in the store: when a host with a long queue is given up, the engine keeps only some of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import msgpack

from webcrawl.errors import PartLost
from webcrawl.frontier.entry import LeasedURL
from webcrawl.frontier.operations import BATCH, Operations
from webcrawl.frontier.records import DeadLetter
from webcrawl.frontier.tails import Tails


@dataclass(frozen=True, slots=True)
class SpilledPart:
    """A part of the queue of a given-up host. `letter` is its element of the list "condemned"."""

    shard: int
    letter: bytes
    host: str
    reason: str
    time: float
    descriptor: bytes


@dataclass(frozen=True, slots=True)
class SpilledDeadLetters:
    """Reads and requeues the dead letters in the store. Raises StoreError if it is unavailable."""

    operations: Operations
    tails: Tails

    async def letters(self, host: str | None = None, reason: str = "") -> AsyncIterator[DeadLetter]:
        """Yields dead letters like Operations.dead_letters; skips damaged and missing parts."""
        async for part in self._parts(host, reason):
            try:
                entries = await self.tails.read(part.shard, part.descriptor)
            except PartLost:
                continue
            for url in (LeasedURL.decode(0, part.host, entry) for entry in entries):
                yield DeadLetter(url.url, part.reason, part.time, url.attempts, url.queued_at)

    async def requeue(
        self, host: str | None = None, reason: str = "", is_wanted: Callable[[str], bool] = lambda _: True
    ) -> int:
        """Queues dead letters with wanted reasons again, part by part; returns how many."""
        queued = 0
        async for part in self._parts(host, reason):
            if not is_wanted(part.reason):
                continue
            entries = await self.tails.bury(part.shard, part.letter, part.descriptor)
            urls = {LeasedURL.decode(0, part.host, entry).url for entry in entries}
            queued += await self.operations.requeue(((part.host, url) for url in urls), part.reason)
        return queued

    async def _parts(self, host: str | None, reason: str) -> AsyncIterator[SpilledPart]:
        """Yields the current parts, from the end of the list, so that removals meanwhile hide none."""
        keys, client = self.operations.keys, self.operations.engine.client
        for shard in range(keys.shards) if host is None else [keys.shard(host)]:
            name = f"{keys.queue(shard)[0]}condemned"
            end = await client.llen(name)
            while end > 0:
                start = max(0, end - BATCH)
                for letter in reversed(await client.lrange(name, start, end - 1)):
                    owner, why, descriptor, time = msgpack.unpackb(letter, raw=True)
                    part = SpilledPart(shard, letter, owner.decode(), why.decode(), time / 1000, descriptor)
                    if host in (None, part.host) and reason in part.reason:
                        yield part
                end = start
