"""Removes the earlier links and texts of pages that were read again, once all pages of a plan have been read.

The rows of a new reading are in separate files and have its time. So readers can ignore superseded rows before they
are removed, and after a crash during the removal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from webcrawl.config import StoreConfig
from webcrawl.errors import StoreError, brief
from webcrawl.links.arrow import PAGES, footer_of, pyarrow
from webcrawl.reparse.plan import Reading
from webcrawl.stores.archive import spool_of
from webcrawl.stores.objects.store import ObjectFile, ObjectStore, open_store
from webcrawl.stores.tables.journal import SUFFIX
from webcrawl.stores.tables.merges import REPLACED, finish_merges, locked_tables
from webcrawl.stores.tables.parquet import parquet_writer
from webcrawl.stores.tables.texts import LARGE
from webcrawl.stores.warc.files import prefix_of

Readings: TypeAlias = Callable[[Sequence[str]], Mapping[str, Reading]]
"""See `Plan.readings`."""


@dataclass(frozen=True)
class _Columns:
    """The columns that identify the page and the reading of a row, and the crawl as the table names it."""

    url: str
    time: str
    crawl: str


def leave_out(config: StoreConfig, crawl: str, readings: Readings) -> int:
    """Rewrites the tables of links and texts without rows of earlier readings of the same fetches.

    Returns the number of rows that were left out. Each file is replaced in one step. Files that wait for their upload
    stay as they are. Raises StoreError, also while another process merges the files.
    """
    tables = []
    if config.keeps_links:
        tables.append((config.links, _Columns("from_url", "time", crawl)))
    if "parquet" in config.texts.split(","):
        tables.append((config.tables, _Columns("url", "fetched_at", prefix_of(crawl))))
    left_out = 0
    for uri, columns in tables:
        store = open_store(uri, "STORE_URI", config.object_stores)
        if next(iter(store.objects()), None) is None:
            continue
        # a merge would write the rows of the files as they were before
        with locked_tables(store.folder or spool_of(config, uri)):
            finish_merges(store, abandoned=True)
            for name, size in sorted(store.objects()):
                if name.endswith(SUFFIX) and "/" not in name:
                    left_out += _rewrite(store, name, size, columns, readings)
    return left_out


def _rewrite(store: ObjectStore, name: str, size: int, columns: _Columns, readings: Readings) -> int:
    arrow = pyarrow()
    try:
        with arrow.parquet.ParquetFile(ObjectFile(store, name, size)) as file:
            old = _superseded(file, columns, readings)
            left_out = int(arrow.compute.sum(old).as_py() or 0)
            if left_out == len(old):
                store.delete(name)
            elif left_out:
                _write_others(store, name, file, columns, arrow.compute.invert(old))
    except (arrow.ArrowException, KeyError, OSError, ValueError) as error:
        reason = f"{store.uri(name)} cannot be written anew: {brief(error)}"
        raise StoreError(f"{reason}. If it is damaged, move it away and run the command again") from error
    return left_out


def _superseded(file: Any, columns: _Columns, readings: Readings) -> Any:
    """Returns an Arrow array that has for each row whether its fetch has been read again since.

    A 304 confirms a fetch, so rows with later times also belong to this fetch, until the page is read again.
    """
    arrow = pyarrow()
    rows = file.read(columns=[columns.url, columns.time, "crawl", "read_at"]).combine_chunks()
    urls = arrow.compute.dictionary_encode(rows[columns.url].combine_chunks())
    by_url = readings(urls.dictionary.to_pylist())
    numbers, readings_of = urls.indices, [by_url.get(url) for url in urls.dictionary.to_pylist()]
    fetched, read = (
        arrow.array([reading and reading[field] for reading in readings_of], arrow.int64()).take(numbers)
        for field in (0, 1)
    )
    time, read_at = (rows[name].combine_chunks().cast(arrow.int64()) for name in (columns.time, "read_at"))
    compute = arrow.compute
    of_fetch = compute.and_(
        compute.equal(rows["crawl"].combine_chunks(), columns.crawl), compute.greater_equal(time, fetched)
    )
    older = compute.less(compute.coalesce(read_at, time), read)
    return compute.fill_null(compute.and_(of_fetch, older), False)


def _write_others(store: ObjectStore, name: str, file: Any, columns: _Columns, kept: Any) -> None:
    """Replaces a file by a file with the kept rows, in the same row groups."""
    start, urls = 0, set[str]()
    with store.workspace() as folder:
        path = folder / name
        with parquet_writer(path, file.schema_arrow, _order(file), large=LARGE, store_schema=False) as made:
            for group in range(file.num_row_groups):
                rows = file.read_row_group(group)
                remaining = rows.filter(kept.slice(start, len(rows)))
                start += len(rows)
                if len(remaining):
                    made.write_table(remaining)
                    urls.update(remaining[columns.url].unique().to_pylist())
            if PAGES in (file.metadata.metadata or {}):
                made.add_key_value_metadata(footer_of(urls))
            if replaced := (file.metadata.metadata or {}).get(REPLACED):
                made.add_key_value_metadata({REPLACED: replaced})
        store.move_file(name, path)


def _order(file: Any) -> list[str]:
    """Returns the columns by which the row groups of a file are sorted; files of earlier versions do not say so."""
    names = file.schema_arrow.names
    sorting = file.metadata.row_group(0).sorting_columns if file.num_row_groups else ()
    return [names[column.column_index] for column in sorting]
