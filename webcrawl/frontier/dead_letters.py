"""The dead letters of a crawl, in the engine and in the store of long queues."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import msgpack

from webcrawl.errors import PartLost
from webcrawl.frontier.entry import LeasedURL
from webcrawl.frontier.operations import BATCH, Operations, unpacked_letters
from webcrawl.frontier.records import DeadLetter
from webcrawl.frontier.tails import Tails
from webcrawl.urls.canonical import split

_MOST_READ = 20_000
_MOST_SAMPLES = 5
_ADDRESS = re.compile(
    r"\b[a-z][a-z0-9+.-]*://[^\s'\"<>]*[^\s'\"<>:;,.)]|\[[0-9a-fA-F:.]+\](?::\d+)?|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b"
    r"|\b(?:[\w-]+\.)+[a-z][a-z0-9-]+(?::\d+)?\b(?!\.\w|\()"
)
_ELLIPSIS = "…"


@dataclass(slots=True)
class Reason:
    """The dead letters that were read with reasons of one kind; `samples`: the first of them."""

    kind: str
    letters: int = 0
    samples: list[DeadLetter] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Reasons:
    """The reasons of dead letters, the commonest first, after `read` URLs. `complete`: all URLs were read."""

    reasons: list[Reason]
    read: int
    complete: bool


@dataclass(frozen=True, slots=True)
class CrawlDeadLetters:
    """Reads dead letters and queues them again. Methods raise StoreError while the store is unavailable."""

    operations: Operations
    tails: Tails

    async def letters(self, host: str | None = None, reason: str = "") -> AsyncIterator[DeadLetter]:
        """Yields dead letters, of one host or of all, whose reason contains a text; first those in the engine."""
        async for letter in self.operations.dead_letters(host, reason):
            yield letter
        async for letter in self._spilled.letters(host, reason):
            yield letter

    async def by_reason(self, host: str | None = None, reason: str = "", most: int = _MOST_READ) -> Reasons:
        """Returns the reasons of the first `most` URLs with dead letters, and samples."""
        reasons: dict[str, Reason] = {}
        read = 0
        async for letters in self._by_url(host, reason):
            if read >= most:
                return Reasons(_commonest_first(reasons), read, complete=False)
            read += 1
            for letter in letters:
                kind = kind_of(letter.reason)
                counted = reasons.setdefault(kind, Reason(kind))
                counted.letters += 1
                if len(counted.samples) < _MOST_SAMPLES:
                    counted.samples.append(letter)
        return Reasons(_commonest_first(reasons), read, complete=True)

    async def _by_url(self, host: str | None, reason: str) -> AsyncIterator[list[DeadLetter]]:
        """Yields the wanted letters of each URL with dead letters; an empty list for another host."""
        keys = self.operations.keys
        for shard in range(keys.shards) if host is None else [keys.shard(host)]:
            async for url, value in self.operations.packed_letters(shard):
                yield list(unpacked_letters(url, value, host, reason))
        async for letter in self._spilled.letters(host, reason):
            yield [letter]

    async def requeue(self, host: str | None = None, reason: str = "", kind: str = "") -> int:
        """Queues dead letters again, with their attempts at zero; returns their number.

        With `kind`, only letters whose reason is of this kind.
        """
        part = max(kind.split(_ELLIPSIS), key=len) if kind else reason

        def is_wanted(text: str) -> bool:
            return reason in text and kind in ("", kind_of(text))

        # before the engine: workers may move letters from the store to the engine meanwhile
        queued = await self._spilled.requeue(host, part, is_wanted)
        batch = set[tuple[str, str]]()
        async for letter in self.operations.dead_letters(host, part):
            if is_wanted(letter.reason):
                batch.add((split(letter.url)[0], letter.url))
            if len(batch) >= BATCH:
                queued += await self.operations.requeue(batch, part)
                batch.clear()
        return queued + await self.operations.requeue(batch, part)

    @property
    def _spilled(self) -> SpilledDeadLetters:
        return SpilledDeadLetters(self.operations, self.tails)


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
        """Queues dead letters with wanted reasons again, part by part; returns their number."""
        queued = 0
        async for part in self._parts(host, reason):
            if not is_wanted(part.reason):
                continue
            entries = await self.tails.bury(part.shard, part.letter, part.descriptor)
            urls = {LeasedURL.decode(0, part.host, entry).url for entry in entries}
            queued += await self.operations.requeue(((part.host, url) for url in urls), part.reason)
        return queued

    async def _parts(self, host: str | None, reason: str) -> AsyncIterator[SpilledPart]:
        """Yields the current parts from the end of the list, so that removals meanwhile hide no part."""
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


def kind_of(reason: str) -> str:
    """Returns a reason without the addresses in it, so that many hosts share the same reason."""
    return _ADDRESS.sub(_ELLIPSIS, reason)


def _commonest_first(reasons: dict[str, Reason]) -> list[Reason]:
    return sorted(reasons.values(), key=lambda reason: (-reason.letters, reason.kind))
