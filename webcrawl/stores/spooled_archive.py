"""WARC files in an object store, which are written into a local spool folder and uploaded when finished."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from webcrawl.documents.disk import occupied
from webcrawl.documents.exchange import Exchange
from webcrawl.documents.page import Page
from webcrawl.errors import NoSuchObject, StoreError, StoreUnavailable
from webcrawl.stores.folder_archive import FolderArchive, FolderReader
from webcrawl.stores.objects.store import ObjectStore
from webcrawl.stores.uploads import Uploads
from webcrawl.stores.warc.files import (
    FINISHED,
    OPEN,
    WARC,
    StoredFile,
    WarcLocation,
    read_member,
    read_record,
)
from webcrawl.stores.warc.reading import StoredRecord, inflated, parse

CLOSE_SECONDS = 60.0
"""The most seconds that `SpooledArchive.close` uploads. The next run uploads the rest."""

_CHUNK = 8 * 1024 * 1024
_ASKED_SECONDS = 60.0


class SpooledReader:
    """Reads WARC files in an object store, and files that wait for their upload in the folder `spool`."""

    def __init__(self, store: ObjectStore, spool: Path) -> None:
        self._store = store
        self.folder = spool
        self._spooled = FolderReader(spool)
        self._sizes: dict[str, tuple[int, float]] = {}
        """The sizes of objects, and when the store was asked."""

    def read(self, location: WarcLocation) -> StoredRecord:
        """Returns a record from the spool or the store; StoreError when neither has it, or when it is damaged."""
        try:
            return read_record(self.folder / location.file, location.offset, location.length)
        except StoreError:
            if self._is_spooled(location.file):
                raise
        data = self._read_object(location.file, location.offset, location.length)
        try:
            return parse(inflated(data))
        except (zlib.error, StoreError) as error:
            raise StoreError(
                f"{self._store.uri(location.file)} at byte {location.offset}: {error}"
            ) from error

    def chunks(self, location: WarcLocation) -> Iterator[bytes]:
        """Yields the gzip member of a record in chunks, from the spool or the store."""
        try:
            yield from read_member(self.folder / location.file, location.offset, location.length)
            return
        except StoreError:
            if self._is_spooled(location.file):
                raise
        for start in range(0, location.length, _CHUNK):
            yield self._read_object(
                location.file, location.offset + start, min(_CHUNK, location.length - start)
            )

    def has_payload(self, location: WarcLocation) -> bool:
        """Returns whether there is a record with a payload: in the spool, or by the size of the object.

        The record of an object is not read, because pages would wait for the store: objects were verified when they
        were uploaded. The store is asked for each object once a minute.
        """
        if self._is_spooled(location.file):
            return self._spooled.has_payload(location)
        now = time.monotonic()
        size, asked_at = self._sizes.get(location.file, (0, -_ASKED_SECONDS))
        if now - asked_at >= _ASKED_SECONDS:
            try:
                size = self._store.size(location.file) or 0
            except StoreError:
                size = 0
            self._sizes[location.file] = size, now
        return location.offset + location.length <= size

    def files(self) -> Iterator[StoredFile]:
        """Yields the finished WARC files and their indexes, in the store or still in the spool of this machine."""
        local = {file.name: file for file in self._spooled.files()}
        for name, size in self._store.objects():
            if name.endswith(FINISHED) and "/" not in name:
                local.pop(name, None)
                yield StoredFile(name, size, partial(self._store.read, name))
        for file in local.values():
            yield file._replace(read=partial(self._read_part, file))

    def _is_spooled(self, name: str) -> bool:
        return (self.folder / name).exists() or (self.folder / (name + OPEN)).exists()

    def _read_object(self, name: str, offset: int, length: int) -> bytes:
        try:
            return self._store.read(name, offset, length)
        except NoSuchObject as error:
            reason = "another machine may still have to upload it, or STORE_URI is not that of the crawl"
            raise StoreError(f"{error}; {reason}") from error
        except StoreUnavailable as error:  # a reader does not wait for the store to come back
            raise StoreError(str(error)) from error

    def _read_part(self, file: StoredFile, offset: int, length: int) -> bytes:
        """Reads a file of the spool, or the object if the file has been uploaded meanwhile."""
        try:
            return file.read(offset, length)
        except StoreError:
            return self._store.read(file.name, offset, length)


class SpooledArchive(SpooledReader):
    """WARC files in an object store. They are written into the folder `spool`, which belongs to this store alone.

    A page is on the local disk when `write` returns. A thread uploads each finished file and its index, retries while
    the store is unreachable, and deletes them from the spool once the store has verified them: no page is lost when a
    process or the store dies. The first `write`, or `close`, also uploads files that earlier runs left; a process that
    only reads uploads nothing. When `spool_max` bytes wait in the spool, including files of other processes, the
    current file is finished and `write` raises StoreUnavailable until the spool has room.
    """

    def __init__(
        self,
        store: ObjectStore,
        spool: Path,
        *,
        spool_max: int = 0,
        close_seconds: float = CLOSE_SECONDS,
        suffix: str = WARC,
        **files: Any,
    ) -> None:
        """`files`: the other options of FolderArchive."""
        super().__init__(store, spool)
        self._local = FolderArchive(spool, suffix=suffix, **files)
        self._spool_max = spool_max
        self._left = 0
        self._closed = -1
        self._uploads = Uploads(store, spool, suffix)
        self._close_seconds = close_seconds

    def write(self, page: Page) -> WarcLocation:
        """Appends the records of a page to the current file of the spool; StoreUnavailable when the spool is full."""
        return self._appended(lambda: self._local.write(page))

    def write_exchange(self, exchange: Exchange, facts: Mapping[str, str]) -> WarcLocation:
        """Appends the records of an exchange that is no page, like `write`."""
        return self._appended(lambda: self._local.write_exchange(exchange, facts))

    def _appended(self, append: Callable[[], WarcLocation]) -> WarcLocation:
        if self._spool_max and self._left <= 0 and (reason := self._excess()):
            raise StoreUnavailable(reason)
        location = append()
        self._left -= location.length
        self._send_closed()
        return location

    def tend(self) -> str:
        """Does the regular work, see `Archive`. Returns the reason why writing should pause, or ""."""
        lacking = self._local.tend() or (self._excess() if self._spool_max else "")
        if lacking:
            self._local.roll()
        self._uploads.hurry(bool(lacking))
        self._send_closed()
        return lacking

    def _send_closed(self) -> None:
        if self._closed != self._local.closed:
            self._closed = self._local.closed
            self._uploads.wake()

    def _excess(self) -> str:
        """Returns why the spool is full, or ""; sets how many bytes may be written before the next check."""
        waiting = occupied(self.folder)
        self._left = self._spool_max - waiting
        if self._left > 0:
            return ""
        return f"{waiting / 1e6:,.1f} MB wait for {self._store.uri()}: STORE_SPOOL_MAX_BYTES is reached"

    def close(self) -> None:
        """Finishes the current file, and uploads for `close_seconds` at most."""
        try:
            self._local.close()
        finally:
            self._uploads.finish(self._close_seconds)
