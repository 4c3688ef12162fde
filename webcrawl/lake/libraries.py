"""Imports pyiceberg, which only the lake needs."""

from __future__ import annotations

from types import ModuleType

from webcrawl.config.libraries import optional

_EXTRA = "lake"
_PURPOSE = "tables of Iceberg"


def pyiceberg() -> ModuleType:
    """Returns pyiceberg with its SQL catalogue and the reader of Parquet loaded; raises LibraryMissing."""
    modules = ("pyiceberg", "pyiceberg.catalog.sql", "pyiceberg.exceptions", "pyiceberg.io.pyarrow")
    return optional(_PURPOSE, "pyiceberg", _EXTRA, *modules)


def pyarrow() -> ModuleType:
    """Returns pyarrow with its Parquet module loaded; raises LibraryMissing."""
    return optional(_PURPOSE, "pyarrow", _EXTRA, "pyarrow", "pyarrow.parquet")
