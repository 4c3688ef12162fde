"""Seals what the engine has of the index of duplicates into runs, and merges the runs.

One worker does it at a time. Two workers would do no harm, because a worker changes the list of runs only if it is
still the list that the worker has read. A worker may die at any point. An entry leaves the engine only if a stored and
listed run has it, and only if it has not changed meanwhile. So a repeated step changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import random
import tempfile
import threading
import time
import uuid
from array import array
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import xxhash

from webcrawl.documents.sandbox import give_back_memory
from webcrawl.documents.simhash_blocks import blocks
from webcrawl.engine.backoff import ended
from webcrawl.engine.client import UNAVAILABLE, Engine
from webcrawl.engine.keys import SUM_BUCKETS, URL_ID_BYTES, Keys
from webcrawl.engine.lock import EngineLock
from webcrawl.engine.replication import Command
from webcrawl.engine.scripts import script_call
from webcrawl.errors import EngineFull, StoreError
from webcrawl.stores.group_commit import batched
from webcrawl.stores.sealed.run_list import (
    ATTEMPTS,
    READ_SECONDS,
    ListedRun,
    RunList,
    SealedDuplicates,
    url_digest,
)

if TYPE_CHECKING:
    from webcrawl.stores.sealed.runs import SealedRun
    from webcrawl.stores.sealed.settled import Lines

logger = logging.getLogger(__name__)

KEPT_SECONDS = 7 * 86_400.0
"""Seconds for which a merged run is kept, because a checkpoint may refer to it."""
LARGE = 100_000_000
"""The entries from which on a run is merged beside sealing, because it takes minutes or hours."""
GROWTH = 8
"""A run is merged with the newer ones when together they have more than an eighth of its entries."""
_ENTRIES_OF_A_RUN = 50_000
_NOTED_ENTRIES = 500_000
"""The entries whose hashes are kept at once, about 12 bytes each, and later 16 bytes of each text."""
_BUCKETS_AT_ONCE = 256
_CALLS_AT_ONCE = 500
_TEXT_BYTES = 8 + URL_ID_BYTES
_URL_DIGEST = 8
"""Bytes of the hash of a URL, which begins with its id."""
_SAMPLE = 256
_SETTLED_SECONDS = 30.0
"""A page that was unsettled to be a copy has left the index after this time."""
_GRACE_SECONDS = 3 * READ_SECONDS
_LOCK_SECONDS = 60.0
_POLL_SECONDS = 30.0


class _Group(NamedTuple):
    """Buckets of the engine: their keys, the hashes of their entries, and those of the URLs of their texts."""

    keys: Sequence[str]
    entries: array[int]
    urls: bytes

    def same_in(self, buckets: Sequence[dict[bytes, bytes]]) -> list[dict[bytes, bytes]]:
        """Returns the entries of `buckets`, read again, that have not changed since."""
        hashes = set(self.entries)
        return [
            {name: value for name, value in bucket.items() if _entry_hash(name, value) in hashes}
            for bucket in buckets
        ]


class Sealer:
    """Seals a crawl's texts and payloads when the engine has more than `most`; `distance` is that of near texts."""

    def __init__(
        self,
        engine: Engine,
        keys: Keys,
        sealed: SealedDuplicates,
        *,
        most: int,
        distance: int,
        settled_seconds: float = _SETTLED_SECONDS,
        grace_seconds: float = _GRACE_SECONDS,
    ) -> None:
        self._engine = engine
        self._keys = keys
        self._sealed = sealed
        self._most = most
        self._distance = distance
        self._settled_seconds = settled_seconds
        self._grace_seconds = grace_seconds
        self._name = uuid.uuid4().hex[:16]
        self._tasks: list[asyncio.Task[None]] = []
        self._is_stopping = threading.Event()

    def start(self) -> None:
        """Starts tasks that seal and merge when there is enough."""
        if self._most:
            self._tasks = [asyncio.create_task(self._serve(work)) for work in (self.work, self.work_on_large)]

    async def stop(self) -> None:
        """Stops the tasks; another worker, or this one later, begins their unfinished work again."""
        self._is_stopping.set()
        await ended(*self._tasks)

    async def _serve(self, work: Callable[[], Awaitable[bool]]) -> None:
        while True:
            await asyncio.sleep(_POLL_SECONDS * random.uniform(0.5, 1.0))
            try:
                await work()
            except UNAVAILABLE:
                continue  # the worker's loop logs the error
            except StoreError as error:
                logger.warning("The index of duplicates is not sealed or merged now (%s).", error)
            except Exception:
                logger.exception("Sealing the index of duplicates failed; trying again.")

    async def work(self) -> bool:
        """Seals and merges if there is enough to do and no other worker does it; returns whether it did."""
        if not self._most or await self.entries() <= self._most:
            return False
        async with self._lock("sealing").held() as is_mine:
            if is_mine:
                try:
                    await self.seal()
                    await self.merge()
                    await self.delete_unused()
                finally:
                    await asyncio.to_thread(give_back_memory)
            return is_mine

    async def work_on_large(self) -> bool:
        """Merges large runs, which may take hours, beside `work`; returns whether it did."""
        listed, _ = await self._sealed.listed()
        if not _chosen(listed, large=True):
            return False
        async with self._lock("merging").held() as is_mine:
            if is_mine:
                await self.merge(large=True)
            return is_mine

    def _lock(self, work: str) -> EngineLock:
        return EngineLock(self._engine, self._keys.own(work), self._name, _LOCK_SECONDS)

    @property
    def _buckets(self) -> int:
        """The number of buckets: of payloads, then of texts."""
        return 2 * self._keys.shards * SUM_BUCKETS

    def _bucket(self, number: int) -> str:
        """Returns the key of a bucket."""
        payloads = self._keys.shards * SUM_BUCKETS
        if number < payloads:
            return self._keys.checksum(number.to_bytes(8, "big"))
        return self._keys.text((number - payloads).to_bytes(URL_ID_BYTES, "big"))

    async def entries(self) -> int:
        """Returns about how many texts and payloads the engine has, from a sample of the buckets."""
        sample = random.sample(range(self._buckets), _SAMPLE)
        keys = [self._bucket(number) for number in sample]
        sizes = await self._engine.change_all([Command(key, ("HLEN", key)) for key in keys])
        return int(sum(sizes) * self._buckets / _SAMPLE)

    async def seal(self) -> int:
        """Moves all settled entries of the engine to runs; returns how many.

        Reads the engine three times, in groups of buckets: keeping a million entries meanwhile would take 300 MB.
        """
        sealed = 0
        groups: list[_Group] = []
        for start in range(0, self._buckets, _BUCKETS_AT_ONCE):
            stop = min(start + _BUCKETS_AT_ONCE, self._buckets)
            keys = [self._bucket(number) for number in range(start, stop)]
            buckets = await self._engine.hashes(keys)
            if any(buckets):
                groups.append(_group(keys, buckets))
            if groups and (stop == self._buckets or _entries(groups) >= _NOTED_ENTRIES):
                sealed += await self._seal(groups)
                groups = []
        return sealed

    async def _seal(self, groups: list[_Group]) -> int:
        """Moves the entries that are still the same after a moment to runs, and empties the list; returns how many."""
        from webcrawl.stores.sealed.runs import payload_line
        from webcrawl.stores.sealed.settled import Lines

        await asyncio.sleep(self._settled_seconds)
        sealed: list[_Group] = []
        settled: list[_Group] = []
        runs: list[str] = []
        texts, payloads = Lines(), Lines()
        failed: Exception | None = None
        groups.reverse()
        while groups:
            group = groups.pop()
            try:
                buckets = [
                    # the first page of a payload is in doubt until it is stored
                    {
                        name: value
                        for name, value in bucket.items()
                        if ":text:" in key or not value.startswith(b"?")
                    }
                    for key, bucket in zip(
                        group.keys, group.same_in(await self._engine.hashes(group.keys)), strict=True
                    )
                ]
                settled.append(_group(group.keys, buckets))
                for key, bucket in zip(group.keys, buckets, strict=True):
                    for name, value in bucket.items():
                        if ":text:" in key:
                            texts.add(value)
                        else:
                            payloads.add(payload_line(name, value))
                if groups and len(texts) + len(payloads) < _ENTRIES_OF_A_RUN:
                    continue
                if texts or payloads:
                    runs.append(await self._add_run(texts, payloads))
            except (StoreError, *UNAVAILABLE) as error:
                failed = error  # what is in runs by now leaves the engine, and is not sealed again
                break
            sealed, settled, texts, payloads = [*sealed, *settled], [], Lines(), Lines()
        if count := _entries(sealed):
            await asyncio.sleep(self._grace_seconds)
            await self._remove(sealed, runs)
        if failed:
            raise failed
        return count

    async def _add_run(self, texts: Lines, payloads: Lines) -> str:
        """Stores and lists a run; returns its name."""
        from webcrawl.stores.sealed.settled import write_settled

        outdated = await self._engine.client.smembers(self._sealed.outdated)
        ended = [int.from_bytes(member, "big") for member in outdated]
        listed, _ = await self._sealed.listed()
        older: Sequence[SealedRun] | None = None
        try:
            older = await self._sealed.open([name for name, _, _ in listed.runs])
        except StoreError as error:
            logger.warning("A sealed run cannot be read, and may have any URL: %s", error)

        def write(folder: Path) -> None:
            write_settled(folder, texts, payloads, ended, older)

        name = await self._store(write, (len(texts), len(payloads)), replaced=[])
        if outdated:
            await self._engine.change(self._sealed.outdated, "SREM", *outdated)
        return name

    async def _remove(self, sealed: Sequence[_Group], runs: Sequence[str]) -> None:
        """Removes what `runs` have from the engine. Each step may be repeated, because blocks are first."""
        texts = bytearray()
        for group in sealed:
            same = group.same_in(await self._engine.hashes(group.keys))
            for key, bucket in zip(group.keys, same, strict=True):
                if ":text:" in key:
                    for name, text in bucket.items():
                        texts += text[:8] + name
        await self._unindex(bytes(texts))
        ended: list[bytes] = []
        for group in sealed:
            listed, _ = await self._sealed.listed()
            if [name for name, _, _ in listed.runs[-len(runs) :]] != list(runs):
                # it has dropped these entries too, which does not mean that they have ended
                raise StoreError("another worker has sealed meanwhile")
            ended += await self._drop(group)
            with suppress(EngineFull):  # there is memory when more is dropped
                await self._note_ended(ended)
                ended = []
        await self._note_ended(ended)

    async def _note_ended(self, ended: Sequence[bytes]) -> None:
        if ended:
            await self._engine.change(self._sealed.outdated, "SADD", *ended)

    async def merge(self, *, large: bool = False) -> None:
        """Merges small runs, or large ones, until each is much larger than all newer ones."""
        from webcrawl.stores.sealed.merging import merge_runs

        while chosen := _chosen(listed := (await self._sealed.listed())[0], large=large):
            runs = await self._sealed.verified([name for name, _, _ in chosen])
            is_oldest = chosen[0] == listed.runs[0]

            def write(folder: Path, runs: Sequence[SealedRun] = runs, is_oldest: bool = is_oldest) -> None:
                merge_runs(runs, folder, is_oldest=is_oldest, interrupted=self._is_stopping.is_set)

            sizes = sum(texts for _, texts, _ in chosen), sum(payloads for _, _, payloads in chosen)
            await self._store(write, sizes, replaced=chosen)

    async def _store(
        self, write: Callable[[Path], None], sizes: tuple[int, int], *, replaced: Sequence[ListedRun]
    ) -> str:
        """Writes and stores a run, and lists it instead of `replaced`, or as the newest; returns its name."""
        from webcrawl.stores.sealed.runs import store_run

        store, listed = await self._sealed.store(), (await self._sealed.listed())[0]
        folder = listed.folder or f"duplicates-{self._keys.crawl}-{uuid.uuid4().hex[:8]}"
        name = f"{folder}/{uuid.uuid4().hex[:16]}"

        def make() -> None:
            try:
                with tempfile.TemporaryDirectory(prefix="webcrawl-") as workspace:
                    write(Path(workspace))
                    store_run(store, name, Path(workspace), self._is_stopping.is_set)
                if self._is_stopping.is_set():
                    raise StoreError("the worker stops")  # nobody would list the run
            except (OSError, StoreError) as error:
                # otherwise repeated attempts would fill the store
                with suppress(StoreError):
                    store.delete_folder(name)
                if isinstance(error, StoreError):
                    raise
                raise StoreError(f"cannot write a run below {tempfile.gettempdir()}: {error}") from error

        await asyncio.to_thread(make)
        for _ in range(ATTEMPTS):
            listed, before = await self._sealed.listed()
            if not listed.put((name, *sizes), replaced, time.time()):
                break
            listed.folder = listed.folder or folder
            if await self._sealed.replace(before, listed):
                return name
        await asyncio.to_thread(store.delete_folder, name)
        raise StoreError("another worker has changed the list of sealed runs")

    async def delete_unused(self, kept_seconds: float = KEPT_SECONDS) -> None:
        """Deletes runs that were merged some time ago. Those of another crawl, from which this was restored, stay."""
        listed, before = await self._sealed.listed()
        now = time.time()
        late = [name for name, since in listed.unused if now - since > kept_seconds]
        if not late:
            return
        store = await self._sealed.store()
        for name in late:
            if name.startswith(f"{listed.folder}/"):
                await asyncio.to_thread(store.delete_folder, name)
        listed.unused = [(name, since) for name, since in listed.unused if name not in late]
        await self._sealed.replace(before, listed)

    async def _drop(self, group: _Group) -> list[bytes]:
        """Removes sealed entries from the engine; returns the hashes of URLs whose texts were removed meanwhile."""
        present: set[bytes] = set()
        calls = []
        buckets = await self._engine.hashes(group.keys)
        for key, bucket, entries in zip(group.keys, buckets, group.same_in(buckets), strict=True):
            if entries:
                entry = {"field": list(entries), "value": list(entries.values())}
                calls.append(script_call("drop_sealed", [key], entry=entry))
            if ":text:" in key:
                present.update(bucket)
        changed: set[bytes] = set()
        for call, kept in zip(calls, await self._engine.run_all(calls), strict=True):
            if ":text:" in call.keys[0]:
                changed.update(kept)
        removed = changed - await self._present(changed)
        urls = (group.urls[start : start + _URL_DIGEST] for start in range(0, len(group.urls), _URL_DIGEST))
        return [url for url in urls if (name := url[:URL_ID_BYTES]) not in present or name in removed]

    async def _present(self, names: Collection[bytes]) -> set[bytes]:
        """Returns the ids of URLs that have a text in the engine."""
        client = self._engine.client
        texts = await asyncio.gather(*(client.hget(self._keys.text(name), name) for name in names))
        return {name for name, text in zip(names, texts, strict=True) if text is not None}

    async def _unindex(self, texts: bytes) -> None:
        """Removes texts from the blocks of the engine, which have several of them each."""
        for number in range(self._distance + 1):
            for some in batched(by_block(texts, self._distance, number), _CALLS_AT_ONCE):
                await self._engine.run_all(
                    [
                        script_call("unindex_sealed", [self._keys.like(block)], size=_TEXT_BYTES, texts=held)
                        for block, held in some
                    ]
                )


