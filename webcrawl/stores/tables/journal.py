"""The journal of a table: rows in the order in which they were stored, until they become Parquet.

A Parquet file can be read only when its end is written, so rows that must survive a kill are appended here first. An
entry is its length, the xxh3 of its bytes, and the bytes.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from xxhash import xxh3_64_intdigest

from webcrawl.documents.disk import failure
from webcrawl.stores.file_lock import try_lock

_HEAD = struct.Struct("<IQ")
_MOST_BYTES = 1 << 28
"""A longer entry is damaged: no page has so many rows or so much text."""


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

    def write(self, entries: Sequence[bytes]) -> None:
        """Appends all entries or none. They are in the kernel then: a killed process loses none of them."""
        data = b"".join([_HEAD.pack(len(one), xxh3_64_intdigest(one)) + one for one in entries])
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

    def __iter__(self) -> Iterator[bytes]:
        while len(head := self._file.read(_HEAD.size)) == _HEAD.size:
            length, digest = _HEAD.unpack(head)
            if length > _MOST_BYTES:
                self.damaged += 1
                return
            data = self._file.read(length)
            if len(data) < length:
                return
            if xxh3_64_intdigest(data) == digest:
                yield data
            else:
                self.damaged += 1
