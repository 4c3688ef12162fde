"""Reads the stored texts of a crawl in the order of their files (docs/guide/texts.md), and the texts of links."""

from __future__ import annotations

import tempfile
import zlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

from webcrawl.config import StoreConfig
from webcrawl.errors import StoreError, brief
from webcrawl.links.arrow import pyarrow
from webcrawl.links.sources import LinkFile, link_files
from webcrawl.search.entry import text_key
from webcrawl.stores.archive import spool_of
from webcrawl.stores.conversions import TEXT_TYPE
from webcrawl.stores.current_pages import CurrentPages, CurrentRows, PageContents
from webcrawl.stores.objects.store import open_store
from webcrawl.stores.tables.store import TableFile
from webcrawl.stores.tables.texts import text_files
from webcrawl.stores.warc.files import WET
from webcrawl.stores.warc.reading import inflated, members, parse

Wanted = Callable[[Sequence[int]], Collection[int]]
"""Returns the keys (`text_key`) of the wanted texts."""
Texts = Iterator[tuple[int, str]]
"""The key of each text, and the text."""
MOST = 50
"""The number of link texts of a page that are indexed: the most frequent texts."""
_COLUMNS = ["from_url", "to_url", "text"]


class TextFiles:
    """Reads the texts that a crawl stored with TEXT. `problems` has a line for each file that could not be read."""

    def __init__(self, config: StoreConfig) -> None:
        self._config = config
        self.problems: list[str] = []

    def read(self, wanted: Wanted) -> Texts:
        """Yields wanted texts, from Parquet files first. Reading a damaged file ends early and adds a problem.

        The newest file comes first: if a fetch has several texts, the last text counts.
        """
        for opener in reversed(text_files(self._config)):
            try:
                yield from _rows(opener(), wanted)
            except StoreError as error:
                self.problems.append(str(error))
        for name, path in self._wet_files():
            try:
                yield from _records(path, wanted)
            except (StoreError, OSError, ValueError, zlib.error) as error:
                self.problems.append(f"{name} cannot be read to its end: {brief(error)}")

    def _wet_files(self) -> Iterator[tuple[str, Path]]:
        """Yields name and local path of the WET files, the newest first. Files in S3 are copied, one at a time."""
        store = open_store(self._config.wet, "STORE_URI", self._config.object_stores, check=False)
        if store.folder is not None:
            folder = store.folder
            for path in sorted(folder.glob(f"[!_.]*{WET}"), reverse=True) if folder.is_dir() else ():
                yield str(path), path
            return
        for name in sorted(
            (stored.name for stored in store.objects() if stored.name.endswith(WET)), reverse=True
        ):
            with tempfile.TemporaryDirectory(prefix="webcrawl-") as copies:
                yield store.uri(name), store.fetch(name, Path(copies))


def _rows(file: TableFile, wanted: Wanted) -> Texts:
    for group in file.groups:
        known = file.read(group, ["url", "fetched_at"])
        keys = list(map(text_key, known["url"].to_pylist(), known["fetched_at"].to_pylist()))
        chosen = set(wanted(keys))
        if not chosen:
            continue
        for key, text in zip(keys, file.read(group, ["text"])["text"], strict=True):
            if key in chosen:
                yield key, text.as_py() or ""


def _records(path: Path, wanted: Wanted) -> Texts:
    with path.open("rb") as file, path.open("rb") as contents:
        for offset, length, start in members(file):
            headers = parse(start).headers
            # files of earlier versions have Markdown too
            if headers.get("Content-Type") != TEXT_TYPE:
                continue
            fetched = datetime.fromisoformat(headers["WARC-Date"])
            key = text_key(headers["WARC-Target-URI"], fetched)
            if wanted([key]):
                contents.seek(offset)
                yield key, parse(inflated(contents.read(length))).payload.decode("utf-8", "replace")


class LinkTexts:
    """Finds the texts of links that `pages` have now; finds no texts if the crawl has no link store."""

    def __init__(self, openers: Sequence[Callable[[], LinkFile]], pages: CurrentPages) -> None:
        self._files = [opener() for opener in openers]
        self._current = CurrentRows(pages, ("from_url", "time"))
        for file in self._files:
            for group in file.groups:
                self._current.see(file.read(group, self._current.columns))

    def to(self, urls: Sequence[str]) -> dict[str, list[str]]:
        """Returns by URL the texts of links on other pages, the most frequent first; `urls` must be sorted."""
        if not self._files or not urls:
            return {}
        arrow = pyarrow()
        wanted = arrow.array(urls, arrow.string())
        counts: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for file in self._files:
            for group in file.groups:
                if not file.may_overlap(group, "to_url", urls[0], urls[-1]):
                    continue
                rows = file.rows(group, "to_url", wanted)
                if not arrow.compute.any(rows).as_py():
                    continue
                table = file.read(group, {*_COLUMNS, *self._current.columns}).filter(rows)
                table = table.filter(arrow.array(self._current.are(table))).select(_COLUMNS)
                field = arrow.compute.field
                table = table.cast(arrow.schema([(name, arrow.string()) for name in _COLUMNS]))
                table = table.filter(field("text").is_valid() & (field("from_url") != field("to_url")))
                pages_by_text = table.group_by(["to_url", "text"]).aggregate([("from_url", "count_distinct")])
                for to_url, text, pages in zip(
                    *(pages_by_text[name].to_pylist() for name in _ORDER), strict=True
                ):
                    texts = counts[to_url]
                    texts[text] = texts.get(text, 0) + pages
        return {
            url: sorted(texts, key=lambda text, texts=texts: (-texts[text], text))[:MOST]  # type: ignore[misc]
            for url, texts in counts.items()
        }


_ORDER = ("to_url", "text", "from_url_count_distinct")


def check_links(config: StoreConfig) -> None:
    """Opens the stored links; raises StoreError for a damaged file, LibraryMissing without pyarrow."""
    for opener in _link_openers(config):
        opener()


def stored_anchors(config: StoreConfig, contents: Iterable[PageContents]) -> LinkTexts:
    """Returns the texts of a crawl's links; raises StoreError for a damaged file, LibraryMissing without pyarrow.

    `contents` are those of all pages, which are read only if there are links.
    """
    openers = _link_openers(config)
    return LinkTexts(openers, CurrentPages(contents if openers else ()))


def _link_openers(config: StoreConfig) -> Sequence[Callable[[], LinkFile]]:
    store = open_store(config.links, "STORE_URI", config.object_stores, check=False)
    folder = store.folder or spool_of(config, config.links)
    has_links = folder.is_dir() and any(folder.iterdir())
    if not has_links and (store.folder is not None or next(iter(store.objects()), None) is None):
        return []
    return link_files(config).openers
