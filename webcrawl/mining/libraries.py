"""The libraries of the extra `mine`, imported when they are needed."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from webcrawl.errors import LibraryMissing


def _library(module: str, name: str) -> ModuleType:
    try:
        return import_module(module)
    except ImportError as error:
        raise LibraryMissing("mining", name, "mine") from error


def check_libraries() -> None:
    """Raises LibraryMissing for the first library that is not installed."""
    duckdb()
    pyarrow()
    linear_models()


def duckdb() -> ModuleType:
    """Returns DuckDB; raises LibraryMissing."""
    return _library("duckdb", "duckdb")


def pyarrow() -> ModuleType:
    """Returns pyarrow; raises LibraryMissing."""
    return _library("pyarrow", "pyarrow")


def linear_models() -> ModuleType:
    """Returns the linear models of scikit-learn; raises LibraryMissing."""
    return _library("sklearn.linear_model", "scikit-learn")
