"""DuckDB and SciPy, which only graphs need."""

from __future__ import annotations

from types import ModuleType

from webcrawl.errors import LibraryMissing

_EXTRA = "graph"


def duckdb() -> ModuleType:
    """Returns DuckDB; raises LibraryMissing."""
    try:
        import duckdb
    except ImportError as error:
        raise LibraryMissing(_EXTRA, "duckdb", _EXTRA) from error
    return duckdb


def pyarrow() -> ModuleType:
    """Returns pyarrow with its Parquet and compute modules loaded; raises LibraryMissing."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.parquet
    except ImportError as error:
        raise LibraryMissing(_EXTRA, "pyarrow", _EXTRA) from error
    found: ModuleType = pyarrow
    return found


def sparse() -> ModuleType:
    """Returns scipy.sparse with its graph algorithms loaded; raises LibraryMissing."""
    try:
        import scipy.sparse
        import scipy.sparse.csgraph
    except ImportError as error:
        raise LibraryMissing(_EXTRA, "scipy", _EXTRA) from error
    found: ModuleType = scipy.sparse
    return found
