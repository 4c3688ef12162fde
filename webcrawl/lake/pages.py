"""Writes the rows of the metadata database to Parquet files of the lake."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import Any

from webcrawl.config.extraction import ExtractRule
from webcrawl.lake.catalogue import location
from webcrawl.lake.libraries import pyarrow
from webcrawl.results.exports.extracted import extracted_fields, with_extracted
from webcrawl.results.exports.parts import FIELDS, ParquetPart, exported_rows
from webcrawl.stores.current_pages import unchanged_since
from webcrawl.stores.group_commit import batched
from webcrawl.stores.history import UNCHANGED, state
from webcrawl.stores.locations import Row
from webcrawl.stores.metadata import Metadata
from webcrawl.stores.objects.store import ObjectStore

BATCH_ROWS = 2_000
FILE_BATCHES = 500
_SINCE, _UNTIL = "contents_since", "contents_until"
PAGE_FIELDS: Mapping[str, str] = {**FIELDS, _SINCE: "time", _UNTIL: "time"}
"""The columns of table `pages`. Texts and links of a page from `contents_since` to `contents_until` have the contents
that the page has now."""


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
