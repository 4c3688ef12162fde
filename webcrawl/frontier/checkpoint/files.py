"""Checkpoints in a folder or a bucket: files of records, and a manifest that is written last.

A file is gzip of frames: four bytes of length, big-endian, and the MessagePack array of a record. `manifest.json` names
the files with their sizes and checksums. Without it there is no checkpoint; a newer one takes the place of an older one
at the moment when its manifest does. Everything here blocks, and raises StoreError.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import struct
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self
from urllib.parse import unquote, urlsplit

import msgpack

from webcrawl.errors import ConfigurationError, StoreError
from webcrawl.stores.objects import folder as durable

FORMAT = 1
MANIFEST = "manifest.json"

_FILE_NAME = re.compile(r"[a-z0-9-]+\.wcf\.gz")
_FRAME = struct.Struct(">I")
_PART_BYTES = 16 * 1024 * 1024
_COMPRESSION = 1


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of a checkpoint: of one shard, or of what belongs to no shard."""

    name: str
    bytes: int
    sha256: str

    def __post_init__(self) -> None:
        if not _FILE_NAME.fullmatch(self.name):
            raise ValueError(f"{self.name!r} is no file of a checkpoint")


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a checkpoint is of. Times are UTC, in ISO 8601; `counts` are of the moment at which it began."""

    crawl: str
    shards: int
    begun: str
    ended: str
    version: str
    counts: dict[str, int]
    files: tuple[StoredFile, ...]
    format: int = FORMAT

    def encoded(self) -> bytes:
        return json.dumps(asdict(self), indent=2).encode() + b"\n"

    @classmethod
    def decoded(cls, raw: bytes, uri: str) -> Self:
        try:
            found = json.loads(raw)
            if found["format"] != FORMAT:
                raise StoreError(
                    f"the checkpoint at {uri} has format {found['format']}, and this version of webcrawl reads {FORMAT}"
                )
            return cls(**{**found, "files": tuple(StoredFile(**one) for one in found["files"])})
        except (ValueError, TypeError, KeyError) as error:
            raise StoreError(f"{MANIFEST} at {uri} is damaged: {error}") from error


class CheckpointPlace(Protocol):
    """Where a checkpoint lies. `folder` is where its files are made before `keep` puts them there for good."""

    uri: str
    folder: Path

    def keep(self, path: Path) -> None: ...
    def fetch(self, file: StoredFile) -> Path: ...
    def read_manifest(self) -> bytes | None: ...
    def write_manifest(self, data: bytes) -> None: ...
    def remove(self, name: str) -> None: ...
    def close(self) -> None: ...


def open_place(uri: str) -> CheckpointPlace:
    """A folder by its path or file:///..., or s3://bucket/prefix; raises ConfigurationError for anything else."""
    parts = urlsplit(uri)
    if parts.scheme == "s3":
        return BucketPlace(uri, parts.netloc, parts.path.strip("/"))
    if parts.scheme == "file" and not parts.netloc and parts.path.startswith("/"):
        return FolderPlace(Path(unquote(parts.path)))
    if uri and not parts.scheme:
        return FolderPlace(Path(uri))
    raise ConfigurationError(f"{uri!r}: name a folder, file:///folder or s3://bucket/prefix")


def load_manifest(place: CheckpointPlace) -> Manifest:
    """The manifest; raises StoreError when there is none."""
    if (raw := place.read_manifest()) is None:
        raise StoreError(f"there is no checkpoint at {place.uri}: it has no {MANIFEST}")
    return Manifest.decoded(raw, place.uri)


class FileWriter:
    """Writes one file of a checkpoint; `close` tells what has to be known of it."""

    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = gzip.GzipFile(self._new, "wb", compresslevel=_COMPRESSION)
        except OSError as error:
            raise StoreError(f"cannot write {self.path}: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._file.close()
            self._new.unlink(missing_ok=True)

    def write(self, record: list[Any]) -> None:
        packed = msgpack.packb(record)
        self._file.write(_FRAME.pack(len(packed)) + packed)

    def close(self) -> StoredFile:
        """Finish the file and give it its name."""
        self._file.close()
        with self._new.open("rb") as file:
            os.fsync(file.fileno())
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            size = file.tell()
        self._new.replace(self.path)
        return StoredFile(self.path.name, size, digest)

    @property
    def _new(self) -> Path:
        return durable.unfinished(self.path)


def check(path: Path, file: StoredFile) -> None:
    """Raise StoreError unless these are the bytes that were written."""
    try:
        with path.open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
    except FileNotFoundError as error:
        raise StoreError(f"{path} is missing") from error
    except OSError as error:
        raise StoreError(f"{path}: {error}") from error
    if digest != file.sha256:
        raise StoreError(f"{path} is damaged: its checksum is not that of {MANIFEST}")


def records(path: Path) -> Iterator[list[Any]]:
    """The records of a file that `check` has approved; texts inside of them are bytes."""
    try:
        with gzip.open(path) as file:
            while head := file.read(_FRAME.size):
                kind, *rest = msgpack.unpackb(
                    file.read(_FRAME.unpack(head)[0]), raw=True, strict_map_key=False
                )
                yield [kind.decode(), *rest]
    except (OSError, EOFError, ValueError, struct.error, zlib.error) as error:
        raise StoreError(f"{path} cannot be read: {error}") from error


class FolderPlace:
    """A checkpoint in a folder, which is made with its first file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.uri = str(folder)

    def keep(self, path: Path) -> None:
        pass

    def fetch(self, file: StoredFile) -> Path:
        return self.folder / file.name

    def read_manifest(self) -> bytes | None:
        try:
            return (self.folder / MANIFEST).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"{self.folder / MANIFEST}: {error}") from error

    def write_manifest(self, data: bytes) -> None:
        try:
            durable.write(self.folder / MANIFEST, data)  # and the names of the other files
        except OSError as error:
            raise StoreError(f"cannot write {self.folder / MANIFEST}: {error}") from error

    def remove(self, name: str) -> None:
        with suppress(OSError):
            (self.folder / name).unlink()

    def close(self) -> None:
        pass


class BucketPlace:
    """A checkpoint in S3, by way of a folder that is removed in the end."""

    def __init__(self, uri: str, bucket: str, prefix: str) -> None:
        from webcrawl.stores.objects.s3 import Bucket

        self.uri = uri
        self._bucket = Bucket(bucket, prefix, setting="checkpoint", meanwhile="the checkpoint may fail")
        self._bucket.check()
        self._temporary = tempfile.TemporaryDirectory(prefix="checkpoint")
        self.folder = Path(self._temporary.name)

    def keep(self, path: Path) -> None:
        from webcrawl.stores.objects.s3 import FAILURES

        try:
            self._bucket.put(path, lambda: False)
        except FAILURES as error:
            raise StoreError(f"cannot write {self.uri}/{path.name}: {error}") from error
        path.unlink()

    def fetch(self, file: StoredFile) -> Path:
        path = self.folder / file.name
        if not path.exists():
            with path.open("wb") as opened:
                for offset in range(0, file.bytes, _PART_BYTES):
                    length = min(_PART_BYTES, file.bytes - offset)
                    opened.write(self._bucket.read(file.name, offset, length))
        return path

    def read_manifest(self) -> bytes | None:
        if not self._bucket.has(MANIFEST):
            return None
        return self._bucket.read(MANIFEST, 0, _PART_BYTES)

    def write_manifest(self, data: bytes) -> None:
        self._bucket.write(MANIFEST, data)

    def remove(self, name: str) -> None:
        self._bucket.delete(name)

    def close(self) -> None:
        self._temporary.cleanup()
