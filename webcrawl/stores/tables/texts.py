"""The text of pages as Parquet files.

A Parquet file can be read only when its end is written. Rows that must survive a kill are therefore WARC records first,
in a file that is written, locked and repaired like all others. When it is finished, it becomes a Parquet file.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import msgpack

from webcrawl.config.libraries import arrow_library
from webcrawl.errors import StoreError
from webcrawl.stores.warc.files import crawl_of
from webcrawl.stores.warc.reading import START_BYTES, inflated, members, parse

logger = logging.getLogger(__name__)

ROLL_BYTES = 40_000_000
"""Size at which rows become a file; that takes about half a second, in which pages wait."""
GROUP_CHARACTERS = 8_000_000
"""Characters of text in memory while the file is made: a row group."""
_BATCHES = 16
"""The part of a row group that is in memory twice, as texts of Python too, is one of so many."""
ROW = "application/vnd.msgpack"
"""The type of a record that has a row."""

_TEXTS = ("url", "host", "title", "author", "language", "mime_type", "digest", "warc_file")
_NUMBERS = ("status", "warc_offset", "warc_length")
_TIMES = ("fetched_at", "published_at", "read_at")
_LARGE = ("text", "markdown")
_REPEATED = ("host", "author", "language", "mime_type", "warc_file", "crawl", "status", *_TIMES[1:])
"""The columns that have few values, which are written once."""
FACTS = (*_TEXTS, *_NUMBERS, *_TIMES)
"""The columns that are fields of a page; the others are `crawl`, `text` and `markdown`."""


def pyarrow() -> ModuleType:
    """Returns pyarrow with its Parquet module loaded; raises LibraryMissing."""
    return arrow_library("TEXT = parquet", "pyarrow.parquet")


def write_table(path: Path, final: Path) -> None:
    """Makes the Parquet file `final` of the records in a file, and deletes that; raises OSError, StoreError.

    The latter is deleted last, so after a crash at any point the file is made again or is complete.
    """
    if not final.exists():
        arrow = pyarrow()
        unfinished = final.with_name(f"{final.name}.unfinished")
        try:
            _write(arrow, path, unfinished, {"crawl": crawl_of(final.name)})
        except (arrow.ArrowException, UnicodeError) as error:
            raise StoreError(f"cannot make Parquet of {path}: {error}") from error
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())
        unfinished.rename(final)
    path.unlink()


def _write(arrow: ModuleType, path: Path, unfinished: Path, same: dict[str, str | None]) -> None:
    """Writes the rows of a file; `same` are columns that have one value."""
    schema = _schema(arrow)
    # the other columns have a value of its own for each page
    options = {"compression": "zstd", "use_dictionary": list(_REPEATED)}
    with arrow.parquet.ParquetWriter(unfinished, schema, **options) as writer:
        group = list[Any]()
        characters = 0
        for rows in _batches(path):
            # Table.from_pylist takes seven times as long
            columns = [
                arrow.array([same[name] if name in same else row[name] for row in rows], kind)
                for name, kind in zip(schema.names, schema.types, strict=True)
            ]
            group.append(arrow.record_batch(columns, schema=schema))
            characters += _characters(rows)
            if characters >= GROUP_CHARACTERS:
                writer.write_table(arrow.Table.from_batches(group))
                group, characters = [], 0
        if group:
            writer.write_table(arrow.Table.from_batches(group))


def _schema(arrow: ModuleType) -> Any:
    kinds = (
        dict.fromkeys((*_TEXTS, "crawl"), arrow.string())
        | dict.fromkeys(_NUMBERS, arrow.int64())
        | dict.fromkeys(_TIMES, arrow.timestamp("us", tz="UTC"))
        | dict.fromkeys(_LARGE, arrow.string())
    )
    return arrow.schema(list(kinds.items()))


def _batches(path: Path) -> Iterator[list[dict[str, Any]]]:
    """Yields the rows of a file, a part of GROUP_CHARACTERS at a time."""
    batch: list[dict[str, Any]] = []
    characters = 0
    for row in _rows(path):
        batch.append(row)
        characters += _characters([row])
        if characters >= GROUP_CHARACTERS / _BATCHES:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def _characters(rows: list[dict[str, Any]]) -> int:
    return sum(len(row[name] or "") for row in rows for name in _LARGE)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    damaged = 0
    with path.open("rb") as file, path.open("rb") as contents:
        for offset, length, start in members(file):
            contents.seek(offset)
            try:
                is_whole = len(start) < START_BYTES
                record = parse(start if is_whole else inflated(contents.read(length)))
                if record.headers.get("Content-Type") == ROW:
                    yield _row(record.payload)
            except (StoreError, ValueError, KeyError, TypeError, AttributeError):
                damaged += 1
    if damaged:
        logger.warning("%s is damaged: the texts of %d pages in it are lost", path, damaged)


def _row(payload: bytes) -> dict[str, Any]:
    row = msgpack.unpackb(payload)
    times = {name: datetime.fromisoformat(row[name]) if row.get(name) else None for name in _TIMES}
    numbers = {name: None if row[name] is None else int(row[name]) for name in _NUMBERS}
    texts = {name: row.get(name) or None for name in (*_TEXTS, *_LARGE)}
    return texts | numbers | times
