"""Dead letters that stay in the store: of a host that was given up with a long queue, the engine keeps only a part."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import msgpack

from webcrawl.errors import PartLost
from webcrawl.frontier.entry import LeasedURL
from webcrawl.frontier.operations import BATCH, Operations
from webcrawl.frontier.records import DeadLetter
from webcrawl.frontier.tails import Tails


@dataclass(frozen=True, slots=True)
class SpilledPart:
    """A part of a given-up host's queue. `letter` is the element of "condemned" that tells of it."""

    shard: int
    letter: bytes
    host: str
    reason: str
    time: float
    descriptor: bytes


@dataclass(frozen=True, slots=True)
class SpilledDeadLetters:
    """What is told of dead letters in the store. Raises StoreError while it is away."""

    operations: Operations
    tails: Tails

    async def letters(self, host: str | None = None, reason: str = "") -> AsyncIterator[DeadLetter]:
        """As Operations.dead_letters; what is damaged or missing is left out."""
        async for part in self._parts(host, reason):
            try:
                entries = await self.tails.read(part.shard, part.descriptor)
            except PartLost:
                continue
            for url in (LeasedURL.decode(0, part.host, entry) for entry in entries):
                yield DeadLetter(url.url, part.reason, part.time, url.attempts)

    async def requeue(self, host: str | None = None, reason: str = "") -> int:
        """Queue them again, one part after the other; returns how many."""
        queued = 0
        async for part in self._parts(host, reason):
            entries = await self.tails.bury(part.shard, part.letter, part.descriptor)
            urls = {LeasedURL.decode(0, part.host, entry).url for entry in entries}
            queued += await self.operations.requeue(((part.host, url) for url in urls), part.reason)
        return queued

    async def _parts(self, host: str | None, reason: str) -> AsyncIterator[SpilledPart]:
        """Those that there are now; what is taken off the list meanwhile does not hide others."""
        keys, client = self.operations.keys, self.operations.engine.client
        for shard in range(keys.shards) if host is None else [keys.shard(host)]:
            name = f"{keys.queue(shard)[0]}condemned"
            end = await client.llen(name)
            while end > 0:
                start = max(0, end - BATCH)
                for letter in reversed(await client.lrange(name, start, end - 1)):
                    whose, why, descriptor, time = msgpack.unpackb(letter, raw=True)
                    part = SpilledPart(shard, letter, whose.decode(), why.decode(), time / 1000, descriptor)
                    if host in (None, part.host) and reason in part.reason:
                        yield part
                end = start
