"""Stores rows as Parquet files in a folder, or in an object store by way of a spool folder, and reads these files."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from webcrawl.config import StoreConfig
from webcrawl.config.libraries import arrow_library
from webcrawl.documents.disk import occupied, prepare
from webcrawl.errors import StoreError, StoreUnavailable, brief
from webcrawl.stores.archive import spool_of
from webcrawl.stores.objects.store import ObjectFile, ObjectStore, open_store
from webcrawl.stores.spooled_archive import CLOSE_SECONDS
from webcrawl.stores.tables.journal import SUFFIX, Journal, Make, finish_journals, journal_path
from webcrawl.stores.uploads import Uploads
from webcrawl.stores.warc.files import unique_name

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0
_FINISH_SECONDS = 60.0


class TableFormat(NamedTuple):
    """The name of a table's rows in messages, and the function that makes its Parquet files from journals."""

    what: str
    make: Make


class TableStore:
    """Writes entries into a journal, and makes Parquet files of journals in its own thread.

    An entry survives a crash of the process once `write` has returned. A journal is finished when it has `roll_bytes`
    or is `roll_seconds` old (0: no limit of age). Journals that dead processes left are finished at the start, once a
    minute, and at the end. `uploads`, if given, sends the finished files. When `spool_max` bytes wait for their upload,
    `write` raises StoreUnavailable. `replaced`: the names of files that were merged into others.
    """

    def __init__(
        self,
        folder: Path,
        crawl: str,
        table: TableFormat,
        *,
        roll_bytes: int,
        roll_seconds: float = 0,
        uploads: Uploads | None = None,
        spool_max: int = 0,
        replaced: Container[str] = (),
        close_seconds: float = CLOSE_SECONDS,
    ) -> None:
        prepare(folder, table.what)
        self._folder, self._crawl, self._table = folder, crawl, table
        self._roll_bytes, self._roll_seconds = roll_bytes, roll_seconds
        self._uploads, self._spool_max, self._close_seconds = uploads, spool_max, close_seconds
        self._replaced = replaced
        self._room = 0
        self._serial = 0
        self._journal: Journal | None = None
        self._lock = threading.Lock()
        self._news, self._ending = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=table.what, daemon=True)
        self._thread.start()

    def write(self, entries: Sequence[bytes]) -> str:
        """Appends all entries or none; returns the name of their file, without suffix.

        Raises StoreError, or StoreUnavailable when there is no room.
        """
        with self._lock:
            if self._uploads is not None and self._spool_max:
                self._check_room()
            if self._journal is not None and self._journal.is_broken:
                self._roll()
            if self._journal is None:
                self._journal = self._begin()
            before = self._journal.size
            self._journal.write(entries)
            self._room -= self._journal.size - before
            name = self._journal.name
            if self._journal.size >= self._roll_bytes:
                self._roll()
            return name

    def has(self, name: str) -> bool:
        """Returns whether there is a file that `write` has named, finished or not, also of another process.

        The object store is asked for each file once a minute.
        """
        if any(
            path.exists() for path in (self._folder / f"{name}{SUFFIX}", journal_path(self._folder, name))
        ):
            return True
        if self._uploads is not None and self._uploads.has(f"{name}{SUFFIX}"):
            return True
        return name in self._replaced

    def close(self) -> None:
        """Finishes all journals, and uploads for `close_seconds` at most."""
        self._ending.set()
        self._news.set()
        self._thread.join()
        try:
            with self._lock:
                self._roll()
            finish_journals(self._folder, self._table.make)
        finally:
            if self._uploads is not None:
                self._uploads.finish(self._close_seconds)

    def _begin(self) -> Journal:
        while True:
            self._serial += 1
            journal = Journal(journal_path(self._folder, unique_name(self._crawl, self._serial)))
            if journal.is_ours:
                return journal
            journal.close()

    def _roll(self) -> None:
        """Leaves the current journal to be finished, as if its process had died.

        A journal that cannot be flushed is finished all the same: its entries have been written, so an error would
        make the caller of `write` write them again.
        """
        journal, self._journal = self._journal, None
        if journal is not None:
            self._news.set()
            try:
                journal.close()
            except StoreError as error:
                logger.warning("%s; its %s are made Parquet all the same", error, self._table.what)

    def _run(self) -> None:
        """Finishes journals until the store is closed."""
        finish_at = 0.0
        while not self._ending.is_set():
            has_rolled = self._news.wait(_LOOK_SECONDS)
            self._news.clear()
            try:
                with self._lock:
                    if self._journal is not None and self._is_old(self._journal):
                        self._roll()
                if has_rolled or time.monotonic() >= finish_at:
                    finish_at = time.monotonic() + _FINISH_SECONDS
                    self._finish()
            except StoreError as error:
                logger.warning("%s; the %s are in a journal, which is tried again", error, self._table.what)
            except Exception:
                logger.exception(
                    "A journal of %s could not be finished, and is tried again", self._table.what
                )

    def _finish(self) -> None:
        """Finishes journals, and starts the upload of all finished files, also of those that earlier runs left."""
        try:
            finish_journals(self._folder, self._table.make)
        finally:
            if self._uploads is not None:
                self._uploads.wake()

    def _is_old(self, journal: Journal) -> bool:
        return 0 < self._roll_seconds <= time.monotonic() - journal.begun_at

    def _check_room(self) -> None:
        """Raises StoreUnavailable when the spool is full; sets how many bytes may be written before the next check."""
        assert self._uploads is not None
        if self._room > 0:
            return
        # the folder is in the spool of the archive, and the limit applies to both
        waiting = occupied(self._folder) + occupied(self._folder.parent)
        self._room = self._spool_max - waiting
        if self._room <= 0:
            self._uploads.wake()
            raise StoreUnavailable(
                f"{waiting / 1e6:,.1f} MB wait in {self._folder.parent}: STORE_SPOOL_MAX_BYTES is reached"
            )


