"""pyarrow, which only the link store and exports need, and the schema of its files."""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import Any

from webcrawl.config.libraries import arrow_library

PAGES = b"pages_xxh3"
"""The key of the footer with the pages of a file; see `webcrawl.links.tables`."""


def pyarrow() -> ModuleType:
    """Returns pyarrow with its Parquet module loaded; raises LibraryMissing."""
    return arrow_library("LINKS", "pyarrow.compute", "pyarrow.parquet")


@cache
def schema() -> Any:
    """Returns the schema of all files; docs/links.md explains the columns."""
    arrow = pyarrow()
    text, time = arrow.string(), arrow.timestamp("us", tz="UTC")
    columns = [
        ("from_host", text, False),
        ("from_url", text, False),
        ("to_host", text, False),
        ("to_url", text, False),
        ("text", text, True),
        ("rel", text, True),
        ("element", text, False),
        ("block", arrow.int64(), True),
        ("place", arrow.int32(), False),
        ("nofollow", arrow.bool_(), False),
        ("depth", arrow.int32(), False),
        ("crawl", text, False),
        ("time", time, False),
        ("read_at", time, True),
    ]
    return arrow.schema([arrow.field(name, kind, nullable) for name, kind, nullable in columns])
