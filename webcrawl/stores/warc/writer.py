"""WARC files in a folder: writing page by page, mending after a crash, reading back.

A file carries the suffix `.open` and a lock (flock) while it is written, and loses both when it is closed.
What `write` has returned from is in the kernel's hands: a killed process loses nothing of it and leaves a
file that `repair` closes in its place.
"""

from __future__ import annotations

import os
import re
import socket
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from webcrawl.documents.disk import failure
from webcrawl.documents.exchange import Exchange
from webcrawl.errors import StoreError
from webcrawl.stores.file_lock import claimed, lock
from webcrawl.stores.warc import cdxj
from webcrawl.stores.warc.records import (
    Record,
    StoredRecord,
    inflated,
    level_for,
    members,
    metadata_record,
    parse,
    record_id,
    request_record,
    resource_record,
    response_record,
    revisit_record,
    unmodified_record,
    warcinfo_record,
)

OPEN = ".open"
WARC, INDEX = FINISHED = (".warc.gz", ".cdxj")
"""How the names of a finished file and of its index end."""
# An index line is kept in memory until its file is closed: 30 MB at most.
MAX_INDEX_LINES = 100_000
_STROKE = 1 << 20
_OURS = re.compile(r"(.*?)-\d{17}-\d{5,}-\d+-")
_UNSAFE = re.compile(r"[^A-Za-z0-9._]+")


class WarcPlace(NamedTuple):
    """Where a record is: the file's name in its folder (without `.open`), and its gzip member in bytes."""

    file: str
    offset: int
    length: int


class StoredFile(NamedTuple):
    """A file that is finished, in whatever store: `read(offset, length)` gives fewer bytes only at its end."""

    name: str
    size: int
    read: Callable[[int, int], bytes]

    def chunks(self, length: int) -> Iterator[bytes]:
        """All of it, so many bytes at a time."""
        for offset in range(0, self.size, length):
            yield self.read(offset, min(length, self.size - offset))


