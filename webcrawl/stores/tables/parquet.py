"""How all tables are written as Parquet: compression, sorted row groups, and the statistics that readers skip by."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from webcrawl.config.libraries import arrow_library

GROUP_BYTES = 32_000_000
"""The bytes in memory of a row group in exports and compacted files, about 8 MB on disk.

A reader of an object store asks for the columns of a row group with a request each, so small row groups cost requests;
a reader that skips, or reads with several threads, has nothing smaller than a row group.
"""
_LEVEL = 3
_BATCH_BYTES = 2_000_000
"""The bytes of rows that are read back at a time."""
_DISK_SHARE = 4
"""Rows take about a quarter of their bytes in a Parquet file."""


def pyarrow() -> ModuleType:
    """Returns pyarrow with its Parquet module loaded; raises LibraryMissing."""
    return arrow_library("a table in Parquet", "pyarrow.compute", "pyarrow.parquet")


def ascending(columns: Sequence[str]) -> list[tuple[str, str]]:
    """Returns the columns as pyarrow's methods for sorting take them."""
    return [(column, "ascending") for column in columns]


def parquet_writer(
    path: Path, schema: Any, order: Sequence[str], *, large: Collection[str] = (), **options: Any
) -> Any:
    """Returns a pyarrow ParquetWriter, to which row groups are written that are sorted by the columns `order`.

    The footer names these columns. `large`: columns whose values are too long for statistics and dictionaries.
    """
    parquet = pyarrow().parquet
    small = [name for name in schema.names if name not in large]
    options = {"compression": "zstd", "compression_level": _LEVEL, "write_page_checksum": True} | options
    return parquet.ParquetWriter(
        path,
        schema,
        sorting_columns=parquet.SortingColumn.from_ordering(schema, ascending(order)) if order else None,
        write_statistics=small,
        use_dictionary=options.pop("use_dictionary", small),
        write_page_index=True,
        **options,
    )


class SpooledFile:
    """A Parquet file with row groups of about GROUP_BYTES, each sorted by the columns `order`.

    Rows wait in a temporary file in the same folder until `close`, because a writer for each partition would hold a
    row group in memory. `opened` makes the writer of a path.
    """

    def __init__(self, path: Path, schema: Any, order: Sequence[str], opened: Callable[[Path], Any]) -> None:
        self._path, self._schema, self._order, self._opened = path, schema, order, opened
        path.touch()
        self._waiting = tempfile.TemporaryFile(dir=path.parent)  # noqa: SIM115
        self._stream = pyarrow().ipc.new_stream(self._waiting, schema)

    def write(self, rows: Any) -> None:
        """Appends an Arrow table."""
        most = max(1, _BATCH_BYTES * len(rows) // max(1, rows.nbytes))
        self._stream.write_table(rows, max_chunksize=most)

    def size(self) -> int:
        """Returns about how many bytes the file has."""
        return self._waiting.tell() // _DISK_SHARE

    def close(self) -> None:
        """Writes the file."""
        self._stream.close()
        self._waiting.seek(0)
        waiting, size = list[Any](), 0
        with self._waiting, self._opened(self._path) as writer:
            for batch in pyarrow().ipc.open_stream(self._waiting):
                waiting.append(batch)
                size += batch.nbytes
                if size >= GROUP_BYTES:
                    self._write_group(writer, waiting)
                    size = 0
            if waiting:
                self._write_group(writer, waiting)

    def _write_group(self, writer: Any, batches: list[Any]) -> None:
        """Writes a row group, and frees the batches before, because a group is copied several times."""
        group = pyarrow().Table.from_batches(batches, self._schema)
        batches.clear()
        group = group.sort_by(ascending(self._order)) if self._order else group
        writer.write_table(group, len(group))
