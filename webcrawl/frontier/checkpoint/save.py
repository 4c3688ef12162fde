"""Saves a crawl as a checkpoint, and restores it."""

from __future__ import annotations

import asyncio
import struct
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from webcrawl.config.program import VERSION
from webcrawl.engine.client import UNAVAILABLE
from webcrawl.engine.keys import CRAWLS
from webcrawl.engine.lock import renewed
from webcrawl.errors import StoreError
from webcrawl.frontier import Crawl
from webcrawl.frontier.checkpoint.export import Exporter, Record
from webcrawl.frontier.checkpoint.files import (
    MANIFEST,
    CheckpointFile,
    FileWriter,
    Manifest,
    fetch,
    load_manifest,
    read_manifest,
    records,
)
from webcrawl.frontier.checkpoint.hold import HOLD_SECONDS
from webcrawl.frontier.checkpoint.restore import Importer
from webcrawl.stores.objects.store import ObjectStore

_DAMAGED = (ValueError, TypeError, LookupError, AttributeError, OverflowError, struct.error)
"""What records raise that no checkpoint has; a checkpoint may come from elsewhere."""


async def save(exporter: Exporter, store: ObjectStore, *, force: bool) -> Manifest:
    """Writes a checkpoint; raises StoreError if the store has a checkpoint, unless `force` replaces it."""
    old = read_manifest(store)
    if old is not None and not force:
        raise StoreError(f"{store.uri()} already has a checkpoint: --force replaces it")
    saving = _Saving(exporter, store)
    try:
        await exporter.begin()
        async with renewed(exporter.renew, HOLD_SECONDS):
            manifest = await saving.run()
    except BaseException as error:
        with suppress(*UNAVAILABLE, StoreError):
            await exporter.end()
        saving.undo()
        if isinstance(error, UNAVAILABLE):
            raise StoreError(
                f"the engine became unavailable ({error}): run scrapy checkpoint again"
            ) from error
        raise
    if old is not None:
        with suppress(StoreError):  # a damaged manifest names no files
            for file in Manifest.decoded(old, store.uri()).files:
                store.delete(file.name)
    return manifest


class _Saving:
    """A checkpoint being written. Its files have unique names, so that an older checkpoint stays valid until the
    end."""

    def __init__(self, exporter: Exporter, store: ObjectStore) -> None:
        self._exporter = exporter
        self._store = store
        self._id = uuid.uuid4().hex[:8]
        self._line = _ProgressLine()
        self._counts: dict[str, int] = {}
        self._names: list[str] = []

    def undo(self) -> None:
        """Deletes all files."""
        self._line.clear()
        with suppress(StoreError):
            for name in self._names:
                self._store.delete(name)

    async def run(self) -> Manifest:
        keys = self._exporter.keys
        begun = _now()
        with self._store.workspace() as folder:
            files = [await self._file(folder, "crawl", self._exporter.crawl())]
            for shard in range(keys.shards):
                self._line.show(f"shard {shard + 1} of {keys.shards}")
                files.append(await self._file(folder, f"shard-{shard:05}", self._exporter.shard(shard)))
            if self._exporter.due_pages is not None:
                self._line.show("the plan")
                files.append(await self._file(folder, "plan", self._exporter.plan()))
        self._line.clear()
        manifest = Manifest(
            keys.crawl,
            keys.shards,
            begun,
            _now(),
            VERSION,
            {**self._counts, "lost": self._exporter.lost},
            tuple(files),
            keys.unit,
        )
        await asyncio.to_thread(self._store.put, MANIFEST, manifest.encoded())
        return manifest

    async def _file(self, folder: Path, name: str, records: AsyncIterator[Record]) -> CheckpointFile:
        self._names.append(f"{name}-{self._id}.wcf.gz")
        with FileWriter(folder, self._names[-1]) as writer:
            async for record in records:
                writer.write(record)
                if record[0] == "counters":
                    self._counts = _counts(record[1])
                elif record[0] == "plan":
                    self._counts["planned"] = self._counts.get("planned", 0) + len(record[1])
            stored = await asyncio.to_thread(writer.close)
            await asyncio.to_thread(self._store.move_file, stored.name, writer.path)
        return stored


