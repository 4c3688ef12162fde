"""Brings the tables of the lake up to date with what crawls have stored.

Tables `texts` and `links` consist of the Parquet files that crawls have written: a snapshot names the new ones, and no
row is written twice. Table `pages` has the rows of the metadata database, which each snapshot has whole.

A commit is one step of the database, and the tables are the only record of the files that they have. So after a kill,
the next update adds what is missing, and nothing twice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from webcrawl.config import StoreConfig
from webcrawl.config.extraction import ExtractRule
from webcrawl.config.program import VERSION
from webcrawl.documents.payload import unchanged_since
from webcrawl.lake.catalogue import lake_store, location, open_catalogue, pyarrow, pyiceberg
from webcrawl.lake.table import Change, Committed, LakeTable
from webcrawl.links import arrow as links
from webcrawl.links.sources import link_files_if_any
from webcrawl.results.exports.parts import (
    FIELDS,
    ParquetPart,
    exported_rows,
    extracted_fields,
    with_extracted,
)
from webcrawl.stores.group_commit import batched
from webcrawl.stores.history import UNCHANGED, state
from webcrawl.stores.locations import Row
from webcrawl.stores.metadata import Metadata
from webcrawl.stores.objects.store import ObjectStore, open_store
from webcrawl.stores.tables import texts
from webcrawl.stores.tables.journal import SUFFIX
from webcrawl.stores.tables.merges import merged_names

PAGES = "pages"
BATCH_ROWS = 2_000
FILE_BATCHES = 500
_SINCE, _UNTIL = "contents_since", "contents_until"
PAGE_FIELDS: Mapping[str, str] = {**FIELDS, _SINCE: "time", _UNTIL: "time"}
"""The columns of table `pages`. Texts and links of a page from `contents_since` to `contents_until` have the contents
that the page has now."""


class StoredFiles(NamedTuple):
    """The finished Parquet files that crawls have written: their columns, their store, and location -> bytes."""

    schema: Any
    store: ObjectStore
    sizes: dict[str, int]


def update_lake(
    config: StoreConfig, metadata: Metadata, crawl: str, rules: Sequence[ExtractRule] = ()
) -> dict[str, Committed]:
    """Brings all tables up to date; returns their states by name, without tables that have no rows.

    crawl  the crawl whose run caused this, for the properties of snapshots
    rules  those of EXTRACT, whose fields are columns of table `pages`

    Raises StoreError and LibraryMissing.
    """
    pyiceberg()
    store = lake_store(config)
    about = _about(crawl)
    tables: dict[str, Committed] = {}
    with open_catalogue(config, store) as catalogue:
        tables |= _with_stored_files(catalogue, config, store, _STORED, about)
        with new_page_files(metadata, store, PAGES, rules) as files:
            if files.locations:
                table = LakeTable(catalogue, PAGES, files.schema, store, has_own_files=True)
                try:
                    tables[PAGES] = table.apply(partial(_whole, files.locations), about)
                finally:
                    if table.may_be_committed:
                        files.keep()
    return tables


def update_files(config: StoreConfig, crawl: str, names: Iterable[str]) -> None:
    """Brings the tables `names`, of texts and links, up to date, such as after their files were merged.

    crawl  as for `update_lake`

    Raises StoreError and LibraryMissing.
    """
    pyiceberg()
    store = lake_store(config)
    with open_catalogue(config, store) as catalogue:
        _with_stored_files(catalogue, config, store, names, _about(crawl))


def _about(crawl: str) -> dict[str, str]:
    return {"webcrawl-crawl": crawl, "webcrawl-version": VERSION}


def _with_stored_files(
    catalogue: Any, config: StoreConfig, store: ObjectStore, names: Iterable[str], about: Mapping[str, str]
) -> dict[str, Committed]:
    """Brings the tables `names` up to date with the files that crawls have written; returns their states by name."""
    tables = {}
    for name in names:
        stored = _STORED[name](config)
        if stored.sizes:
            table = LakeTable(catalogue, name, stored.schema, store)
            tables[name] = table.apply(partial(_missing, stored), about)
    return tables


def _missing(stored: StoredFiles, table: LakeTable) -> Change:
    """Returns the stored files that the table never had, and those of this store that it has and that are gone.

    Merging links replaces files by one with the same rows. Reparsing replaces files by shorter ones of the same name,
    which are removed and added.
    """
    known, current, own = table.known(), table.current(), location(stored.store, "")
    gone = {
        path
        for path, file in current.items()
        if path.startswith(own) and stored.sizes.get(path) != file.file_size_in_bytes
    }
    return Change([path for path in stored.sizes if path not in known or path in gone], gone)


def _whole(locations: list[str], table: LakeTable) -> Change:
    return Change(locations, table.current().keys())


def _text_files(config: StoreConfig) -> StoredFiles:
    # finishes the files of killed processes, where this process may delete them
    texts.text_files(config)
    store = open_store(config.tables, "STORE_URI", config.object_stores, check=False)
    return StoredFiles(texts.schema(), store, _sizes(store, merged_names(store)))


def _link_files(config: StoreConfig) -> StoredFiles:
    link_files_if_any(config)
    store = open_store(config.links, "STORE_URI", config.object_stores, check=False)
    merged = merged_names(store)
    return StoredFiles(links.schema(), store, _sizes(store, merged))


def _sizes(store: ObjectStore, left_out: Collection[str] = ()) -> dict[str, int]:
    """Returns the locations of the finished files of a table, in the order of their names, and their bytes."""
    return {
        location(store, name): size
        for name, size in sorted(store.objects())
        # hidden files are unfinished, and folders are not tables of this crawl
        if name.endswith(SUFFIX)
        and "/" not in name
        and not name.startswith(("_", "."))
        and name not in left_out
    }


_STORED: Mapping[str, Callable[[StoreConfig], StoredFiles]] = {"texts": _text_files, "links": _link_files}


class NewPageFiles:
    """New files with all rows: their columns, and their locations. They are deleted again without `keep`."""

    def __init__(self) -> None:
        self.schema: Any = None
        self.locations: list[str] = []
        self.names: list[str] = []
        self.is_kept = False

    def keep(self) -> None:
        self.is_kept = True


@contextmanager
def new_page_files(
    metadata: Metadata, store: ObjectStore, table: str, rules: Sequence[ExtractRule] = ()
) -> Iterator[NewPageFiles]:
    """Writes all rows of the database into new files in the folder of a table; raises StoreError.

    `rules`: those of EXTRACT, whose fields are columns too.
    """
    files, stamp = NewPageFiles(), f"{datetime.now(UTC):%Y%m%d%H%M%S%f}"
    fields, batches = {**PAGE_FIELDS, **extracted_fields(rules)}, _batches(metadata, rules)
    try:
        with store.workspace() as folder:
            while first := next(batches, None):
                path = folder / f"{stamp}-{len(files.names):05}{ParquetPart.suffix}"
                _write(path, fields, chain([first], islice(batches, FILE_BATCHES - 1)))
                files.schema = files.schema or pyarrow().parquet.read_schema(path)
                name = f"{table}/data/{path.name}"
                files.names.append(name)
                store.move_file(name, path)
                files.locations.append(location(store, name))
        yield files
    finally:
        if not files.is_kept:
            for name in files.names:
                store.delete(name)


def _batches(metadata: Metadata, rules: Sequence[ExtractRule]) -> Iterator[Sequence[Row]]:
    rows = with_extracted(exported_rows(map(_with_contents, metadata.scan())), rules)
    return batched(rows, BATCH_ROWS)


def _write(path: Path, fields: Mapping[str, str], batches: Iterable[Sequence[Row]]) -> None:
    part = ParquetPart(path, fields)
    try:
        for batch in batches:
            part.write(batch)
    finally:
        part.close()


def _with_contents(row: Row) -> Row:
    """Returns a row with the times between which an answer had the contents of the page."""
    is_confirmed = row["tried_at"] is not None and row["state"] == state(UNCHANGED)
    until = row["tried_at"] if is_confirmed else row["fetched_at"]
    return {**row, _SINCE: unchanged_since(row), _UNTIL: until}
