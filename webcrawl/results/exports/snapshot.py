"""Exports the current rows of stored links or texts: of each page those of the contents that it has now."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from webcrawl.config import StoreConfig
from webcrawl.errors import StoreError, brief
from webcrawl.links import arrow as links
from webcrawl.links.arrow import pyarrow
from webcrawl.links.sources import link_files
from webcrawl.stores.archive import spool_of
from webcrawl.stores.current_pages import CurrentPages, CurrentRows
from webcrawl.stores.objects.registry import open_store
from webcrawl.stores.objects.store import ObjectFile
from webcrawl.stores.tables import texts
from webcrawl.stores.tables.journal import SUFFIX, finish_journals

TableName = Literal["links", "texts"]
GROUP_BYTES = 8_000_000
"""The bytes of rows in memory, which become a row group."""
FILE_BYTES = 500_000_000


class _TableFile(Protocol):
    """A Parquet file of a table."""

    @property
    def groups(self) -> range: ...

    def read(self, group: int, columns: Sequence[str]) -> Any: ...


class _Table(NamedTuple):
    """How a table is read. `columns`: those of the URL and the time of a fetch."""

    columns: tuple[str, str]
    only_good: bool
    schema: Callable[[], Any]
    files: Callable[[StoreConfig], list[Callable[[], _TableFile]]]


class _TextFile:
    """A Parquet file of texts. Methods raise StoreError with its name when it is damaged or cannot be read."""

    def __init__(self, name: str, source: Any) -> None:
        self._name = name
        self._damages = (OSError, ValueError, pyarrow().ArrowException)
        try:
            self._file = pyarrow().parquet.ParquetFile(source)
        except self._damages as error:
            raise self._damaged(error) from error

    @property
    def groups(self) -> range:
        return range(self._file.metadata.num_row_groups)

    def read(self, group: int, columns: Sequence[str]) -> Any:
        """Returns columns of a row group; a column that the file does not have is left out."""
        try:
            return self._file.read_row_group(group, columns=list(columns), use_threads=False)
        except self._damages as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> StoreError:
        return StoreError(f"{self._name} cannot be read: {brief(error)}. Move it away to leave it out")


def _text_files(config: StoreConfig) -> list[Callable[[], _TableFile]]:
    """Returns functions that open the finished files of texts; finishes those of killed processes first."""
    store = open_store(config.tables, "STORE_URI", config.object_stores, check=False)
    folder = store.folder or spool_of(config, config.tables)
    if folder.is_dir() and os.access(folder, os.W_OK | os.X_OK):
        finish_journals(folder, texts.make_table)
    stored = sorted(item for item in store.objects() if item.name.endswith(SUFFIX) and "/" not in item.name)
    if not stored:
        raise StoreError(f"no texts are stored in {store.uri()}: crawl with TEXT = 'parquet'")
    return [
        lambda name=name, size=size: _TextFile(store.uri(name), ObjectFile(store, name, size))  # type: ignore[misc]
        for name, size in stored
    ]


_TABLES: Mapping[TableName, _Table] = {
    "links": _Table(
        ("from_url", "time"), False, links.schema, lambda config: list(link_files(config).openers)
    ),
    "texts": _Table(("url", "fetched_at"), True, texts.schema, _text_files),
}


def current_rows(config: StoreConfig, table: TableName, pages: CurrentPages) -> Iterator[Any]:
    """Yields the current rows of stored links or texts as Arrow tables, in the order of their files.

    Rows of texts are only those of pages that answer 2xx and are no soft 404. Reads three columns of all rows, and the
    others only of row groups with current rows. Raises StoreError.
    """
    _, only_good, schema, files = known = _TABLES[table]
    openers = files(config)
    rows = CurrentRows(pages, known.columns, only_good=only_good)
    for opener in openers:
        file = opener()
        for group in file.groups:
            rows.see(file.read(group, rows.columns))
    for opener in openers:
        file = opener()
        for group in file.groups:
            are_current = rows.are(file.read(group, rows.columns))
            if are_current.any():
                whole = file.read(group, schema().names).filter(pyarrow().array(are_current))
                yield _with_all_columns(whole, schema())


def _with_all_columns(rows: Any, schema: Any) -> Any:
    """Returns rows with the columns of a schema; those that a file of an earlier version lacks are null."""
    arrays = [
        rows[field.name].cast(field.type)
        if field.name in rows.column_names
        else pyarrow().nulls(len(rows), field.type)
        for field in schema
    ]
    return pyarrow().Table.from_arrays(arrays, schema=schema)


def write_snapshot(
    config: StoreConfig, table: TableName, pages: CurrentPages, folder: Path, stamp: str
) -> dict[str, int]:
    """Writes the current rows of a table to Parquet files in a folder; returns their numbers of rows by name."""
    counts: dict[str, int] = {}
    writer, path = None, folder
    try:
        for group in _groups(current_rows(config, table, pages)):
            if writer is None:
                path = folder / f"{table}-{stamp}-{len(counts):05}{SUFFIX}"
                writer = links.writer(path, group.schema)
                counts[path.name] = 0
            writer.write_table(group)
            counts[path.name] += len(group)
            if path.stat().st_size >= FILE_BYTES:
                writer.close()
                writer = None
    finally:
        if writer is not None:
            writer.close()
    return counts


def _groups(tables: Iterator[Any]) -> Iterator[Any]:
    """Yields the rows of tables in groups of about `GROUP_BYTES`."""
    waiting, size = list[Any](), 0
    for rows in tables:
        waiting.append(rows)
        size += rows.nbytes
        if size >= GROUP_BYTES:
            yield pyarrow().concat_tables(waiting)
            waiting, size = [], 0
    if waiting:
        yield pyarrow().concat_tables(waiting)
