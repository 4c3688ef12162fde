"""Exports the current rows of stored links or texts: of each page those of the contents that it has now."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from webcrawl.config import StoreConfig
from webcrawl.errors import StoreError
from webcrawl.links import arrow as links
from webcrawl.links.sources import link_files
from webcrawl.stores.current_pages import CurrentPages, CurrentRows
from webcrawl.stores.tables import texts
from webcrawl.stores.tables.journal import SUFFIX
from webcrawl.stores.tables.parquet import GROUP_BYTES, ascending, pyarrow
from webcrawl.stores.tables.store import TableFile

TableName = Literal["links", "texts"]
FILE_BYTES = 500_000_000


class _Table(NamedTuple):
    """How a table is read and written. `columns`: those of the URL and the time of a fetch."""

    columns: tuple[str, str]
    only_good: bool
    schema: Callable[[], Any]
    with_all_columns: Callable[[Any], Any]
    order: Sequence[str]
    writer: Callable[[Path], Any]
    files: Callable[[StoreConfig], Sequence[Callable[[], TableFile]]]


def _text_files(config: StoreConfig) -> Sequence[Callable[[], TableFile]]:
    files = texts.text_files(config)
    if not files:
        raise StoreError(f"no texts are stored in {config.tables}: crawl with TEXT = 'parquet'")
    return files


_TABLES: Mapping[TableName, _Table] = {
    "links": _Table(
        ("from_url", "time"),
        False,
        links.schema,
        lambda rows: rows.select(links.schema().names).cast(links.schema()),
        links.ORDER,
        lambda path: links.writer(path, links.schema()),
        lambda config: link_files(config).openers,
    ),
    "texts": _Table(
        ("url", "fetched_at"),
        True,
        texts.schema,
        texts.with_all_columns,
        texts.ORDER,
        texts.table_writer,
        _text_files,
    ),
}


def current_rows(config: StoreConfig, table: TableName, pages: CurrentPages) -> Iterator[Any]:
    """Yields the current rows of stored links or texts as Arrow tables, in the order of their files.

    Rows of texts are only those of pages that answer 2xx and are no soft 404. Reads three columns of all rows, and the
    others only of row groups with current rows. Raises StoreError.
    """
    known = _TABLES[table]
    openers = known.files(config)
    rows = CurrentRows(pages, known.columns, only_good=known.only_good)
    for opener in openers:
        file = opener()
        for group in file.groups:
            rows.see(file.read(group, rows.columns))
    for opener in openers:
        file = opener()
        for group in file.groups:
            are_current = rows.are(file.read(group, rows.columns))
            if are_current.any():
                whole = file.read(group, known.schema().names).filter(pyarrow().array(are_current))
                yield known.with_all_columns(whole)


def write_snapshot(
    config: StoreConfig, table: TableName, pages: CurrentPages, folder: Path, stamp: str
) -> dict[str, int]:
    """Writes the current rows of a table to Parquet files in a folder; returns their numbers of rows by name."""
    known = _TABLES[table]
    counts: dict[str, int] = {}
    writer, path = None, folder
    try:
        for group in _groups(current_rows(config, table, pages)):
            if writer is None:
                path = folder / f"{table}-{stamp}-{len(counts):05}{SUFFIX}"
                writer = known.writer(path)
                counts[path.name] = 0
            writer.write_table(group.sort_by(ascending(known.order)), len(group))
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
