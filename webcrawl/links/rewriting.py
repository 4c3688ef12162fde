"""Writes Parquet files of links anew: what their rows and footers have in common."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from xxhash import xxh3_64_intdigest

from webcrawl.links.arrow import PAGES, pyarrow

GROUP_ROWS = 1 << 16
"""Rows of a row group: what a question reads at least."""
_LEVEL = 3


def writer(path: Path, schema: Any) -> Any:
    """Returns a pyarrow ParquetWriter with the options of the link store."""
    options = {"compression": "zstd", "compression_level": _LEVEL, "write_page_checksum": True}
    return pyarrow().parquet.ParquetWriter(path, schema, store_schema=False, **options)


def footer_of(urls: Iterable[str]) -> Mapping[bytes, bytes]:
    """Returns what the footer of a file has about its pages; see `webcrawl.links.tables`."""
    digests = sorted({xxh3_64_intdigest(url.encode()) for url in urls})
    # text, because some readers take nothing else
    return {PAGES: base64.b64encode(np.array(digests, dtype="<u8").tobytes())}
