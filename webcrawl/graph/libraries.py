"""Imports DuckDB and SciPy, which only graphs need."""

from __future__ import annotations

from types import ModuleType

from webcrawl.config.libraries import optional

_EXTRA = "graph"
_PURPOSE = "reading the links"


def duckdb() -> ModuleType:
    """Returns DuckDB; raises LibraryMissing."""
    return optional(_PURPOSE, "duckdb", _EXTRA, "duckdb")


def pyarrow() -> ModuleType:
    """Returns pyarrow with its Parquet and compute modules loaded; raises LibraryMissing."""
    return optional(_PURPOSE, "pyarrow", _EXTRA, "pyarrow", "pyarrow.compute", "pyarrow.parquet")


def sparse() -> ModuleType:
    """Returns scipy.sparse with its graph algorithms loaded; raises LibraryMissing."""
    return optional("measuring graphs", "scipy", _EXTRA, "scipy.sparse", "scipy.sparse.csgraph")