class WarcWriter:
    """Writes exchanges into a growing series of WARC/1.1 files; one thread at a time.

    Level 5 writes a page in 0.56 ms (6 takes 0.71 for 1.6% less, warcio 1.13). A file is begun by the first
    record, with a `warcinfo` naming `software` and the lines of `info`, and closed once it has `roll_bytes` or is
    `roll_seconds` old (0: however old). Beside each closed file `name.warc.gz` lies its index `name.cdxj`. Every
    method raises StoreError naming the file, StoreUnavailable when the disk is full; the file is then cut back to
    its last whole record, and the next write may succeed.
    """

    def __init__(
        self,
        folder: Path,
        prefix: str,
        software: str,
        *,
        roll_bytes: int = 1_000_000_000,
        roll_seconds: float = 0,
        compress_level: int = 6,
        info: Mapping[str, str] | None = None,
    ) -> None:
        self._folder = folder
        self._prefix = prefix_of(prefix)
        self._info = {
            "software": software,
            "format": "WARC File Format 1.1",
            "conformsTo": "https://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/",
            "hostname": socket.gethostname(),
            **(info or {}),
        }
        self._roll_bytes = roll_bytes
        self._roll_seconds = roll_seconds
        self._level = compress_level
        self._serial = 0
        self._fd: int | None = None
        self._name = ""
        self._size = 0
        self._begun_at = 0.0
        self.closed = 0
        """Files that were finished."""
        self._index: list[bytes] = []
        self._warcinfo_id = ""
        # The warcinfo record, until it is written together with the first exchange.
        self._opening = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def write(self, exchange: Exchange, facts: Mapping[str, str] | None = None) -> WarcPlace:
        """Append a response, its request, and what else is known as a metadata record; the place is the response's.

        What came without HTTP is a resource, without a request.
        """
        self._make_room()
        record = response_record if exchange.response_head else resource_record
        return self._write_group(exchange, record(exchange, self._warcinfo_id), facts)

    def write_revisit(
        self,
        exchange: Exchange,
        refers_to_url: str,
        refers_to_date: datetime,
        facts: Mapping[str, str] | None = None,
    ) -> WarcPlace:
        """Append an answer without its payload, which was archived when `refers_to_url` was fetched."""
        self._make_room()
        record = revisit_record(exchange, self._warcinfo_id, refers_to_url, refers_to_date)
        return self._write_group(exchange, record, facts)

    def write_unmodified(
        self,
        exchange: Exchange,
        refers_to_url: str,
        refers_to_date: datetime,
        digest: str,
        facts: Mapping[str, str] | None = None,
    ) -> WarcPlace:
        """Append an answer 304: the payload, of this digest, is that of the URL, or of another one, at that time."""
        self._make_room()
        record = unmodified_record(exchange, self._warcinfo_id, refers_to_url, refers_to_date, digest)
        return self._write_group(exchange, record, facts)

    def close_old(self) -> None:
        """Close the file in hand if it is `roll_seconds` old: for when nothing more is written."""
        if self._fd is not None and 0 < self._roll_seconds <= time.monotonic() - self._begun_at:
            self.close()

    def close(self) -> None:
        """Finish the file in hand, if any: index it, give it its final name. A later write begins another."""
        if self._fd is None:
            return
        fd, self._fd = self._fd, None
        lines, self._index = self._index, []
        try:
            if self._size:
                os.fsync(fd)
                _finish(self._path, lines)
                self.closed += 1
            else:
                self._path.unlink()
        except OSError as error:
            raise failure("close", self._path, error) from error
        finally:
            os.close(fd)

    @property
    def _path(self) -> Path:
        return self._folder / (self._name + OPEN)

    def _make_room(self) -> None:
        """Have a file open that may still grow."""
        if self._size >= self._roll_bytes or len(self._index) >= MAX_INDEX_LINES:
            self.close()
        self.close_old()
        if self._fd is None:
            self._begin()

    def _begin(self) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            while self._fd is None:
                self._name = self._next_name()
                self._fd = _create_locked(self._path)
        except OSError as error:
            raise failure("create", self._path, error) from error
        self._size = 0
        self._begun_at = time.monotonic()
        self._warcinfo_id = record_id()
        opening = warcinfo_record(self._warcinfo_id, self._name, self._info)
        self._opening = b"".join(opening.member(self._level))

    def _next_name(self) -> str:
        stamp = datetime.now(UTC).strftime("%Y%m%d%H%M%S%f")[:17]
        host = _UNSAFE.sub("_", socket.gethostname())
        self._serial += 1
        return f"{self._prefix}-{stamp}-{self._serial:05}-{os.getpid()}-{host}.warc.gz"

    def _write_group(self, exchange: Exchange, answer: Record, facts: Mapping[str, str] | None) -> WarcPlace:
        """All records in one stroke, the answer first: if only one of them survives, it should be that."""
        about = (exchange, self._warcinfo_id, answer.fields["WARC-Record-ID"])
        others = [request_record(*about)] if exchange.request_head else []
        others += [metadata_record(*about, facts)] if facts else []
        start = self._size + len(self._opening)
        level = level_for(exchange.payload, self._level)
        length = self._append(
            (self._opening,), answer.member(level), *(record.member(self._level) for record in others)
        )[1]
        place = WarcPlace(self._name, start, length)
        self._opening = b""
        http_head = answer.block[0] if isinstance(answer.block[0], bytes) else b""
        line = cdxj.line(StoredRecord(answer.fields, http_head, b""), *place)
        if line is not None:
            self._index.append(line)
        return place

    def _append(self, *members: Iterable[bytes]) -> list[int]:
        """Write at the end, in few strokes, whole or not at all; returns the length of each."""
        if self._fd is None:
            raise StoreError("no WARC file is open")
        start = self._size
        lengths: list[int] = []
        try:
            waiting = bytearray()
            for member in members:
                lengths.append(0)
                for piece in member:
                    waiting += piece
                    lengths[-1] += len(piece)
                    if len(waiting) >= _STROKE:
                        _write_all(self._fd, waiting)
                        waiting = bytearray()
            _write_all(self._fd, waiting)
        except OSError as error:
            self._cut_back(start)
            raise failure("write", self._path, error) from error
        except BaseException:
            self._cut_back(start)
            raise
        self._size += sum(lengths)
        return lengths

    def _cut_back(self, size: int) -> None:
        if self._fd is not None:
            try:
                os.ftruncate(self._fd, size)
            except OSError:  # not even that: leave the file for `repair` and begin another one
                os.close(self._fd)
                self._fd = None
                self._index = []


