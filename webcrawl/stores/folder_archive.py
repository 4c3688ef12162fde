"""WARC files in a folder: reading them, and writing the exchanges or the text of pages."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from webcrawl.documents.disk import prepare, shortage
from webcrawl.documents.exchange import Exchange
from webcrawl.documents.page import Page
from webcrawl.errors import StoreError, StoreUnavailable
from webcrawl.stores.warc.files import (
    WARC,
    StoredFile,
    WarcLocation,
    read_member,
    read_record,
    stored_files,
)
from webcrawl.stores.warc.reading import StoredRecord, begun, has_body
from webcrawl.stores.warc.records import record_id
from webcrawl.stores.warc.repair import repair
from webcrawl.stores.warc.writer import WarcWriter

_REPAIR_SECONDS = 60.0


class FolderReader:
    """Reads WARC files in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, location: WarcLocation) -> StoredRecord:
        """Returns a record; raises StoreError when it is missing or damaged."""
        return read_record(self.folder / location.file, location.offset, location.length)

    def chunks(self, location: WarcLocation) -> Iterator[bytes]:
        """Yields the gzip member of a record in chunks; raises StoreError when it is missing."""
        return read_member(self.folder / location.file, location.offset, location.length)

    def has_payload(self, location: WarcLocation) -> bool:
        """Returns whether there is a record with a payload; reads its header."""
        try:
            return has_body(begun(self.chunks(location))[0])
        except StoreError:
            return False

    def files(self) -> Iterator[StoredFile]:
        """Yields the finished WARC files and their indexes."""
        return stored_files(self.folder) if self.folder.is_dir() else iter(())


class FolderArchive(FolderReader):
    """WARC files in a folder. Repairs files that dead processes left open, at the start and once a minute.

    Asks to pause while the disk has less than `min_free` bytes, or `max_share` of it is used.
    """

    def __init__(
        self,
        folder: Path,
        *,
        prefix: str = "",
        software: str = "",
        roll_bytes: int = 1_000_000_000,
        roll_seconds: float = 0,
        min_free: int = 0,
        max_share: float = 1.0,
        info: Mapping[str, str] | None = None,
        suffix: str = WARC,
        append: Callable[[WarcWriter, Page], WarcLocation] | None = None,
    ) -> None:
        """`append` writes the records of a page, by default the records of its exchange; `suffix`: see WarcWriter."""
        super().__init__(folder)
        prepare(folder, "pages")
        self.repaired = repair(folder)
        self._min_free = min_free
        self._max_share = max_share
        self._left_open = False
        self._repaired_at = time.monotonic()
        self._repaired = 0
        self._append = append or _append_exchange
        self._writer = WarcWriter(
            folder,
            prefix,
            software,
            roll_bytes=roll_bytes,
            roll_seconds=roll_seconds,
            info=info,
            suffix=suffix,
        )

    def write(self, page: Page) -> WarcLocation:
        """Appends the records of a page."""
        return self._appended(lambda writer: self._append(writer, page))

    def write_exchange(self, exchange: Exchange, facts: Mapping[str, str]) -> WarcLocation:
        """Appends the records of an exchange that is no page, with `facts` as a metadata record."""
        return self._appended(lambda writer: writer.write(exchange, facts))

    def _appended(self, append: Callable[[WarcWriter], WarcLocation]) -> WarcLocation:
        try:
            return append(self._writer)
        except StoreUnavailable:
            self._left_open = True  # a file may have been left open because the disk is full
            raise

    def tend(self) -> str:
        """Finishes old files and repairs abandoned files. Returns the reason why writing should pause, or ""."""
        short = shortage(self.folder, self._min_free, self._max_share)
        try:
            self._writer.close_old()
            dead = time.monotonic() - self._repaired_at > _REPAIR_SECONDS
            if (self._left_open or dead) and not short:
                self._repaired += len(repair(self.folder))
                self._repaired_at, self._left_open = time.monotonic(), False
        except StoreUnavailable as error:
            self._left_open = True
            return str(error)
        return short

    @property
    def closed(self) -> int:
        """The number of finished files, including files of dead workers."""
        return self._writer.closed + self._repaired

    def roll(self) -> None:
        """Finishes the current file, if the disk has room for this; the next write begins a new file."""
        try:
            self._writer.close()
        except StoreUnavailable:
            self._left_open = True

    def close(self) -> None:
        """Finishes the current file, and the files of workers that have died meanwhile."""
        self._writer.close()
        repair(self.folder)


def _append_exchange(writer: WarcWriter, page: Page) -> WarcLocation:
    """Appends the exchange of a page, or a revisit record if its payload is archived.

    Sets `record_id`, unless the page is a 304 or a copy of another page, which have no text of their own.
    """
    exchange, facts = page.archived.exchange, _facts(page)
    assert exchange is not None
    if fetched_at := page.archived.duplicate_fetched_at:
        if exchange.status == 304 and page.digest:
            first = page.duplicate_of or exchange.url
            return writer.write_unmodified(exchange, first, fetched_at, page.digest, facts)
        if page.duplicate_kind == "exact" and page.duplicate_of:
            return writer.write_revisit(exchange, page.duplicate_of, fetched_at, facts)
    page.archived.record_id = record_id()
    if earlier := page.archived.payload:
        refers_to = earlier.url, earlier.fetched_at
        return writer.write_revisit(exchange, *refers_to, facts, page.archived.record_id)
    return writer.write(exchange, facts, page.archived.record_id)


def _facts(page: Page) -> dict[str, str]:
    """Returns the fields of a page's metadata record, mostly with the names of Heritrix.

    The record takes 400 bytes, compared with 12 kB for a compressed HTML page of 86 kB. Outlinks are left out: they
    would take seven times as much, and are in the response.
    """
    facts = {"via": page.referrer} if page.referrer else {}
    # Heritrix writes a letter for each hop: L is a link
    facts |= {"hopsFromSeed": "L" * page.depth} if page.depth else {"seed": ""}
    if page.latency is not None:
        facts["firstByteMs"] = f"{page.latency * 1000:.0f}"
    facts |= {"mimeType": page.mime_type} if page.mime_type else {}
    return facts | ({"charset": page.charset} if page.charset else {})
