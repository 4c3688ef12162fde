"""The Parquet files of a link store, opened for reading in a folder or an object store."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from webcrawl.config import StoreConfig
from webcrawl.errors import StoreError
from webcrawl.links.arrow import FETCHES, PAGES, pyarrow, schema
from webcrawl.links.store import make_table
from webcrawl.stores.archive import spool_of
from webcrawl.stores.objects.store import ObjectFile, ObjectStore, open_store
from webcrawl.stores.tables.journal import SUFFIX, finish_journals, journals
from webcrawl.stores.tables.merges import finish_merges, merged_names
from webcrawl.stores.tables.store import TableFile

_SEARCHED = ["from_host", "from_url", "to_host", "to_url"]
"""The columns whose distinct values are read once, so that only distinct values are compared."""


class LinkFile(TableFile):
    """A Parquet file of links."""

    def __init__(self, name: str, source: Any) -> None:
        super().__init__(name, source, read_dictionary=_SEARCHED, page_checksum_verification=True)
        if missing := sorted({*schema().names} - {*self._file.schema_arrow.names}):
            raise StoreError(f"{name} is not a file of links: it has no column {missing[0]}")
        self._columns = {name: number for number, name in enumerate(self._file.schema_arrow.names)}

    def may_have(self, group: int, column: str, values: Sequence[str]) -> bool:
        """Returns whether a row group may have one of `values` in a column, by the column's least and largest value."""
        statistics = self._metadata.row_group(group).column(self._columns[column]).statistics
        if statistics is None or not statistics.has_min_max:
            return True
        return any(statistics.min <= value <= statistics.max for value in values)

    def may_overlap(self, group: int, column: str, least: str, largest: str) -> bool:
        """Returns whether a row group may have a value from `least` to `largest` in a column."""
        statistics = self._metadata.row_group(group).column(self._columns[column]).statistics
        if statistics is None or not statistics.has_min_max:
            return True
        return bool(statistics.min <= largest and least <= statistics.max)

    def counts(
        self, group: int, column: str, values: Any, chosen: NDArray[np.uint8] | None = None
    ) -> Iterator[tuple[str, int]]:
        """Yields the values of an Arrow array that a column of _SEARCHED has in a group, with their numbers of rows.

        `chosen`: a bit for each row of the group, whether it counts.
        """
        arrow, start = pyarrow(), 0
        bits = None if chosen is None else np.unpackbits(chosen)
        for chunk in self.read(group, [column])[column].chunks:
            codes = chunk.indices.to_numpy()
            if bits is not None:
                codes = codes[bits[start : start + len(codes)] == 1]
            start += len(chunk)
            rows = np.bincount(codes, minlength=len(chunk.dictionary))
            wanted = arrow.compute.is_in(chunk.dictionary, value_set=values).to_numpy(zero_copy_only=False)
            for code in np.flatnonzero(wanted & (rows > 0)):
                yield chunk.dictionary[int(code)].as_py(), int(rows[code])

    def may_have_page(self, urls: Sequence[str]) -> bool:
        """Returns whether the file may have links of one of these pages."""
        digests = self.pages()
        return digests is None or any(xxh3_64_intdigest(url.encode()) in digests for url in urls)

    def pages(self) -> NDArray[np.uint64] | None:
        """Returns the sorted hashes of the file's pages; None if other software has rewritten the file."""
        packed = (self._metadata.metadata or {}).get(PAGES)
        if packed is None:
            return None
        try:
            return np.frombuffer(base64.b64decode(packed), dtype="<u8")
        except ValueError as error:
            raise self._damaged(error) from error

    def has_pages_once(self) -> bool:
        """Returns whether the file is known to have each of its pages from one fetch only."""
        pages, fetches = self.pages(), (self._metadata.metadata or {}).get(FETCHES)
        return pages is not None and fetches == str(len(pages)).encode()

    def rows(self, group: int, column: str, values: Any) -> Any:
        """Returns for each row of a group whether a column of _SEARCHED has one of `values`, as an Arrow array."""
        arrow = pyarrow()
        chunks = [
            arrow.compute.is_in(chunk.dictionary, value_set=values).take(chunk.indices)
            for chunk in self.read(group, [column])[column].chunks
        ]
        return arrow.chunked_array(chunks, arrow.bool_())


@dataclass(frozen=True)
class LinkFiles:
    """The files of a link store.

    openers    functions that open a file each
    unfinished the number of journals that crawls are writing; their links are in no file yet
    addresses  the URIs of the files, for programs that open them themselves
    """

    openers: list[Callable[[], LinkFile]]
    unfinished: int
    addresses: list[str]


def link_files(config: StoreConfig) -> LinkFiles:
    """Returns the files of the link store; raises StoreError if there are none, LibraryMissing without pyarrow.

    Where this process may write, journals that dead processes left are finished first.
    """
    files = link_files_if_any(config)
    if files is None:
        store = open_store(config.links, "STORE_URI", config.object_stores, check=False)
        raise StoreError(f"no links are stored in {store.uri()}: crawl with LINKS = True")
    return files


def link_files_if_any(config: StoreConfig) -> LinkFiles | None:
    """Returns the files of the link store, or None if there are none; see `link_files`."""
    pyarrow()
    store = open_store(config.links, "STORE_URI", config.object_stores, check=False)
    folder = store.folder or spool_of(config, config.links)
    if os.access(folder, os.W_OK | os.X_OK):
        finish_journals(folder, make_table)
        if store.folder is not None:
            finish_merges(store)
    merged = merged_names(store)
    local = {path.name: path for path in folder.glob(f"[!_.]*{SUFFIX}")} if folder.is_dir() else {}
    paths = [path for name, path in sorted(local.items()) if name not in merged]
    openers, addresses = [_opener(path) for path in paths], [path.absolute().as_uri() for path in paths]
    if store.folder is None:
        sizes = {name: size for name, size in store.objects() if name.endswith(SUFFIX) and "/" not in name}
        names = sorted({*sizes} - {*local} - merged)
        openers += [_remote(store, name, sizes[name]) for name in names]
        addresses += [store.uri(name) for name in names]
    unfinished = journals(folder)
    return LinkFiles(openers, len(unfinished), addresses) if openers or unfinished else None


def has_link_files(config: StoreConfig) -> bool:
    """Returns whether there are any files or journals, also without pyarrow."""
    store = open_store(config.links, "STORE_URI", config.object_stores, check=False)
    folder = store.folder or spool_of(config, config.links)
    local = folder.is_dir() and (journals(folder) or any(folder.glob(f"[!_.]*{SUFFIX}")))
    return bool(local) or (store.folder is None and any(name.endswith(SUFFIX) for name, _ in store.objects()))


def _opener(path: Path) -> Callable[[], LinkFile]:
    return lambda: LinkFile(str(path), path)


def _remote(store: ObjectStore, name: str, size: int) -> Callable[[], LinkFile]:
    return lambda: LinkFile(store.uri(name), ObjectFile(store, name, size))