def stored_files(folder: Path) -> Iterator[StoredFile]:
    """The finished WARC files and indexes in a folder, by name. None is kept open."""

    def reader(path: Path) -> Callable[[int, int], bytes]:
        def read(offset: int, length: int) -> bytes:
            try:
                with path.open("rb") as file:
                    file.seek(offset)
                    return file.read(length)
            except OSError as error:
                raise failure("read", path, error) from error

        return read

    for path in sorted(folder.iterdir()):
        if path.name.endswith(FINISHED):
            yield StoredFile(path.name, path.stat().st_size, reader(path))


def repair(folder: Path) -> list[Path]:
    """Close the files that dead processes left open, and return their final paths.

    Each is cut off after its last whole gzip member, indexed and renamed; one without any whole member is
    removed. Files of living writers, known by their lock, are left alone. May be called at any time, by
    several processes at once.
    """
    repaired: list[Path] = []
    for path in sorted(folder.glob(f"*.warc.gz{OPEN}")):
        try:
            with claimed(path) as fd:
                if fd is not None and _mend(fd, path):
                    repaired.append(path.with_suffix(""))
        except OSError as error:
            raise failure("repair", path, error) from error
    return repaired


def read_record(path: Path, offset: int, length: int) -> StoredRecord:
    """The record whose gzip member is `length` bytes at `offset`; the file may still be being written."""
    data = b"".join(read_member(path, offset, length))
    try:
        return parse(inflated(data))
    except (zlib.error, StoreError) as error:
        raise StoreError(f"{path}: no record at byte {offset}: {error}") from error


def read_member(path: Path, offset: int, length: int) -> Iterator[bytes]:
    """A record as it is in its file, at most a megabyte at a time; see `read_record`."""
    # The third try is for a file that is closed, hence renamed, between the first two.
    for candidate in (path, path.with_name(path.name + OPEN), path):
        try:
            with candidate.open("rb") as file:
                file.seek(offset)
                while chunk := file.read(min(length, _STROKE)):
                    length -= len(chunk)
                    yield chunk
            return
        except FileNotFoundError:
            continue
        except OSError as error:
            raise failure("read", candidate, error) from error
    raise StoreError(f"{path}: no such file")


def _mend(fd: int, path: Path) -> bool:
    """Do what `WarcWriter.close` would have done; False if there was nothing to keep."""
    lines: list[bytes] = []
    end = 0
    name = path.with_suffix("").name
    with os.fdopen(os.dup(fd), "rb") as file:
        for offset, length, start in members(file):
            end = offset + length
            try:
                line = cdxj.line(parse(start), name, offset, length)
            except StoreError:  # whole, but not ours: keep it, unindexed
                line = None
            if line is not None:
                lines.append(line)
    if end == 0:
        path.unlink()
        return False
    os.ftruncate(fd, end)
    os.fsync(fd)
    _finish(path, lines)
    return True


def _finish(path: Path, lines: list[bytes]) -> None:
    """Index first, name last: a crash between the two leaves a file to repair, never one without index."""
    final = path.with_suffix("")
    index = final.with_name(index_name(final.name))
    unfinished = index.with_name(index.name + OPEN)
    unfinished.write_bytes(b"".join(sorted(lines)))
    unfinished.replace(index)
    path.rename(final)


def index_name(name: str) -> str:
    """What the index of a WARC file is called."""
    return name.removesuffix(WARC) + INDEX


def crawl_of(name: str) -> str | None:
    """The crawl of which a WARC file is, by its name; None when it was not written here."""
    match = _OURS.match(name)
    return match[1] if match else None


def prefix_of(crawl: str) -> str:
    """What the names of a crawl's files begin with, up to a dash."""
    return _UNSAFE.sub("_", crawl)


def _create_locked(path: Path) -> int | None:
    """A new, locked file; None if `repair` in another process took it for a leftover in this very moment."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
    if lock(fd, path):
        return fd
    os.close(fd)
    return None


def _write_all(fd: int, data: bytes | bytearray) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
