"""How all tables are written as Parquet: compression, sorted row groups, and the statistics that readers skip by."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from webcrawl.config.libraries import arrow_library

GROUP_BYTES = 64_000_000
"""The bytes in memory of a row group in exports and compacted files, about 16 MB on disk.

A reader of an object store asks for the columns of a row group with a request each, so small row groups cost requests;
a reader that skips, or reads with several threads, has nothing smaller than a row group.
"""
_LEVEL = 3


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
