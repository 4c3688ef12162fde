"""Libraries of extras, imported when what needs them is asked for."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from webcrawl.errors import LibraryMissing


def optional(purpose: str, library: str, extra: str, *modules: str) -> ModuleType:
    """Imports modules of a library and returns the first one; raises LibraryMissing, which names its extra."""
    try:
        return [import_module(module) for module in modules][0]
    except ImportError as error:
        raise LibraryMissing(purpose, library, extra) from error
