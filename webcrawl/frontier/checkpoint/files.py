"""Checkpoints as objects: files of records, and a manifest that is written last.

A file is gzip of frames: four bytes of length, big-endian, and the MessagePack array of a record. `manifest.json` names
the files with their sizes and checksums. Without a manifest, there is no checkpoint; a new manifest replaces the old
checkpoint. All functions block and raise StoreError.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import msgpack

from webcrawl.errors import NoSuchObject, StoreError
from webcrawl.stores.objects.store import ObjectStore

FORMAT = 8
READ_FORMATS = frozenset({5, 6, 7, FORMAT})
"""The formats that this version restores. Before format 6, entries had no class of their fetch, and before format 7
there was no plan, and before format 8 there were no runs of duplicates. Hosts may have no trust."""
MANIFEST = "manifest.json"

_FILE_NAME = re.compile(r"[a-z0-9-]+\.wcf\.gz")
_FRAME = struct.Struct(">I")
_COMPRESSION = 1
_LARGEST_FRAME, _LARGEST_MANIFEST = 2**26, 2**24
"""Bytes; a checkpoint may come from elsewhere."""


@dataclass(frozen=True, slots=True)
class CheckpointFile:
    """A file of a checkpoint: the records of one shard, or of the crawl as a whole."""

    name: str
    bytes: int
    sha256: str

    def __post_init__(self) -> None:
        if not _FILE_NAME.fullmatch(self.name):
            raise ValueError(f"{self.name!r} is not a file of a checkpoint")


@dataclass(frozen=True, slots=True)
class Manifest:
    """The contents of a checkpoint. Times are UTC in ISO 8601; `counts` are those at its begin."""

    crawl: str
    shards: int
    begun: str
    ended: str
    version: str
    counts: dict[str, int]
    files: tuple[CheckpointFile, ...]
    unit: str
    """POLITENESS_UNIT of the crawl."""
    format: int = FORMAT

    def encoded(self) -> bytes:
        return json.dumps(asdict(self), indent=2).encode() + b"\n"

    def lacking(self) -> str:
        """Returns the beginning of the name of a file that a whole checkpoint has and this one lacks, or ""."""
        names = {file.name.rpartition("-")[0] for file in self.files}
        wanted = ("crawl", *(f"shard-{shard:05}" for shard in range(min(self.shards, len(names)))))
        return next((name for name in wanted if name not in names), "")

    @classmethod
    def decoded(cls, raw: bytes, uri: str) -> Self:
        try:
            manifest = json.loads(raw)
            if manifest["format"] not in READ_FORMATS:
                raise StoreError(
                    f"the checkpoint at {uri} has format {manifest['format']}, and this version of webcrawl reads "
                    f"{min(READ_FORMATS)} to {FORMAT}: restore it with webcrawl {manifest['version']}, which wrote it"
                )
            decoded = cls(
                **{**manifest, "files": tuple(CheckpointFile(**file) for file in manifest["files"])}
            )
            if not (isinstance(decoded.crawl, str) and isinstance(decoded.unit, str)):
                raise TypeError("crawl and unit must be text")
            if lacking := decoded.lacking():
                raise ValueError(f"it names no file {lacking}")
            return decoded
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise StoreError(f"{MANIFEST} at {uri} is damaged: {error}") from error


def read_manifest(store: ObjectStore) -> bytes | None:
    """Returns the bytes of the manifest; None without a checkpoint."""
    try:
        if (store.size(MANIFEST) or 0) > _LARGEST_MANIFEST:
            raise StoreError(
                f"{store.uri(MANIFEST)} is damaged: it has more than {_LARGEST_MANIFEST:,} bytes"
            )
        return b"".join(store.chunks(MANIFEST))
    except NoSuchObject:
        return None


def load_manifest(store: ObjectStore) -> Manifest:
    """Returns the manifest; raises StoreError without a checkpoint."""
    if (raw := read_manifest(store)) is None:
        raise StoreError(f"there is no checkpoint at {store.uri()}: it has no {MANIFEST}")
    return Manifest.decoded(raw, store.uri())


class FileWriter:
    """Writes one file of a checkpoint; `close` returns its entry in the manifest."""

    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / name
        try:
            self._file = gzip.GzipFile(self.path, "wb", compresslevel=_COMPRESSION)
        except OSError as error:
            raise StoreError(f"cannot write {self.path}: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        with suppress(OSError):
            self._file.close()

    def write(self, record: list[Any]) -> None:
        packed = msgpack.packb(record)
        self._file.write(_FRAME.pack(len(packed)) + packed)

    def close(self) -> CheckpointFile:
        """Finishes the file, and returns its entry in the manifest."""
        self._file.close()
        with self.path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return CheckpointFile(self.path.name, file.tell(), digest)


def fetch(store: ObjectStore, file: CheckpointFile, folder: Path) -> Path:
    """Returns the path of a file of a checkpoint, after downloading it into `folder` if necessary.

    Raises StoreError if the file is missing or damaged.
    """
    uri = store.uri(file.name)
    try:
        path = store.fetch(file.name, folder)
        with path.open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
    except NoSuchObject as error:
        raise StoreError(f"{uri} is missing") from error
    except OSError as error:
        raise StoreError(f"{uri}: {error}") from error
    if digest != file.sha256:
        raise StoreError(f"{uri} is damaged: its checksum differs from that in {MANIFEST}")
    return path


def records(path: Path) -> Iterator[list[Any]]:
    """Yields the records of a file that `fetch` has verified; texts in them are bytes."""
    try:
        with gzip.open(path) as file:
            while head := file.read(_FRAME.size):
                yield _record(file, _FRAME.unpack(head)[0])
    except (OSError, EOFError, ValueError, TypeError, AttributeError, struct.error, zlib.error) as error:
        raise StoreError(f"{path} cannot be read: {str(error) or type(error).__name__}") from error


def _record(file: gzip.GzipFile, size: int) -> list[Any]:
    if size > _LARGEST_FRAME:
        raise ValueError(f"a record has {size:,} bytes, more than {_LARGEST_FRAME:,}")
    packed = file.read(size)
    if len(packed) < size:
        raise EOFError("a record is cut short")
    kind, *rest = msgpack.unpackb(packed, raw=True, strict_map_key=False)
    return [kind.decode(), *rest]
