"""Exports the current rows of stored links or texts: of each page those of the contents that it has now."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from webcrawl.config import StoreConfig
from webcrawl.errors import StoreError
from webcrawl.links import arrow as links
from webcrawl.links.arrow import pyarrow
from webcrawl.links.sources import link_files
from webcrawl.stores.current_pages import CurrentPages, CurrentRows
from webcrawl.stores.tables import texts
from webcrawl.stores.tables.journal import SUFFIX
from webcrawl.stores.tables.store import TableFile

TableName = Literal["links", "texts"]
GROUP_BYTES = 8_000_000
"""The bytes of rows in memory, which become a row group."""
FILE_BYTES = 500_000_000


class _Table(NamedTuple):
    """How a table is read. `columns`: those of the URL and the time of a fetch."""

    columns: tuple[str, str]
    only_good: bool
    schema: Callable[[], Any]
    files: Callable[[StoreConfig], Sequence[Callable[[], TableFile]]]


def _text_files(config: StoreConfig) -> Sequence[Callable[[], TableFile]]:
    files = texts.text_files(config)
    if not files:
        raise StoreError(f"no texts are stored in {config.tables}: crawl with TEXT = 'parquet'")
    return files


_TABLES: Mapping[TableName, _Table] = {
    "links": _Table(("from_url", "time"), False, links.schema, lambda config: link_files(config).openers),
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
