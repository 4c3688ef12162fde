"""Reads the URLs of a shard that wait, are leased, or were given up or dropped.

The shard is held as for a checkpoint (webcrawl.frontier.checkpoint.export): entries that leave their lists meanwhile
are written to a journal, which is read last. So an entry that was in the shard when the hold began is found, wherever
workers move it. All URLs are written to a temporary file first, because the hold should not last until a slow reader
has taken them. Only a digest of each URL is in memory, to find URLs that were read several times.
"""

from __future__ import annotations

import asyncio
import itertools
from array import array
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import IO, Any, NamedTuple

import msgpack
import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from webcrawl.engine.client import UNAVAILABLE, Engine
from webcrawl.engine.keys import Keys, host_of
from webcrawl.engine.lock import renewed
from webcrawl.errors import StoreError
from webcrawl.frontier.checkpoint.hold import HOLD_SECONDS, hold
from webcrawl.frontier.checkpoint.queue_copy import QueueCopy
from webcrawl.frontier.entry import LeasedURL
from webcrawl.frontier.operations import BATCH
from webcrawl.frontier.tails import Tails
from webcrawl.urls.canonical import split

_LOOK_SECONDS = 1.0
_LEASES_AT_ONCE = 200


class EngineURL(NamedTuple):
    """A URL in the engine. Times are ms since 1970 by the clock of its server."""

    url: str
    state: str
    """queued, waiting, scheduled, leased, dead or dropped."""
    level: int | None = None
    depth: int | None = None
    referrer: str | None = None
    attempts: int | None = None
    due: int | None = None
    """When a waiting or scheduled URL will be queued again."""
    time: int | None = None
    """When a dead or dropped URL was given up or dropped."""
    reason: str | None = None
    queued: int | None = None
    """When the URL was first queued, by the clock of the worker that found it; None if unknown."""