class TableFile:
    """A Parquet file of a table. Methods raise StoreError with its name when it is damaged or cannot be read."""

    def __init__(self, name: str, source: Any, **options: Any) -> None:
        """`source`: a path, or a file object. `options` are those of pyarrow's `ParquetFile`."""
        self.name = name
        arrow = arrow_library("a table in Parquet", "pyarrow.parquet")
        self._damages = (OSError, ValueError, arrow.ArrowException)
        try:
            self._file = arrow.parquet.ParquetFile(source, **options)
            self._metadata = self._file.metadata
        except self._damages as error:
            raise self._damaged(error) from error

    @property
    def groups(self) -> range:
        """The numbers of the file's row groups."""
        return range(self._metadata.num_row_groups)

    @property
    def columns(self) -> list[str]:
        """The names of the file's columns."""
        return list(self._file.schema_arrow.names)

    @property
    def footer(self) -> Mapping[bytes, bytes]:
        """The key-value metadata of the file."""
        return self._metadata.metadata or {}

    def __len__(self) -> int:
        """The number of rows in the file."""
        return int(self._metadata.num_rows)

    def read(self, group: int, columns: Collection[str]) -> Any:
        """Returns columns of a row group as an Arrow table; a column that the file does not have is left out."""
        try:
            return self._file.read_row_group(group, columns=list(columns), use_threads=False)
        except self._damages as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> StoreError:
        why = brief(error).rstrip(".")
        return StoreError(f"{self.name} cannot be read: {why}. Move it away to leave it out")


def parquet_files(store: ObjectStore, *, leave_out: Container[str] = ()) -> list[Callable[[], TableFile]]:
    """Returns functions that open the Parquet files of a store, by name, also those in folders of partitions.

    Names that begin with "_" or "." are left out, as other readers do.
    """
    names = [
        item
        for item in store.objects()
        if item.name.endswith(SUFFIX)
        and item.name not in leave_out
        and not any(part[0] in "_." for part in item.name.split("/"))
    ]
    return [partial(_opened, store, *item) for item in sorted(names)]


def _opened(store: ObjectStore, name: str, size: int) -> TableFile:
    if store.folder is not None:
        return TableFile(str(store.folder / name), store.folder / name)
    return TableFile(store.uri(name), ObjectFile(store, name, size))


def table_location(config: StoreConfig, uri: str) -> tuple[Path, dict[str, Any]]:
    """Returns the folder and the options of a table at a URI below STORE_URI; raises StoreError."""
    store = open_store(uri, "STORE_URI", config.object_stores)
    options: dict[str, Any] = {"roll_seconds": config.roll_seconds}
    if store.folder is not None:
        return store.folder, options
    spool = spool_of(config, uri)
    return spool, options | {"uploads": Uploads(store, spool, SUFFIX), "spool_max": config.spool_max}
