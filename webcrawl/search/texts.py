"""Reads the stored texts of a crawl in the order of its files (docs/guide/texts.md)."""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime
from pathlib import Path

from webcrawl.config import StoreConfig
from webcrawl.errors import StoreError, brief
from webcrawl.search.entry import text_key
from webcrawl.stores.folder_archive import TEXT
from webcrawl.stores.objects.registry import open_store
from webcrawl.stores.tables.journal import SUFFIX
from webcrawl.stores.tables.texts import pyarrow
from webcrawl.stores.warc.files import WET
from webcrawl.stores.warc.reading import inflated, members, parse

Wanted = Callable[[Sequence[int]], Collection[int]]
"""Returns the keys (`text_key`) of the wanted texts."""
Texts = Iterator[tuple[int, str]]
"""The key of each text, and the text."""


class TextFiles:
    """Reads the texts that a crawl stored with TEXT. `problems` has a line for each file that could not be read."""

    def __init__(self, config: StoreConfig) -> None:
        self._config = config
        self.problems: list[str] = []

    def read(self, wanted: Wanted) -> Texts:
        """Yields wanted texts, from Parquet files first. Reading a damaged file ends early and adds a problem."""
        for uri, suffix, read in ((self._config.tables, SUFFIX, _table), (self._config.wet, WET, _records)):
            for name, path in self._files(uri, suffix):
                try:
                    yield from read(path, wanted)
                except (StoreError, OSError, ValueError, zlib.error) as error:
                    self.problems.append(f"{name} cannot be read to its end: {brief(error)}")

    def _files(self, uri: str, suffix: str) -> Iterator[tuple[str, Path]]:
        """Yields the finished files below a URI, the newest first: name and local path.

        If a fetch has several texts, the last text counts. Files in S3 are copied, one at a time.
        """
        store = open_store(uri, "STORE_URI", self._config.object_stores, check=False)
        if store.folder is not None:
            folder = store.folder
            for path in sorted(folder.glob(f"[!_.]*{suffix}"), reverse=True) if folder.is_dir() else ():
                yield str(path), path
            return
        for name in sorted(
            (stored.name for stored in store.objects() if stored.name.endswith(suffix)), reverse=True
        ):
            with tempfile.TemporaryDirectory(prefix="webcrawl-") as copies:
                yield store.uri(name), store.fetch(name, Path(copies))


def _table(path: Path, wanted: Wanted) -> Texts:
    arrow = pyarrow()
    try:
        with arrow.parquet.ParquetFile(path) as file:
            for group in range(file.metadata.num_row_groups):
                known = file.read_row_group(group, columns=["url", "fetched_at"], use_threads=False)
                keys = list(map(text_key, known["url"].to_pylist(), known["fetched_at"].to_pylist()))
                chosen = set(wanted(keys))
                if not chosen:
                    continue
                texts = file.read_row_group(group, columns=["text"], use_threads=False)["text"]
                for key, text in zip(keys, texts, strict=True):
                    if key in chosen:
                        yield key, text.as_py() or ""
    except (arrow.ArrowException, KeyError, TypeError) as error:
        raise StoreError(str(error)) from error


def _records(path: Path, wanted: Wanted) -> Texts:
    with path.open("rb") as file, path.open("rb") as contents:
        for offset, length, start in members(file):
            headers = parse(start).headers
            if headers.get("Content-Type") != TEXT:
                continue
            fetched = datetime.fromisoformat(headers["WARC-Date"])
            key = text_key(headers["WARC-Target-URI"], fetched)
            if wanted([key]):
                contents.seek(offset)
                yield key, parse(inflated(contents.read(length))).payload.decode("utf-8", "replace")
