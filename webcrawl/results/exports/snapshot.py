"""Exports the current rows of stored links or texts: of each page those of the contents that it has now."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from webcrawl.config import StoreConfig
from webcrawl.errors import StoreError
from webcrawl.links import arrow as links
from webcrawl.links.sources import link_files
from webcrawl.results.exports.partitions import PartitionColumns, folders, write_partitions
from webcrawl.stores.current_pages import CurrentPages, CurrentRows
from webcrawl.stores.tables import texts
from webcrawl.stores.tables.parquet import SpooledFile, pyarrow
from webcrawl.stores.tables.store import TableFile

TableName = Literal["links", "texts"]


class _Table(NamedTuple):
    """How a table is read and written. `columns`: those of the URL and the time of a fetch."""

    columns: tuple[str, str]
    only_good: bool
    schema: Callable[[], Any]
    with_all_columns: Callable[[Any], Any]
    order: Sequence[str]
    writer: Callable[[Path], Any]
    files: Callable[[StoreConfig], Sequence[Callable[[], TableFile]]]
    partition: PartitionColumns


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
        PartitionColumns("from_host", "time"),
    ),
    "texts": _Table(
        ("url", "fetched_at"),
        True,
        texts.schema,
        texts.with_all_columns,
        texts.ORDER,
        texts.table_writer,
        _text_files,
        PartitionColumns("host", "fetched_at"),
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
    config: StoreConfig,
    table: TableName,
    pages: CurrentPages,
    folder: Path,
    stamp: str,
    partition: str = "none",
) -> dict[str, int]:
    """Writes the current rows of a table to Parquet files in a folder; returns their numbers of rows by name.

    `partition`: see `folders`. Links are in the partition of their page.
    """
    known = _TABLES[table]
    return write_partitions(
        current_rows(config, table, pages),
        folder,
        f"{table}-{stamp}",
        lambda rows: folders(rows, partition, known.partition),
        lambda path: SpooledFile(path, known.schema(), known.order, known.writer),
    )