def by_block(texts: bytes, distance: int, number: int) -> Iterator[tuple[int, list[bytes]]]:
    """Yields the keys of all blocks with this number, see `blocks`, and the texts of each."""
    import numpy as np

    entries = np.frombuffer(texts, f"V{_TEXT_BYTES}")
    simhashes = np.ndarray(len(entries), ">u8", texts, strides=(_TEXT_BYTES,)).astype(np.uint64)
    keys = blocks(simhashes, distance)[number]
    order = np.argsort(keys, kind="stable")
    keys, content = keys[order], entries[order].tobytes()
    starts = [*np.flatnonzero(keys[1:] != keys[:-1]) + 1, len(keys)] if len(keys) else []
    start = 0
    for stop in starts:
        offsets = range(start * _TEXT_BYTES, int(stop) * _TEXT_BYTES, _TEXT_BYTES)
        yield int(keys[start]), [content[offset : offset + _TEXT_BYTES] for offset in offsets]
        start = int(stop)


def _entry_hash(name: bytes, value: bytes) -> int:
    return xxhash.xxh3_64_intdigest(name + value)


def _group(keys: Sequence[str], buckets: Sequence[dict[bytes, bytes]]) -> _Group:
    entries = array("Q", (_entry_hash(*entry) for bucket in buckets for entry in bucket.items()))
    texts = (bucket.values() for key, bucket in zip(keys, buckets, strict=True) if ":text:" in key)
    return _Group(keys, entries, b"".join(url_digest(text[8:]) for some in texts for text in some))


def _entries(groups: Iterable[_Group]) -> int:
    return sum(len(group.entries) for group in groups)


def _chosen(listed: RunList, *, large: bool) -> Sequence[ListedRun]:
    """Returns the runs to merge next among the large ones, or among the small ones, which are newer."""
    sizes = [texts + payloads for _, texts, payloads in listed.runs]
    first_small = max((number for number, size in enumerate(sizes, 1) if size >= LARGE), default=0)
    part = slice(0, first_small) if large else slice(first_small, None)
    newest = to_merge(sizes[part])
    return listed.runs[part][-newest:] if newest else []


def to_merge(sizes: Sequence[int]) -> int:
    """Returns how many of the newest runs to merge, given the entries of all, the oldest first; 0 for none.

    So each run has at least eight times the entries of all newer ones, and n entries are in about log8(n) runs
    (the logarithmic method of Bentley and Saxe 1980).
    """
    newer, merged = 0, 0
    for number, size in enumerate(reversed(sizes), 1):
        if newer and newer * GROWTH > size:
            merged = number
        newer += size
    return merged
