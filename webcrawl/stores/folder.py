"""WARC files in a folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from webcrawl.errors import StoreError
from webcrawl.page import Page
from webcrawl.stores.record import StoredRecord
from webcrawl.stores.warc import WarcPlace, WarcWriter, read_record, repair


class FolderArchive:
    """WARC files in a folder; files that dead processes left open are repaired first."""

    def __init__(
        self,
        folder: Path,
        *,
        prefix: str = "",
        software: str = "",
        roll_bytes: int = 1_000_000_000,
        info: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot store pages in {folder}: {error.strerror}") from error
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            raise StoreError(f"cannot store pages in {folder}: permission denied")
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
