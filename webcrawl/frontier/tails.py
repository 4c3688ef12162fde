"""Tails of long queues: spilled to the store, and read back before they are needed.

Several workers may serve one shard, and each may die at any point. An outbox loses only entries that were written, and
a hot list accepts only its next part. So a step that is late or repeated changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any

from webcrawl.config import OBJECT_STORES
from webcrawl.engine.backoff import Polling, ended
from webcrawl.engine.client import UNAVAILABLE, Engine
from webcrawl.engine.keys import Keys
from webcrawl.engine.scripts import script_call
from webcrawl.errors import ConfigurationError, NoSuchObject, PartLost, StoreError
from webcrawl.frontier.crawl import Crawl
from webcrawl.frontier.segments import QueuePart, pack, read_part
from webcrawl.stores.objects.store import ObjectStore, open_store

logger = logging.getLogger(__name__)

KEPT_SECONDS = 600.0
"""Seconds for which an unused segment is kept, because an engine that lost its last writes may still refer to it."""

_SEGMENT_URLS = 1000
_READS_AT_ONCE = 16
_POLL_SECONDS, _LONGEST_POLL = 0.25, 1.0
_LONGEST_HOLD = 5.0
_MARKER = "segments of one crawl"
_OF_PLANS = ("spilling", "hungry", "condemned", "unused")
"""The keys of a shard from which plan_spill.lua makes a plan."""


@dataclass(frozen=True, slots=True)
class SpillPlan:
    """The spill work of a shard, which may be done late, twice or never; see plan_spill.lua."""

    shard: int
    segment: str
    writes: Sequence[tuple[bytes, list[bytes]]]
    """Parts to write: queue, entries."""
    reads: Sequence[tuple[bytes, bytes]]
    """Parts to read: queue, descriptor."""
    burials: Sequence[tuple[bytes, bytes]]
    """Parts whose URLs become dead letters: letter, descriptor."""
    unused: Sequence[bytes]
    """Segments to delete."""

    def __bool__(self) -> bool:
        return bool(self.writes or self.reads or self.burials or self.unused)


class Tails:
    """The tails of one crawl's queues. `uri` names an object store; None spills nothing.

    The verbs raise StoreError if the store is unavailable, and errors of UNAVAILABLE if the engine is.
    """

    def __init__(
        self,
        engine: Engine,
        keys: Keys,
        crawl: Crawl,
        uri: str | None,
        object_stores: Mapping[str, str] = OBJECT_STORES,
        *,
        kept_seconds: float = KEPT_SECONDS,
    ) -> None:
        self.engine = engine
        self.keys = keys
        self._crawl = crawl
        self._uri = uri
        self._object_stores = object_stores
        self._kept_ms = int(kept_seconds * 1000)
        self._opened: ObjectStore | None = None
        self._serving: asyncio.Task[None] | None = None

    @property
    def has_store(self) -> bool:
        """Whether anything can be spilled."""
        return self._uri is not None

    def of(self, keys: Keys) -> Tails:
        """Returns the tails of another crawl of the same engine and store."""
        return Tails(self.engine, keys, replace(self._crawl, keys=keys), self._uri, self._object_stores)

    async def check(self) -> None:
        """Raises StoreError for an unusable store, and ConfigurationError for a store without the crawl's segments.

        A worker with another store would count the segments as lost.
        """
        if self._uri is None:
            if await self._has_segments():
                raise ConfigurationError(
                    f"crawl {self.keys.crawl!r} has parts of its frontier in a store: set FRONTIER_SPILL_URI to it"
                )
            return
        store, folder = await self._store(), await self._crawl.tails()
        try:
            if folder is None or await asyncio.to_thread(store.size, f"{folder}/{_MARKER}") is not None:
                return
            if not await self._has_segments():
                await asyncio.to_thread(store.put, f"{folder}/{_MARKER}", b"")
                return
        except StoreError as error:
            logger.warning("FRONTIER_SPILL_URI %s: %s; hosts with long queues wait", store.uri(), error)
            return
        raise ConfigurationError(
            f"FRONTIER_SPILL_URI {store.uri()}: the folder {folder!r} with parts of the frontier of crawl "
            f"{self.keys.crawl!r} is missing. All workers need the same store."
        )

    async def clear(self, folder: str | None) -> None:
        """Deletes the segments of a cleared crawl; logs a warning if that fails."""
        if folder is None or self._uri is None:
            return
        try:
            store = await self._store()
            await asyncio.to_thread(store.delete_folder, folder)
        except StoreError as error:
            logger.warning("The segments in %s of %s were not deleted: %s", folder, self._uri, error)

    async def read(self, shard: int, descriptor: bytes) -> list[bytes]:
        """Returns the entries of a part; raises PartLost if it is damaged or missing."""
        return await self._part(await self._shard_folder(shard), descriptor)

    async def write(self, shard: int, entries: Sequence[bytes]) -> bytes:
        """Writes entries as the only part of a new segment; returns the descriptor of the part.

        The segment is unused, and so deleted after a while, until a script puts the part into a queue.
        """
        name = uuid.uuid4().hex[:16]
        content, [part] = pack(name, [entries])
        await self.put_segment(shard, name, content)
        return part.descriptor()

    async def put_segment(self, shard: int, name: str, content: bytes) -> None:
        """Writes a new segment, which is deleted after a while unless a script uses it."""
        store, folder = await self._store(), await self._shard_folder(shard)
        await self._check_folder(store, folder)
        await self.engine.run(script_call("announce", self.keys.queue(shard)[:1], name=name))
        await asyncio.to_thread(store.put, f"{folder}/{name}", content)

    async def read_bytes(self, shard: int, part: QueuePart) -> bytes:
        """Returns the bytes of a part as they are in its segment; raises PartLost if the segment does not exist."""
        store, folder = await self._store(), await self._shard_folder(shard)
        try:
            return await asyncio.to_thread(store.read, f"{folder}/{part.segment}", part.offset, part.length)
        except NoSuchObject as error:
            await self._check_folder(store, folder)
            raise PartLost("it does not exist") from error

    async def bury(self, shard: int, letter: bytes, descriptor: bytes) -> list[bytes]:
        """Makes dead letters of a part in the engine; returns its entries, or [] if the part is lost."""
        folder = await self._shard_folder(shard)
        entries = await self._read(folder, descriptor, b"a host that was given up")
        call = script_call(
            "bury_part",
            self.keys.queue(shard),
            letter=letter,
            state="lost" if entries is None else "found",
            entries=entries or [],
        )
        await self.engine.run(call)
        return entries or []

    async def _with_work(self, shards: Sequence[int]) -> list[int]:
        """Returns the shards for which there may be a plan; a look is much cheaper than a plan."""
        groups = [[self.keys.queue(shard)[0] + name for name in _OF_PLANS] for shard in shards]
        return list(compress(shards, await self.engine.any_exist(groups)))

    async def plan(self, shards: Sequence[int]) -> list[SpillPlan]:
        """Returns the spill work of these shards."""
        names = [uuid.uuid4().hex[:16] for _ in shards]
        calls = [
            script_call(
                "plan_spill",
                self.keys.queue(shard),
                name=name,
                most_urls=_SEGMENT_URLS,
                most_parts=_READS_AT_ONCE,
                kept_ms=self._kept_ms,
            )
            for shard, name in zip(shards, names, strict=True)
        ]
        replies = await self.engine.run_all(calls)
        return [
            SpillPlan(
                shard, name, _pairs(reply.writes), _pairs(reply.reads), _pairs(reply.burials), reply.unused
            )
            for shard, name, reply in zip(shards, names, replies, strict=True)
        ]

    async def carry_out(self, plan: SpillPlan) -> None:
        """Reads parts that hosts wait for, writes outboxes, and deletes unused segments."""
        folder = await self._shard_folder(plan.shard)
        await _all(self._refill(plan.shard, folder, queue, descriptor) for queue, descriptor in plan.reads)
        await _all(self.bury(plan.shard, letter, descriptor) for letter, descriptor in plan.burials)
        if plan.writes:
            await self._write(plan, folder)
        if plan.unused:
            store = await self._store()
            await _all(asyncio.to_thread(store.delete, f"{folder}/{name.decode()}") for name in plan.unused)
            await self.engine.change(f"{self.keys.queue(plan.shard)[0]}unused", "ZREM", *plan.unused)

    def start(
        self, shards: Callable[[], Sequence[int]], idle_seconds: Callable[[], float] = lambda: 0.0
    ) -> None:
        """Starts a task that serves the tails of these shards, outside the worker's loop, as a store may be slow.

        `idle_seconds` returns for how long the worker has been idle.
        """
        if self._uri is not None:
            polling = Polling(idle_seconds, _POLL_SECONDS, _LONGEST_POLL)
            self._serving = asyncio.create_task(self._serve(shards, polling))

    async def stop(self) -> None:
        """Stops the task. Unfinished work is planned again later."""
        if self._serving is not None:
            await ended(self._serving)

    async def _serve(self, shards: Callable[[], Sequence[int]], polling: Polling) -> None:
        """Serves tails until it is cancelled, and continues after any failure."""
        hold = 0.0
        while True:
            try:
                plans = [plan for plan in await self.plan(await self._with_work(shards())) if plan]
                await _all(self.carry_out(plan) for plan in plans)
                if hold and plans:
                    logger.warning("The store of queues is available again; the crawl continues.")
                    hold = 0.0
                if plans:
                    continue
                polling.polled()
                while not polling.is_due:
                    await asyncio.sleep(_POLL_SECONDS)
            except UNAVAILABLE:
                # the worker's loop logs the error
                await asyncio.sleep(_LONGEST_HOLD / 5)
            except StoreError as error:
                if not hold:
                    logger.warning(
                        "The store of queues is unavailable (%s): hosts with long queues wait, nothing is lost.",
                        error,
                    )
                hold = min(_LONGEST_HOLD, hold * 2 or 0.5)
                await asyncio.sleep(hold)
            except Exception:
                logger.exception("Serving the tails of queues failed; trying again.")
                await asyncio.sleep(_LONGEST_HOLD)

    async def _write(self, plan: SpillPlan, folder: str) -> None:
        store = await self._store()
        await self._check_folder(store, folder)
        content, parts = pack(plan.segment, [entries for _, entries in plan.writes])
        await asyncio.to_thread(store.put, f"{folder}/{plan.segment}", content)
        call = script_call(
            "confirm_segment",
            self.keys.queue(plan.shard),
            name=plan.segment,
            part={
                "queue": [queue for queue, _ in plan.writes],
                "offset": [part.offset for part in parts],
                "length": [part.length for part in parts],
                "urls": [part.urls for part in parts],
                "sum": [part.checksum for part in parts],
            },
        )
        await self.engine.run(call)

    async def _refill(self, shard: int, folder: str, queue: bytes, descriptor: bytes) -> None:
        host, _, level = queue.rpartition(b" ")
        entries = await self._read(folder, descriptor, host)
        call = script_call(
            "refill",
            self.keys.queue(shard),
            host=host,
            level=level,
            descriptor=descriptor,
            state="lost" if entries is None else "found",
            entries=entries or [],
        )
        await self.engine.run(call)

    async def _read(self, folder: str, descriptor: bytes, owner: bytes) -> list[bytes] | None:
        """Returns the entries of a part; None if it is lost, which is logged."""
        try:
            return await self._part(folder, descriptor)
        except PartLost as error:
            part, store = QueuePart.parse(descriptor), await self._store()
            logger.error(
                "%d URLs of %s are lost: segment %s at byte %d: %s",
                *(part.urls, owner.decode(), store.uri(f"{folder}/{part.segment}"), part.offset, error),
            )
            return None

    async def _part(self, folder: str, descriptor: bytes) -> list[bytes]:
        store, part = await self._store(), QueuePart.parse(descriptor)
        try:
            return await asyncio.to_thread(read_part, store, f"{folder}/{part.segment}", part)
        except PartLost:
            await self._check_folder(store, folder)
            raise

    @staticmethod
    async def _check_folder(store: ObjectStore, shard_folder: str) -> None:
        """Raises StoreError if the crawl's folder is missing, because a disk that is not mounted loses nothing."""
        folder = shard_folder.partition("/")[0]
        if await asyncio.to_thread(store.size, f"{folder}/{_MARKER}") is None:
            raise StoreError(f"{store.uri(folder)} does not exist")

    async def _shard_folder(self, shard: int) -> str:
        return f"{await self._folder()}/{shard:04}"

    async def _folder(self) -> str:
        """Returns the crawl's folder in the store. Its name is unique, because two engines may share the store."""
        if folder := await self._crawl.tails():
            return folder
        folder = f"{self.keys.crawl}-{uuid.uuid4().hex[:8]}"
        store = await self._store()
        # the folder first, because a worker that reads its name must find it
        await asyncio.to_thread(store.put, f"{folder}/{_MARKER}", b"")
        return await self._crawl.set_tails(folder)

    async def _has_segments(self) -> bool:
        """Whether any part of a queue is in the store."""
        names = [f"{self.keys.queue(shard)[0]}segments" for shard in range(self.keys.shards)]
        return any([await self.engine.client.exists(name) for name in names])

    async def _store(self) -> ObjectStore:
        if self._opened is None:
            assert self._uri is not None, "nothing is spilled without a store"
            self._opened = await asyncio.to_thread(
                open_store, self._uri, "FRONTIER_SPILL_URI", self._object_stores
            )
        return self._opened


def _pairs(flat: Sequence[Any]) -> list[tuple[Any, Any]]:
    return list(zip(flat[::2], flat[1::2], strict=True))


async def _all(work: Any) -> None:
    """Awaits all work, and then raises the first failure."""
    for outcome in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome
