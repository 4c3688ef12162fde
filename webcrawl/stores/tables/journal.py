"""The journal of a link store: the rows of pages in the order in which they were stored, until they become Parquet.

A Parquet file can be read only when its end is written, so rows that must survive a kill are appended here first. An
entry is its length, the xxh3 of its bytes, and the bytes: MessagePack of an `Entry`.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO

import msgpack
from xxhash import xxh3_64_intdigest

from webcrawl.documents.disk import failure
from webcrawl.documents.html.link_rows import PackedRows, unpack_rows
from webcrawl.stores.file_lock import try_lock

_EPOCH = datetime.fromtimestamp(0, UTC)
_HEAD = struct.Struct("<IQ")
_MOST_BYTES = 1 << 28
"""A longer entry is damaged: no page has so many rows."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The links of one fetch of one page.

    url, crawl, depth   of the page
    time                of the fetch, in microseconds since 1970
    nofollow            the page says so of all its links
    rows                `LinkRows`, packed; in the order of the page
    read_at             when the archived page was read again, like `time`; None for a fetch
    """

    url: str
    crawl: str
    depth: int
    time: int
    nofollow: bool
    rows: tuple[bytes, ...]
    read_at: int | None = None

    def unpacked(self) -> list[PackedRows]:
        """Returns the rows; raises ValueError if they are damaged."""
        return [unpack_rows(part) for part in self.rows]


def microseconds(moment: datetime) -> int:
    """Returns a time as in `Entry`."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


class Journal:
    """A new journal, locked (flock) while it is open.

    Methods raise StoreError with its path, StoreUnavailable when the disk is full. `is_broken`: it takes nothing more.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self.is_broken = False
        self.begun_at = time.monotonic()
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise failure("create", path, error) from error
        # another process may take it for an abandoned one in between, and deletes it because it is empty
        self.is_ours = try_lock(self._fd, path)

    def write(self, entries: Sequence[Entry]) -> None:
        """Appends all entries or none. They are in the kernel then: a killed process loses none of them."""
        data = b"".join([_packed(entry) for entry in entries])
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError as error:
            try:
                os.ftruncate(self._fd, self.size)
            except OSError:
                # what follows an incomplete entry could not be read
                self.is_broken = True
            raise failure("write", self.path, error) from error
        self.size += len(data)

    def close(self) -> None:
        """Flushes it to the disk, and gives the lock back."""
        try:
            os.fsync(self._fd)
        except OSError as error:
            raise failure("write", self.path, error) from error
        finally:
            os.close(self._fd)


class Reading:
    """Reads the entries of a journal. `damaged` counts those that were skipped, when all are read.

    The last entry may be incomplete, because its writer was killed; that is no damage.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.damaged = 0

    def __iter__(self) -> Iterator[Entry]:
        while len(head := self._file.read(_HEAD.size)) == _HEAD.size:
            length, digest = _HEAD.unpack(head)
            if length > _MOST_BYTES:
                self.damaged += 1
                return
            data = self._file.read(length)
            if len(data) < length:
                return
            entry = _unpacked(data) if xxh3_64_intdigest(data) == digest else None
            if entry is None:
                self.damaged += 1
            else:
                yield entry


def _packed(entry: Entry) -> bytes:
    # `astuple` would copy each value
    values = [getattr(entry, name) for name in Entry.__slots__]
    data: bytes = msgpack.packb(values, unicode_errors="replace")
    return _HEAD.pack(len(data), xxh3_64_intdigest(data)) + data


def _unpacked(data: bytes) -> Entry | None:
    try:
        url, crawl, depth, fetched, nofollow, rows, again = msgpack.unpackb(data)
        if not all(type(part) is bytes for part in rows):
            return None
        read_at = None if again is None else int(again)
        return Entry(str(url), str(crawl), int(depth), int(fetched), bool(nofollow), tuple(rows), read_at)
    except Exception:
        return None
