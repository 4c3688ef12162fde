"""Writes texts as a crawl stores them, each at the time of `tests.metadata.NOW`."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow
import pyarrow.parquet

from tests.metadata import NOW
from webcrawl.stores.warc.records import warc_date


def write_table(path: Path, texts: dict[str, str]) -> None:
    """Writes a Parquet file of texts by URL, with a group of rows for each."""
    rows = [{"url": url, "fetched_at": NOW, "text": text} for url, text in texts.items()]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=1)


def write_wet(path: Path, texts: dict[str, str]) -> None:
    """Writes a WET file of texts by URL."""
    with path.open("wb") as file:
        file.write(_member("warcinfo", "", "application/warc-fields", ""))
        for url, text in texts.items():
            file.write(_member("conversion", url, "text/plain", text))
            file.write(_member("conversion", url, "text/markdown", f"# {text}"))


def _member(kind: str, url: str, content_type: str, text: str) -> bytes:
    data = text.encode()
    head = (
        f"WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {url}\r\nWARC-Date: {warc_date(NOW)}\r\n"
        f"Content-Type: {content_type}\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    return gzip.compress(head.encode() + data + b"\r\n\r\n")
