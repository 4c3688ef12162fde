"""tantivy, which only the search needs."""

from __future__ import annotations

from types import ModuleType

from webcrawl.config.libraries import optional


def tantivy() -> ModuleType:
    """Returns tantivy; raises LibraryMissing."""
    return optional("search", "tantivy", "search", "tantivy")
