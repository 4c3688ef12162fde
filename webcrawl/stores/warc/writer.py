"""Writes WARC files page by page.

When `write` returns, the page is in the kernel, so killing the process does not lose it. `repair` finishes the file
that a killed process leaves.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Self

from webcrawl.documents.disk import failure
from webcrawl.documents.exchange import Exchange
from webcrawl.errors import StoreError
from webcrawl.stores.file_lock import try_lock
from webcrawl.stores.warc import cdxj
from webcrawl.stores.warc.files import OPEN, WARC, WarcLocation, unique_name
from webcrawl.stores.warc.reading import StoredRecord
from webcrawl.stores.warc.records import (
    Record,
    conversion_record,
    is_compressed,
    metadata_record,
    record_id,
    request_record,
    resource_record,
    response_record,
    revisit_record,
    unmodified_record,
    warcinfo_record,
)
from webcrawl.stores.warc.repair import finish

# the index is kept in memory until its file is finished: 30 MB at most
MAX_INDEX_LINES = 100_000
_CHUNK = 1 << 20
_LEVEL = 5
"""The level of compression by gzip."""


class WarcWriter:
    """Writes exchanges into a series of WARC/1.1 files; one thread at a time.

    The first record begins a file, after a `warcinfo` record with `software` and the lines of `info`. The file is
    finished when it has `roll_bytes` or is `roll_seconds` old (0: no limit of age). A finished file `name.warc.gz` has
    an index `name.cdxj` beside it; files with another `suffix` have no index. Methods raise StoreError with the path,
    or StoreUnavailable when the disk is full. The file is then truncated to its last complete record, and the next
    write may succeed.
    """

    def __init__(
        self,
        folder: Path,
        prefix: str,
        software: str,
        *,
        roll_bytes: int = 1_000_000_000,
        roll_seconds: float = 0,
        suffix: str = WARC,
        info: Mapping[str, str] | None = None,
    ) -> None:
        self._folder = folder
        self._naming = prefix, suffix
        self._info = {
            "software": software,
            "format": "WARC File Format 1.1",
            "conformsTo": "https://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/",
            "hostname": socket.gethostname(),
            **(info or {}),
        }
        self._roll_bytes = roll_bytes
        self._roll_seconds = roll_seconds
        self._serial = 0
        self._fd: int | None = None
        self._name = ""
        self._size = 0
        self._begun_at = 0.0
        self.closed = 0
        """The number of finished files."""
        self._index: list[bytes] = []
        self._warcinfo_id = ""
        # the warcinfo record, until it is written together with the first exchange
        self._opening = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def write(
        self, exchange: Exchange, facts: Mapping[str, str] | None = None, identity: str | None = None
    ) -> WarcLocation:
        """Appends a response, its request, and `facts` as a metadata record. Returns the location of the response.

        A document fetched without HTTP becomes a resource record without a request. `identity` is the ID of its record,
        by default a new ID.
        """
        self._ensure_open()
        record = response_record if exchange.response_head else resource_record
        answer = record(exchange, self._warcinfo_id)
        if identity is not None:
            answer.fields["WARC-Record-ID"] = identity
        return self._write_group(exchange, answer, facts)

    def write_revisit(
        self,
        exchange: Exchange,
        refers_to_url: str,
        refers_to_date: datetime,
        facts: Mapping[str, str] | None = None,
        identity: str | None = None,
    ) -> WarcLocation:
        """Appends a response without its payload, which was archived for `refers_to_url` at `refers_to_date`.

        `identity` is the ID of its record, by default a new ID.
        """
        self._ensure_open()
        record = revisit_record(exchange, self._warcinfo_id, refers_to_url, refers_to_date)
        if identity is not None:
            record.fields["WARC-Record-ID"] = identity
        return self._write_group(exchange, record, facts)

    def write_unmodified(
        self,
        exchange: Exchange,
        refers_to_url: str,
        refers_to_date: datetime,
        digest: str,
        facts: Mapping[str, str] | None = None,
    ) -> WarcLocation:
        """Appends a 304. The payload of this digest was archived for `refers_to_url` at `refers_to_date`."""
        self._ensure_open()
        record = unmodified_record(exchange, self._warcinfo_id, refers_to_url, refers_to_date, digest)
        return self._write_group(exchange, record, facts)

    def write_conversion(
        self, exchange: Exchange, refers_to: str, mime_type: str, text: bytes, language: str | None
    ) -> WarcLocation:
        """Appends a text made from a response, and returns its location.

        `refers_to` is the ID of the record of the response, `language` a code of ISO 639-3.
        """
        self._ensure_open()
        start = self._size + len(self._opening)
        record = conversion_record(exchange, self._warcinfo_id, refers_to, mime_type, text, language)
        _, length = self._append((self._opening,), record.member(_LEVEL))
        self._opening = b""
        return WarcLocation(self._name, start, length)

    def close_old(self) -> None:
        """Finishes the current file if it is `roll_seconds` old, even when no page is written."""
        if self._fd is not None and 0 < self._roll_seconds <= time.monotonic() - self._begun_at:
            self.close()

    def close(self) -> None:
        """Finishes the current file, if any: indexes and renames it. A later write begins a new file."""
        if self._fd is None:
            return
        fd, self._fd = self._fd, None
        lines, self._index = self._index, []
        try:
            if self._size:
                os.fsync(fd)
                finish(self._path, lines)
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

    def _ensure_open(self) -> None:
        """Opens a new file, unless the current file may still grow."""
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
        self._opening = b"".join(opening.member(_LEVEL))

    def _next_name(self) -> str:
        prefix, suffix = self._naming
        self._serial += 1
        return unique_name(prefix, self._serial) + suffix

    def _write_group(
        self, exchange: Exchange, answer: Record, facts: Mapping[str, str] | None
    ) -> WarcLocation:
        """Appends all records of a fetch at once, the response first, because after a crash it is worth the most."""
        about = (exchange, self._warcinfo_id, answer.fields["WARC-Record-ID"])
        others = [request_record(*about)] if exchange.request_head else []
        others += [metadata_record(*about, facts)] if facts else []
        start = self._size + len(self._opening)
        member = answer.member(_LEVEL, is_compressed=is_compressed(exchange.payload))
        lengths = self._append((self._opening,), member, *(record.member(_LEVEL) for record in others))
        location = WarcLocation(self._name, start, lengths[1])
        self._opening = b""
        http_head = answer.block[0] if isinstance(answer.block[0], bytes) else b""
        line = cdxj.line(StoredRecord(answer.fields, http_head, b""), *location)
        if line is not None:
            self._index.append(line)
        return location

    def _append(self, *members: Iterable[bytes]) -> list[int]:
        """Writes members at the end, all or none, in large chunks; returns the length of each."""
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
                    if len(waiting) >= _CHUNK:
                        _write_all(self._fd, waiting)
                        waiting = bytearray()
            _write_all(self._fd, waiting)
        except OSError as error:
            self._truncate(start)
            raise failure("write", self._path, error) from error
        except BaseException:
            self._truncate(start)
            raise
        self._size += sum(lengths)
        return lengths

    def _truncate(self, size: int) -> None:
        if self._fd is not None:
            try:
                os.ftruncate(self._fd, size)
            except OSError:  # leave the file to `repair` and begin a new file
                os.close(self._fd)
                self._fd = None
                self._index = []


def _create_locked(path: Path) -> int | None:
    """Creates a locked file; returns None if `repair` in another process has just treated it as abandoned."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
    if try_lock(fd, path):
        return fd
    os.close(fd)
    return None


def _write_all(fd: int, data: bytes | bytearray) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