class ShardURLs:
    """The URLs of a shard in a file, and a digest of each in memory."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._digests = array("Q")

    def add(self, urls: Sequence[EngineURL], *, last: bool = False) -> None:
        """Adds URLs. Of two states of a URL, the first counts; states added with `last` come after all others."""
        self._digests.extend(digest_of(url.url) for url in urls)
        self._file.write(msgpack.packb((last, urls)))

    def batches(self) -> Iterator[list[EngineURL]]:
        """Yields all URLs, each once, as they were added."""
        digests, times = np.unique(np.frombuffer(self._digests, np.uint64), return_counts=True)
        several, met = {*digests[times > 1].tolist()}, set[str]()
        for urls in itertools.chain(self._added(last=False), self._added(last=True)):
            batch = []
            for url in itertools.starmap(EngineURL, urls):
                if several and digest_of(url.url) in several:
                    if url.url in met:
                        continue
                    met.add(url.url)
                batch.append(url)
            yield batch

    def _added(self, *, last: bool) -> Iterator[list[Any]]:
        self._file.seek(0)
        for is_last, urls in msgpack.Unpacker(self._file, max_buffer_size=0):
            if is_last == last:
                yield urls

    def digests(self) -> NDArray[np.uint64]:
        """Returns the digest of each URL, sorted."""
        return np.unique(np.frombuffer(self._digests, np.uint64))


@dataclass(slots=True)
class EngineURLs:
    """Reads shards; `name` identifies this reader. With `host`, only the URLs of that host.

    `waiting` is called with the name of another process that copies the crawl, while this process waits for it.
    """

    engine: Engine
    keys: Keys
    tails: Tails
    name: str
    host: str | None = None
    waiting: Callable[[str], None] = lambda _: None
    lost: int = 0
    """The number of URLs in damaged or missing parts of the store."""
    _ahead: int = field(default=0, init=False)
    _overtaken: list[tuple[bytes, bytes]] = field(default_factory=list, init=False)

    async def read(self, shard: int, file: IO[bytes]) -> ShardURLs:
        """Reads the URLs of a shard into an empty file.

        Raises StoreError if the hold was lost, or if a server of the engine was replaced meanwhile.
        """
        shard_urls = ShardURLs(file)
        async with self._held(shard):
            noted = await self.engine.client.get(self.keys.clock(shard))
            self._ahead = int(noted.split()[1]) if noted else 0
            async for urls in self._urls(shard):
                shard_urls.add(urls)
                self._add_overtaken(shard_urls)
            self._add_overtaken(shard_urls)
        return shard_urls

    def _add_overtaken(self, shard_urls: ShardURLs) -> None:
        """Adds URLs that were queued again, because their better entries may have been added too late to be read."""
        if self._overtaken:
            urls = [engine_url("queued", host, entry) for host, entry in self._overtaken]
            shard_urls.add(urls, last=True)
            self._overtaken.clear()

    @asynccontextmanager
    async def _held(self, shard: int) -> AsyncIterator[None]:
        last_holder = ""
        while (holder := (await self._hold("begin", shard))) != self.name:
            if holder != last_holder:
                self.waiting(holder)
                last_holder = holder
            await asyncio.sleep(_LOOK_SECONDS)
        servers = await self.engine.servers()
        try:
            async with renewed(lambda: self._hold("renew", shard), HOLD_SECONDS):
                yield
        except BaseException:
            with suppress(*UNAVAILABLE):
                await self._hold("end", shard)
            raise
        if await self._hold("end", shard) != self.name or await self.engine.servers() != servers:
            raise StoreError("the engine was restarted, replaced or cleared while it was read: read it again")

    async def _hold(self, step: str, shard: int) -> str:
        return (await hold(self.engine, self.keys, step, self.name, [shard]))[0]

    async def _urls(self, shard: int) -> AsyncIterator[list[EngineURL]]:
        prefix, client = self.keys.queue(shard)[0], self.engine.client
        for name, state in (("later", "waiting"), ("scheduled", "scheduled")):
            async for members in self._scanned(client.zscan, prefix + name):
                yield [
                    self._delayed(state, member, due) for member, due in members if self._is_wanted(member)
                ]
        async for urls in self._queues(shard, prefix):
            yield urls
        async for leases in self._scanned(client.zscan, prefix + "leases"):
            for start in range(0, len(leases), _LEASES_AT_ONCE):
                yield await self._leased(
                    prefix, [host for host, _ in leases[start : start + _LEASES_AT_ONCE]]
                )
        async for dropped in self._scanned(client.hscan, prefix + "dropped"):
            yield [
                EngineURL(url.decode(), "dropped", time=int(time))
                for url, time in dropped.items()
                if self._is_of_host(url)
            ]
        async for letters in self._scanned(client.hscan, prefix + "dead"):
            yield [self._dead(url, packed) for url, packed in letters.items() if self._is_of_host(url)]
        length = await client.llen(prefix + "moved")
        for start in range(0, length, BATCH):
            lines = await client.lrange(prefix + "moved", start, min(start + BATCH, length) - 1)
            # an entry that is only in the journal was handed to a worker meanwhile
            moved = [line.split(b"\n", 1) for line in lines]
            yield [engine_url("leased", host, entry) for host, entry in moved if self._is_host(host)]

    async def _queues(self, shard: int, prefix: str) -> AsyncIterator[list[EngineURL]]:
        queues = QueueCopy(self.engine, self.keys, self.tails, shard, BATCH, live_only=True)
        self._overtaken = queues.overtaken
        async for hosts in self._hosts(prefix):
            async for batch in queues.hosts(hosts):
                yield [engine_url("queued", host, entry) for host, entries in batch for entry in entries]
        async for host, reason, entries in queues.condemned():
            if self._is_host(host):
                why = reason.decode(errors="replace")
                yield [engine_url("dead", host, entry, reason=why) for entry in entries]
        self.lost += queues.lost

    async def _hosts(self, prefix: str) -> AsyncIterator[list[bytes]]:
        """Yields hosts with queues in batches; a host may come twice."""
        if self.host is not None:
            yield [self.host.encode()]
            return
        async for names in self._scanned(self.engine.client.hscan, prefix + "queued"):
            yield [host_of(name) for name in names]

    async def _leased(self, prefix: str, hosts: list[bytes]) -> list[EngineURL]:
        wanted = [host for host in hosts if self._is_host(host)]
        leases = await self.engine.hashes(f"{prefix}lease:{host.decode()}" for host in wanted)
        return [
            engine_url("leased", host, entry)
            for host, lease in zip(wanted, leases, strict=True)
            for index, entry in lease.items()
            if index.isdigit()
        ]

    def _delayed(self, state: str, member: bytes, due: float) -> EngineURL:
        head, _, entry = member.partition(b"\n")
        return engine_url(state, head.partition(b" ")[2], entry, due=int(due) - self._ahead)

    @staticmethod
    def _dead(url: bytes, packed: bytes) -> EngineURL:
        reason, time, entry = msgpack.unpackb(packed, raw=True)[-1]
        host = split(url.decode())[0].encode()
        return engine_url("dead", host, entry, time=int(time), reason=reason.decode(errors="replace"))

    async def _scanned(self, command: Callable[..., Any], key: str) -> AsyncIterator[Any]:
        """Yields the members of a large key in batches."""
        cursor = 0
        while True:
            cursor, members = await command(key, cursor=cursor, count=BATCH)
            if members:
                yield members
            if not cursor:
                return

    def _is_host(self, host: bytes) -> bool:
        return self.host is None or host.decode() == self.host

    def _is_of_host(self, url: bytes) -> bool:
        return self.host is None or url.startswith(f"{self.host}/".encode())

    def _is_wanted(self, member: bytes) -> bool:
        return self._is_host(member.partition(b"\n")[0].partition(b" ")[2])


def digest_of(url: str) -> int:
    """Returns 64 bits that stand for a URL."""
    return xxh3_64_intdigest(url.encode())


def engine_url(state: str, host: bytes, entry: bytes, **more: Any) -> EngineURL:
    """Returns the URL of an entry."""
    url = LeasedURL.decode(0, host.decode(), entry)
    queued = None if url.queued_at is None else round(url.queued_at * 1000)
    about = url.url, state, url.level, url.depth, url.referrer, url.attempts
    return EngineURL(*about, queued=queued, **more)
