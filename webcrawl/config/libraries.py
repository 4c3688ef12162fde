"""Libraries of extras, imported when what needs them is asked for."""

from __future__ import annotations

import os
from importlib import import_module
from types import ModuleType

from webcrawl.errors import LibraryMissing


def optional(purpose: str, library: str, extra: str, *modules: str) -> ModuleType:
    """Imports modules of a library and returns the first one; raises LibraryMissing, which names its extra."""
    try:
        return [import_module(module) for module in modules][0]
    except ImportError as error:
        raise LibraryMissing(purpose, library, extra) from error


def arrow_library(purpose: str, *modules: str) -> ModuleType:
    """Imports pyarrow and some of its modules for a process that also crawls; raises LibraryMissing.

    It takes memory as the rest of the process does, unless the variable ARROW_DEFAULT_MEMORY_POOL says otherwise: the
    memory pool of its own keeps 30 MB more, and gets it from the kernel first, which takes as long as
    a file of 100,000 rows.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    return optional(purpose, "pyarrow", "parquet", "pyarrow", *modules)
