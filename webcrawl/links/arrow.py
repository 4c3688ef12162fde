"""Imports pyarrow, which only the link store and exports need, and defines the format of a link store's files."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from xxhash import xxh3_64_intdigest

from webcrawl.config.libraries import arrow_library
from webcrawl.stores.tables.parquet import parquet_writer

PAGES = b"pages_xxh3"
"""The key of the footer with the pages of a file; see `webcrawl.links.store`."""
FETCHES = b"fetches"
"""The key of the footer with the number of fetches of these pages, each time that one was read."""

GROUP_ROWS = 1 << 16
"""The rows of a row group, the smallest part that a query reads."""
ORDER = ("to_host", "to_url", "time")
"""The columns by which the rows of a file are sorted."""


def pyarrow() -> ModuleType:
    """Returns pyarrow with its Parquet module loaded; raises LibraryMissing."""
    return arrow_library("LINKS", "pyarrow.compute", "pyarrow.parquet")


@cache
def schema() -> Any:
    """Returns the schema of all files; docs/reference/links.md explains the columns."""
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


def writer(path: Path, schema: Any) -> Any:
    """Returns a pyarrow ParquetWriter with the options of the link store; row groups must be sorted by ORDER."""
    return parquet_writer(path, schema, ORDER, store_schema=False)


def footer_of(urls: Iterable[str], *, fetches: int | None = None) -> Mapping[bytes, bytes]:
    """Returns the footer of a file: the hashes of its pages, and its number of fetches; see `webcrawl.links.store`."""
    digests = sorted({xxh3_64_intdigest(url.encode()) for url in urls})
    # text, because some readers accept only text
    footer = {PAGES: base64.b64encode(np.array(digests, dtype="<u8").tobytes())}
    return footer if fetches is None else footer | {FETCHES: str(fetches).encode()}
