"""The files of a table in a folder: Parquet files, and journals of rows that are not in Parquet files yet.

    broad-20260203040506789-00001-4711-worker.parquet     finished: crawl, time, serial, process, machine
    _broad-20260203050506790-00002-4711-worker.journal    being written, or left by a killed process

Programs that read a folder as one table leave out names that begin with "_".

A Parquet file can be read only when its end is written, so rows that must survive a kill are appended to a journal
first. An entry of a journal is its length, the xxh3 of its bytes, and the bytes.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, TypeAlias

from xxhash import xxh3_64_intdigest

from webcrawl.documents.disk import failure, flush
from webcrawl.errors import StoreError
from webcrawl.stores.file_lock import locked, try_lock

_HEAD = struct.Struct("<IQ")
_MOST_BYTES = 1 << 28
"""The most bytes of an entry. A longer entry is damaged, because the rows and the text of a page are limited."""

SUFFIX = ".parquet"
Make: TypeAlias = Callable[[Path, Path], bool]
"""Makes a Parquet file (the second path) from a journal; returns False and makes no file if there are no rows."""
_HIDDEN, _JOURNAL, _OPEN = "_", ".journal", ".open"


class Journal:
    """A new journal, locked (flock) while it is open.

    Methods raise StoreError with its path, StoreUnavailable when the disk is full. `name`: that of its Parquet file
    without suffix. `is_broken`: no entry can be added.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = _final_name(path)
        self.size = 0
        self.is_broken = False
        self.begun_at = time.monotonic()
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise failure("create", path, error) from error
        # before the lock, another process may delete the journal, which is empty and looks abandoned
        self.is_ours = try_lock(self._fd, path)

    def write(self, entries: Sequence[bytes]) -> None:
        """Appends all entries or none. They are then in the kernel, so a killed process loses none."""
        data = b"".join([_HEAD.pack(len(entry), xxh3_64_intdigest(entry)) + entry for entry in entries])
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError as error:
            try:
                os.ftruncate(self._fd, self.size)
            except OSError:
                # entries after an incomplete entry could not be read
                self.is_broken = True
            raise failure("write", self.path, error) from error
        self.size += len(data)

    def close(self) -> None:
        """Flushes the journal to the disk, and releases its lock."""
        try:
            os.fsync(self._fd)
        except OSError as error:
            raise failure("write", self.path, error) from error
        finally:
            os.close(self._fd)


class JournalReader:
    """Reads the entries of a journal. After the last entry, `damaged` is the number of entries that were skipped.

    An incomplete last entry does not count as damaged: its writer was killed.
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


def journal_path(folder: Path, name: str) -> Path:
    """Returns the path of the journal that becomes the Parquet file `name`."""
    return folder / f"{_HIDDEN}{name}{_JOURNAL}"


def _final_name(journal: Path) -> str:
    return journal.name.removeprefix(_HIDDEN).removesuffix(_JOURNAL)


def journals(folder: Path) -> list[Path]:
    """Returns the journals in a folder, by name."""
    return sorted(folder.glob(f"{_HIDDEN}*{_JOURNAL}"))


def finish_journals(folder: Path, make: Make) -> None:
    """Makes Parquet of the journals that no living process writes to, and deletes them.

    A journal that cannot be finished stays, and the others are finished. Then the last error is raised: StoreError, or
    StoreUnavailable when the disk is full. Several processes may call this at any time.
    """
    error: StoreError | None = None
    for path in journals(folder):
        try:
            with locked(path) as fd:
                if fd is not None:
                    _finish(path, make)
        except OSError as problem:
            error = failure("make Parquet of", path, problem)
    if error is not None:
        raise error


def _finish(path: Path, make: Make) -> None:
    """Makes the Parquet file of a journal, always under the same name.

    The journal is deleted last, so after a crash at any point the file is made again or is complete.
    """
    final = path.with_name(_final_name(path) + SUFFIX)
    if not final.exists():
        unfinished = path.with_name(_HIDDEN + final.name + _OPEN)
        if make(path, unfinished):
            flush(unfinished)
            unfinished.rename(final)
            flush(path.parent)
    path.unlink()
