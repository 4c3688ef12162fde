"""Where the archive goes: the meaning of STORE_URI."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from webcrawl.config import StoreConfig
from webcrawl.errors import StoreError
from webcrawl.page import Page
from webcrawl.stores.record import StoredRecord
from webcrawl.stores.warc import WarcPlace, WarcWriter, read_record, repair


class Archive(Protocol):
    """A store of exchanges: what is written is on disk when `write` returns. One thread at a time."""

    def write(self, page: Page) -> WarcPlace: ...
    def read(self, place: WarcPlace) -> StoredRecord: ...
    def close(self) -> None: ...


class FolderArchive:
    """WARC files in a folder; files that dead processes left open are repaired first."""

    def __init__(
        self,
        folder: Path,
        *,
        prefix: str = "",
        software: str = "",
        roll_bytes: int = 0,
        info: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot store pages in {folder}: {error}") from error
        self.repaired = repair(folder)
        self._writer = WarcWriter(folder, prefix, software, roll_bytes=roll_bytes, info=info)

    def write(self, page: Page) -> WarcPlace:
        """Append the exchange of a page, or a revisit record when the page is a copy."""
        assert page.exchange is not None
        if page.duplicate_kind == "exact" and page.duplicate_of and page.duplicate_fetched_at:
            return self._writer.write_revisit(page.exchange, page.duplicate_of, page.duplicate_fetched_at)
        return self._writer.write(page.exchange)

    def read(self, place: WarcPlace) -> StoredRecord:
        """A record as it was stored; raises StoreError when it is not there or damaged."""
        return read_record(self.folder / place.file, place.offset, place.length)

    def close(self) -> None:
        """Finish the file in hand, and those that other workers left when they died meanwhile."""
        self._writer.close()
        repair(self.folder)


def open_archive(
    config: StoreConfig, *, prefix: str = "", software: str = "", info: Mapping[str, str] | None = None
) -> Archive:
    """The archive at STORE_URI; raises StoreError when it cannot be used."""
    uri = urlsplit(config.pages)
    if uri.scheme == "s3":
        from webcrawl.stores.s3 import S3Archive

        spool = config.data_dir / "spool"
        return S3Archive(
            uri.netloc,
            uri.path.strip("/"),
            spool,
            prefix=prefix,
            software=software,
            roll_bytes=config.roll_bytes,
            info=info,
        )
    folder = Path(unquote(uri.path))
    return FolderArchive(folder, prefix=prefix, software=software, roll_bytes=config.roll_bytes, info=info)