async def load(
    importer: Importer,
    store: ObjectStore,
    crawl: Crawl,
    clear: Callable[[], Awaitable[None]],
    begun: Callable[[], Awaitable[None]],
    restored: Callable[[], Awaitable[None]],
    *,
    force: bool,
) -> None:
    """Restores a crawl that does not exist; with `force`, the crawl may exist, and `clear` deletes it first.

    Calls `begun` before it fills the crawl, and `restored` after each file: all that is known of a host is in one file.

    Raises StoreError, ConfigurationError. Changes nothing if the checkpoint is damaged.
    """
    manifest = load_manifest(store)
    with tempfile.TemporaryDirectory(prefix="webcrawl-") as folder:
        paths = [await asyncio.to_thread(fetch, store, file, Path(folder)) for file in manifest.files]
        await _check_layout(crawl, manifest.unit)
        await importer.hold()
        try:
            if await crawl.exists():
                await _check_replaceable(crawl, force=force)
                await clear()
                await importer.hold()  # `clear` has deleted the lock
            async with renewed(importer.hold, HOLD_SECONDS):
                await crawl.begin(restoring=importer.name)
                await begun()
                await _fill(importer, paths, restored)
            await importer.finish()
        except UNAVAILABLE as error:
            raise StoreError(f"the engine became unavailable ({error}): run scrapy restore again") from error
        finally:
            with suppress(*UNAVAILABLE):
                await importer.release()


async def _fill(importer: Importer, paths: Sequence[Path], restored: Callable[[], Awaitable[None]]) -> None:
    line = _ProgressLine()
    for number, path in enumerate(paths, 1):
        line.show(f"file {number} of {len(paths)}, {importer.urls:,} URLs")
        try:
            await importer.load(partial(records, path))
        except _DAMAGED as error:
            raise StoreError(f"{path} is damaged: {type(error).__name__}: {error}") from error
        await restored()
    line.clear()


async def _check_layout(crawl: Crawl, unit: str) -> None:
    """Raises StoreError if another crawl of the engine has other shards or another unit, or the checkpoint has.

    The marks of seen URLs depend on the unit. Must be called before `clear`.
    """
    if unit != crawl.keys.unit:
        raise StoreError(
            f"the checkpoint has POLITENESS_UNIT {unit!r}, and a crawl keeps it: restore with -s POLITENESS_UNIT={unit}"
        )
    for name, layout in (await crawl.engine.client.hgetall(CRAWLS)).items():
        others = crawl.keys.with_layout(layout)
        if name.decode() == crawl.keys.crawl or others == crawl.keys:
            continue
        if others.shards != crawl.keys.shards:
            setting, value = "FRONTIER_SHARDS", str(others.shards)
        else:
            setting, value = "POLITENESS_UNIT", others.unit
        raise StoreError(
            f"crawl {name.decode()!r} of this engine has {setting} {value}, and all crawls of an engine have the same: "
            f"restore with -s {setting}={value}, or use another engine"
        )


async def _check_replaceable(crawl: Crawl, *, force: bool) -> None:
    name = crawl.keys.crawl
    if working := await crawl.workers.count_alive():
        raise StoreError(
            f"crawl {name!r} has running workers ({working}): stop them first (after a kill, wait "
            f"{crawl.worker_seconds:.0f} seconds)"
        )
    if not force and not await crawl.restoring():
        raise StoreError(f"crawl {name!r} exists: --force deletes it first, or restore under another name")


class _ProgressLine:
    """A progress line on a terminal; prints nothing elsewhere."""

    def __init__(self) -> None:
        self._shown = 0.0

    def show(self, text: str) -> None:
        if sys.stderr.isatty() and time.monotonic() - self._shown > 0.2:
            self._shown = time.monotonic()
            print(f"\r{text:<60}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self._shown:
            print(f"\r{'':<60}\r", end="", file=sys.stderr, flush=True)


def _counts(counters: dict[str, int]) -> dict[str, int]:
    waiting = sum(counters.get(name, 0) for name in ("queued", "leased", "later"))
    return {
        "open": waiting - counters.get("parked", 0),
        **{name: counters.get(name, 0) for name in ("seen", "done", "dead")},
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
