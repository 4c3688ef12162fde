"""Segments: objects in a folder or bucket that hold parts of queues too long for the engine.

A segment is written once and never changed: a first line, then parts one after the other. A part is the MessagePack
array of its entries, compressed by zlib on its own, so that it can be read alone. Where a part begins, how long it is
and its checksum are kept in the engine. Everything here blocks: it is called in threads.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self
from urllib.parse import unquote, urlsplit

import msgpack

from webcrawl.errors import StoreError
from webcrawl.stores.objects import folder as durable

_FIRST_LINE = b"webcrawl segment 1\n"
_COMPRESSION = 6


class PartLost(StoreError):
    """A part is damaged, or its segment does not exist: trying again would not help."""


@dataclass(frozen=True, slots=True)
class Part:
    """Where entries of one queue lie: offset and length in bytes, their number, and their checksum."""

    segment: str
    offset: int
    length: int
    urls: int
    checksum: str

    @classmethod
    def parse(cls, descriptor: bytes) -> Self:
        """Read what the engine keeps of a part."""
        segment, offset, length, urls, checksum = descriptor.decode().split()
        return cls(segment, int(offset), int(length), int(urls), checksum)


def checksum(entries: Sequence[bytes]) -> str:
    """64 bits in hexadecimal; the scripts compute the same."""
    return hashlib.sha1(b"".join(entries), usedforsecurity=False).hexdigest()[:16]


def pack(name: str, groups: Sequence[Sequence[bytes]]) -> tuple[bytes, list[Part]]:
    """The segment that holds these groups of entries, a part for each."""
    pieces, parts, offset = [_FIRST_LINE], [], len(_FIRST_LINE)
    for entries in groups:
        pieces.append(zlib.compress(msgpack.packb(list(entries)), _COMPRESSION))
        parts.append(Part(name, offset, len(pieces[-1]), len(entries), checksum(entries)))
        offset += len(pieces[-1])
    return b"".join(pieces), parts


def unpack(raw: bytes, part: Part) -> list[bytes]:
    """The entries of a part; raises PartLost when these are not the bytes that were written."""
    try:
        entries = msgpack.unpackb(zlib.decompress(raw), raw=True)
        whole = isinstance(entries, list) and (len(entries), checksum(entries)) == (part.urls, part.checksum)
    except (zlib.error, ValueError, TypeError, msgpack.UnpackException):
        whole = False
    if not whole:
        raise PartLost("it is damaged")
    return list(entries)


class SegmentStore(Protocol):
    """Objects by name, such as "crawl-1f0c/0003/5e8d"; what `write` wrote is on the disk. All raise StoreError."""

    def uri(self, name: str = "") -> str: ...
    def write(self, name: str, data: bytes) -> None: ...
    def exists(self, name: str) -> bool: ...
    def delete(self, name: str) -> None: ...
    def clear(self, folder: str) -> None: ...

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Some bytes of an object, fewer when it ends before; raises PartLost when there is no such object."""
        ...


def open_store(uri: str) -> SegmentStore:
    """The store at file:///folder or s3://bucket/prefix; raises StoreError when it cannot be used."""
    parts = urlsplit(uri)
    if parts.scheme == "s3":
        return BucketSegments(parts.netloc, parts.path.strip("/"))
    return FolderSegments(Path(unquote(parts.path)))


class FolderSegments:
    """Segments as files; the folder is made with the first one."""

    def __init__(self, root: Path) -> None:
        self._root = root
        there = next(one for one in (root, *root.parents) if one.exists())
        if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
            raise StoreError(f"FRONTIER_SPILL_URI {root}: nothing can be written below {there}")

    def uri(self, name: str = "") -> str:
        return str(self._root / name)

    def write(self, name: str, data: bytes) -> None:
        path = self._root / name
        try:
            if not path.parent.is_dir():
                self._make(path.parent)
            durable.write(path, data)
        except OSError as error:
            raise StoreError(f"cannot write {path}: {error}") from error

    def read(self, name: str, offset: int, length: int) -> bytes:
        try:
            with (self._root / name).open("rb") as file:
                file.seek(offset)
                return file.read(length)
        except FileNotFoundError as error:
            raise PartLost("it does not exist") from error
        except OSError as error:
            raise StoreError(str(error)) from error

    def exists(self, name: str) -> bool:
        return (self._root / name).exists()

    def delete(self, name: str) -> None:
        path = self._root / name
        try:
            for one in (path, durable.unfinished(path)):
                one.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(str(error)) from error

    def clear(self, folder: str) -> None:
        try:
            with suppress(FileNotFoundError):
                shutil.rmtree(self._root / folder)
        except OSError as error:
            raise StoreError(str(error)) from error

    def _make(self, folder: Path) -> None:
        missing = [one for one in (folder, *folder.parents) if not one.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for one in missing:
            durable.sync_folder(one.parent)


class BucketSegments:
    """Segments as objects of a bucket."""

    def __init__(self, bucket: str, prefix: str) -> None:
        from webcrawl.stores.objects.s3 import Bucket

        meanwhile = "hosts with long queues wait"
        self._bucket = Bucket(bucket, prefix, setting="FRONTIER_SPILL_URI", meanwhile=meanwhile)
        self._bucket.check()

    def uri(self, name: str = "") -> str:
        return self._bucket.uri(name)

    def write(self, name: str, data: bytes) -> None:
        self._bucket.write(name, data)

    def read(self, name: str, offset: int, length: int) -> bytes:
        from webcrawl.stores.objects.s3 import NoSuchObject

        try:
            return self._bucket.read(name, offset, length)
        except NoSuchObject as error:
            raise PartLost("it does not exist") from error

    def exists(self, name: str) -> bool:
        return self._bucket.has(name)

    def delete(self, name: str) -> None:
        self._bucket.delete(name)

    def clear(self, folder: str) -> None:
        for name in self._bucket.names(f"{folder}/"):
            self._bucket.delete(name)
