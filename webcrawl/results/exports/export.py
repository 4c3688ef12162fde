"""Exports table `pages` to partitioned files, in bounded memory.

The files are stored when all of them are complete. The manifest `_export.json`, which lists them, is stored last.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from webcrawl.documents.values import memory_bytes
from webcrawl.errors import NoSuchObject, StoreError
from webcrawl.results.exports.partitions import PARTITIONS
from webcrawl.results.exports.parts import FIELDS, ExportPart, Row
from webcrawl.stores.objects.store import ObjectStore

BUFFERED_BYTES = 32_000_000
"""The most bytes of rows in memory, about 13,000 rows."""
OPEN_PARTS = 64
ROWS_A_FILE = 1_000_000
BYTES_A_FILE = 500_000_000

MANIFEST = "_export.json"


def export(
    rows: Iterable[Row],
    store: ObjectStore,
    part: type[ExportPart],
    partition: str,
    *,
    source: str,
    fields: Mapping[str, str] = FIELDS,
    only: Mapping[str, str] | None = None,
    force: bool = False,
) -> dict[str, Any]:
    """Writes `fields` of rows to a store and returns the manifest. `only`: how rows were selected, for the manifest.

    Raises StoreError if the store cannot be written, or if it has an export and `force` is not given or there are no
    rows to replace the export.
    """

    def written(folder: Path, stamp: str) -> Mapping[str, int]:
        names = f"pages-{stamp}-{{:05}}{part.suffix}"
        files = _Files(folder, partial(part, fields=fields), PARTITIONS[partition], names)
        try:
            for row in rows:
                files.add(row)
        finally:
            files.close()
        return files.rows

    about = {"source": source, "only": dict(only or {}), "format": part.suffix.removeprefix(".")}
    about |= {"partition": partition, "fields": dict(fields)}
    return store_export(store, written, about, force=force)


def store_export(
    store: ObjectStore,
    written: Callable[[Path, str], Mapping[str, int]],
    about: Mapping[str, Any],
    *,
    force: bool = False,
) -> dict[str, Any]:
    """Stores an export, replaces an earlier one with `force`, and returns the manifest; see `export`.

    `written` writes files into a folder, whose names have the stamp that it gets, and returns their numbers of rows by
    name. `about` are further facts for the manifest.
    """
    old = _earlier(store, force=force)
    began = datetime.now(UTC)
    with store.workspace() as folder:
        try:
            counts = written(folder, f"{began:%Y%m%d%H%M%S%f}")
        except OSError as error:
            raise StoreError(f"cannot export to {store.uri()}: {error.strerror or error}") from error
        for name in counts:
            store.move_file(name, folder / name)
    if not counts and old.get("rows"):
        raise StoreError(f"no page is selected: {store.uri()} keeps its export of {old['rows']} rows")
    manifest = {
        "exported_at": began.isoformat(),
        **about,
        "rows": sum(counts.values()),
        "files": [{"name": name, "rows": count} for name, count in sorted(counts.items())],
    }
    write_manifest(store, manifest)
    for file in old.get("files", ()):
        if file["name"] not in counts:
            store.delete(file["name"])
    return manifest


def _earlier(store: ObjectStore, *, force: bool) -> Mapping[str, Any]:
    """Returns the manifest of the export to replace, or an empty manifest; raises StoreError without `force`."""
    old = read_manifest(store)
    if old is not None and not force:
        raise StoreError(
            f"{store.uri()} has an export of {old.get('rows')} rows of {old.get('exported_at')}: --force replaces it"
        )
    return old or {}


class _Files:
    """The files of an export. Buffers rows, and writes the partition with the most bytes when the buffer is full."""

    def __init__(
        self, folder: Path, part: Callable[[Path], ExportPart], partition: Callable[[Row], str], names: str
    ) -> None:
        self._folder = folder
        self._part = part
        self._partition = partition
        self._names = names
        self._waiting: dict[str, list[Row]] = defaultdict(list)
        self._weights: Counter[str] = Counter()
        self._total = 0
        self._open: dict[str, tuple[str, ExportPart]] = {}
        self.rows: dict[str, int] = {}
        """The number of rows of each file."""

    def add(self, row: Row) -> None:
        key, much = self._partition(row), memory_bytes(row)
        self._waiting[key].append(row)
        self._weights[key] += much
        self._total += much
        if self._total >= BUFFERED_BYTES:
            self._write(self._weights.most_common(1)[0][0])

    def close(self) -> None:
        for key in list(self._waiting):
            self._write(key)
        for key in list(self._open):
            self._close(key)

    def _write(self, key: str) -> None:
        rows = self._waiting.pop(key)
        self._total -= self._weights.pop(key)
        name, part = self._open.pop(key) if key in self._open else self._begin(key)
        # moves the file to the end, so that the first file is the least recently written
        self._open[key] = name, part
        part.write(rows)
        self.rows[name] += len(rows)
        if self.rows[name] >= ROWS_A_FILE or part.size() >= BYTES_A_FILE:
            self._close(key)

    def _begin(self, key: str) -> tuple[str, ExportPart]:
        if len(self._open) >= OPEN_PARTS:
            self._close(next(iter(self._open)))
        file = self._names.format(len(self.rows))
        name = f"{key}/{file}" if key else file
        (self._folder / name).parent.mkdir(parents=True, exist_ok=True)
        self.rows[name] = 0
        return name, self._part(self._folder / name)

    def _close(self, key: str) -> None:
        self._open.pop(key)[1].close()


def read_manifest(store: ObjectStore) -> dict[str, Any] | None:
    """Returns the manifest of the export in a store, or None; raises StoreError if `export` did not write it."""
    try:
        content = b"".join(store.chunks(MANIFEST))
    except NoSuchObject:
        return None
    try:
        manifest = json.loads(content)
        names = [PurePosixPath(file["name"]) for file in manifest["files"]]
    except (ValueError, TypeError, KeyError) as error:
        raise StoreError(f"{store.uri(MANIFEST)} is not the manifest of an export: {error}") from error
    # files in the manifest are deleted when the export is replaced
    if any(name.is_absolute() or ".." in name.parts for name in names):
        raise StoreError(f"{store.uri(MANIFEST)} names files outside of the export")
    return dict(manifest)


def write_manifest(store: ObjectStore, manifest: dict[str, Any]) -> None:
    store.put(MANIFEST, json.dumps(manifest, indent=1).encode())
