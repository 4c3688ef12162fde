"""Imports the libraries of the extra `mine` when they are needed."""

from __future__ import annotations

from types import ModuleType

from webcrawl.config.libraries import optional


def check_libraries() -> None:
    """Raises LibraryMissing for the first library that is not installed."""
    duckdb()
    pyarrow()
    linear_models()


def duckdb() -> ModuleType:
    """Returns DuckDB; raises LibraryMissing."""
    return optional("mining", "duckdb", "mine", "duckdb")


def pyarrow() -> ModuleType:
    """Returns pyarrow; raises LibraryMissing."""
    return optional("mining", "pyarrow", "mine", "pyarrow")


def linear_models() -> ModuleType:
    """Returns the linear models of scikit-learn; raises LibraryMissing."""
    return optional("mining", "scikit-learn", "mine", "sklearn.linear_model")
