"""Stores the links of pages in a folder, or in an object store by way of a spool folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from webcrawl.config import StoreConfig
from webcrawl.links.arrow import pyarrow
from webcrawl.links.entry import StoredLinks, pack_entry
from webcrawl.links.tables import make_table
from webcrawl.stores.tables.store import TableFormat, TableStore, table_location

ROLL_BYTES = 50_000_000
"""The size in bytes at which a journal becomes a Parquet file: about 500,000 links, 5 MB in a Parquet file."""

_LINKS = TableFormat("links", make_table)


class LinkStore:
    """Writes the links of pages; see `TableStore`."""

    def __init__(self, folder: Path, crawl: str, *, roll_bytes: int = ROLL_BYTES, **options: Any) -> None:
        pyarrow()
        self._table = TableStore(folder, crawl, _LINKS, roll_bytes=roll_bytes, **options)

    def write(self, entries: Sequence[StoredLinks]) -> None:
        """Appends all links of pages or none; raises StoreError, or StoreUnavailable when there is no room."""
        self._table.write([pack_entry(entry) for entry in entries])

    def close(self) -> None:
        """See `TableStore.close`."""
        self._table.close()


def open_link_store(config: StoreConfig, crawl: str) -> LinkStore:
    """Returns the link store of a crawl; raises StoreError when it cannot be used, LibraryMissing without pyarrow."""
    pyarrow()
    folder, options = table_location(config, config.links)
    return LinkStore(folder, crawl, **options)
