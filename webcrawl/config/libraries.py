"""Imports the libraries of extras at their first use."""

from __future__ import annotations

import os
from importlib import import_module
from types import ModuleType
from typing import Any

from webcrawl.errors import ConfigurationError, LibraryMissing


def optional(purpose: str, library: str, extra: str, *modules: str) -> ModuleType:
    """Imports modules of a library and returns the first one; raises LibraryMissing, which names its extra."""
    try:
        return [import_module(module) for module in modules][0]
    except ImportError as error:
        raise LibraryMissing(purpose, library, extra) from error


def named_object(path: str) -> Any:
    """Imports what "package.module.name" or "package.module:name" names.

    Raises ImportError, AttributeError and, for a path without a module, ValueError.
    """
    module, _, name = path.replace(":", ".").rpartition(".")
    return getattr(import_module(module), name)


def object_of_setting(setting: str, path: str) -> Any:
    """Imports what a path in a setting names; raises ConfigurationError, which begins with the setting."""
    try:
        return named_object(path)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(f"{setting}: cannot import {path!r}: {error}") from error


def arrow_library(purpose: str, *modules: str) -> ModuleType:
    """Imports pyarrow and some of its modules for a process that also crawls; raises LibraryMissing.

    pyarrow then takes its memory from the system allocator, unless the variable ARROW_DEFAULT_MEMORY_POOL names another
    pool: the default pool of pyarrow keeps 30 MB more, and takes as long to get them from the kernel as to write
    a file of 100,000 rows.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    return optional(purpose, "pyarrow", "parquet", "pyarrow", *modules)
