"""tantivy, which only the search needs."""

from __future__ import annotations

from types import ModuleType

from webcrawl.errors import LibraryMissing


def tantivy() -> ModuleType:
    """Returns tantivy; raises LibraryMissing."""
    try:
        import tantivy
    except ImportError as error:
        raise LibraryMissing("search", "tantivy", "search") from error
    found: ModuleType = tantivy
    return found
