"""Brings an index up to date with the pages of a crawl.

1. All rows of table `pages` are compared with the index. Pages that are missing or have changed are planned.
2. Planned pages are indexed: from the files of texts, in their order, and pages without a stored text from the archive.
3. Pages that no longer belong in the index are removed.

The index has the state of each of its pages, so no other state is stored: after a kill, the first step recognizes the
committed pages.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement

from webcrawl.config import StoreConfig
from webcrawl.documents.payload import STORED_TEXT, StoredRows
from webcrawl.errors import StoreError
from webcrawl.search.entry import COLUMNS, READ, IndexedPage, document, entry_from, entry_of, text_key
from webcrawl.search.folder import damages, note_update
from webcrawl.search.schema import PAGE, schema, tantivy
from webcrawl.search.state import KnownPages, PageCrawls
from webcrawl.search.texts import LinkTexts, TextFiles, stored_anchors
from webcrawl.search.vocabulary import Vocabulary, has_vocabulary
from webcrawl.stores.columns import pages
from webcrawl.stores.group_commit import batched
from webcrawl.stores.locations import Row
from webcrawl.stores.metadata import Metadata

COMMIT_SECONDS = 30.0
"""The seconds between two commits: a killed process repeats at most the work of this time."""
COMMIT_CHARACTERS = 20_000_000
"""The characters of text between two commits. tantivy may keep all of their words in memory until the commit, about 15
bytes for a character."""
MEMORY = 100_000_000
"""The most bytes that tantivy has indexed but not written yet."""
_ROWS = 5_000
_KEYS = 1_000

Archived = Callable[[Iterable[Row]], Iterable[Row]]
"""Reads pages in the archive: yields each row with its `text`."""
Described = Callable[[Sequence[IndexedPage]], Sequence[str]]
"""Returns the texts about images, audio and video files, beside their own facts."""

_AT_ONCE = 500
_HALF = 1 << 63


@dataclass
class IndexFigures:
    """The numbers of pages that a run planned, added, replaced and removed, and the files that it could not read."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    planned: int = 0
    pages: int = 0
    problems: Sequence[str] = ()


class Indexer:
    """A run. `stop` ends it after the current page; pages that were indexed until then are committed."""

    def __init__(
        self,
        index: Any,
        folder: Path,
        config: StoreConfig,
        metadata: Metadata,
        archived: Archived,
        media: Described,
        *,
        report: Callable[[IndexFigures], None] = lambda figures: None,
        commit_seconds: float = COMMIT_SECONDS,
    ) -> None:
        self._index, self._folder = index, folder
        self._config, self._metadata, self._archived = config, metadata, archived
        self._media = media
        self._report, self._commit_seconds = report, commit_seconds
        self.is_stopped = False
        self.figures = IndexFigures()

    def stop(self) -> None:
        self.is_stopped = True

    def run(self) -> None:
        """Brings the index up to date; raises StoreError."""
        with damages(self._folder):
            self._known = KnownPages(self._index.searcher())
            self._writer = self._index.writer(MEMORY, 0)
        self._committed, self._waiting = time.monotonic(), 0
        texts = TextFiles(self._config)
        with closing(IndexPlan(self._folder)) as plan:
            self._make(plan)
            self._remove(self._known.gone())
            for batch in self._with_texts(plan, texts):
                self._put(batch)
                plan.done([entry for entry, _ in batch])
                if self.is_stopped:
                    break
        self.figures.problems = texts.problems
        with damages(self._folder):
            self._writer.commit()
            self._writer.wait_merging_threads()
            self._index.reload()
            searcher = self._index.searcher()
            self.figures.pages = searcher.num_docs
            if self.figures.planned or self.figures.removed or not has_vocabulary(self._folder):
                Vocabulary.of_index(searcher).write(self._folder)
        if not self.is_stopped:
            note_update(self._folder)

    def _with_texts(self, plan: IndexPlan, texts: TextFiles) -> Iterator[list[tuple[IndexedPage, str]]]:
        """Yields planned pages with their texts, in batches."""
        while entries := plan.first(without_text=True):
            yield list(zip(entries, self._media(entries), strict=True))
        stored = texts.read(plan.waiting) if plan.first() else ()
        for batch in _batches(stored):
            waiting = plan.waiting([key for key, _ in batch])
            yield [(entry, text) for key, text in batch for entry in waiting.pop(key, ())]
        while entries := plan.first():
            yield self._read(entries)

    def _make(self, plan: IndexPlan) -> None:
        """Plans the pages that are missing in the index or have another state there."""
        anchors = stored_anchors(self._config, self._metadata.contents())
        self._to_replace: set[int] = set()
        self._crawls = PageCrawls()
        rows = self._metadata.scan(where=conditions(), columns=COLUMNS)
        for batch in batched(rows, _ROWS):
            planned = list(self._changed(batch, anchors))
            plan.add(planned)
            self.figures.planned += len(planned)
        self._crawls.write(self._folder)

    def _changed(self, rows: Sequence[Row], anchors: LinkTexts) -> Iterator[Planned]:
        texts = anchors.to([row["url"] for row in rows])
        for row in rows:
            original = self._original(row)
            if original is not row:
                # an exact copy was not read: its original has the fields
                read = {name: row[name] or original[name] for name in READ}
                read["details"] = {**(original["details"] or {}), **(row["details"] or {})} or None
                row = {**row, **read}
            entry = entry_of(row, texts.get(row["url"], ()))
            key = entry.key
            self._crawls.add(key, row["crawl"])
            is_known, is_same = self._known.see(key, entry.state)
            if not is_same:
                if is_known:
                    self._to_replace.add(key)
                stored = StoredRows.of_details(original["details"], STORED_TEXT)
                fetched_at = stored.fetched_at if stored else original["fetched_at"]
                text = text_key(original["url"], fetched_at)
                yield Planned(entry, text if entry.kind == PAGE else None)

    def _original(self, row: Row) -> Row:
        """Returns the row of the first page for an exact copy, or else the row itself."""
        first = row["duplicate_of"]
        if row["duplicate_kind"] == "exact" and first not in (None, row["url"]):
            original = self._metadata.get(first)
            if original is not None and original["digest"] == row["digest"]:
                return original
        return row

    def _read(self, entries: Sequence[IndexedPage]) -> list[tuple[IndexedPage, str]]:
        """Reads the text of pages in the archive, in its order."""
        by_url = {entry.url: entry for entry in entries}
        rows = self._metadata.get_many(list(by_url))
        ordered = sorted(rows.values(), key=lambda row: (row["warc_file"] or "", row["warc_offset"] or 0))
        texts = {row["url"]: row["text"] or "" for row in self._archived(ordered)}
        return [(entry, texts.get(url, "")) for url, entry in by_url.items()]

    def _put(self, batch: Sequence[tuple[IndexedPage, str]]) -> None:
        """Adds documents, or replaces the documents of the same pages."""
        with damages(self._folder):
            old = [entry.key for entry, _ in batch if entry.key in self._to_replace]
            self._delete(old)
            for entry, text in batch:
                self._writer.add_document(document(entry, text))
                self._waiting += len(text)
            self.figures.changed += len(old)
            self.figures.added += len(batch) - len(old)
            is_time = time.monotonic() - self._committed >= self._commit_seconds
            if is_time or self._waiting >= COMMIT_CHARACTERS:
                self._writer.commit()
                self._committed, self._waiting = time.monotonic(), 0
        self._report(self.figures)

    def _remove(self, keys: Sequence[int]) -> None:
        with damages(self._folder):
            self._delete(keys)
        self.figures.removed = len(keys)

    def _delete(self, keys: Sequence[int]) -> None:
        query = tantivy().Query
        for start in range(0, len(keys), _KEYS):
            batch = list(keys[start : start + _KEYS])
            # delete_documents_by_term of tantivy-py makes a wrong term from a key above 2**63
            self._writer.delete_documents_by_query(query.term_set_query(schema(), "key", batch))


def conditions() -> list[ColumnElement[bool]]:
    """Returns the conditions for pages of an index: archived good responses, which excludes pages with `noindex`."""
    return [
        pages.c.status.between(200, 299),
        pages.c.warc_file.is_not(None),
        pages.c.soft_404.is_not(True),
    ]


def _batches(texts: Iterable[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    """Yields texts, up to 100 or two million characters at a time."""
    batch: list[tuple[int, str]] = []
    size = 0
    for pair in texts:
        batch.append(pair)
        size += len(pair[1])
        if len(batch) == 100 or size > 2_000_000:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class Planned(NamedTuple):
    """A page to index. `text`: the fetch with its text (`text_key`); None for a page without text."""

    entry: IndexedPage
    text: int | None


class IndexPlan:
    """The pages that wait to be indexed, in a temporary SQLite file, so that memory does not grow with the crawl.

    Methods raise StoreError when the disk is full.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / f"plan-{os.getpid()}.db"
        self._database = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        self._database.executescript(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
            "CREATE TABLE plan (key INTEGER PRIMARY KEY, text INTEGER, url TEXT, entry BLOB);"
            "CREATE INDEX plan_text ON plan (text);"
        )

    def close(self) -> None:
        """Deletes the file."""
        self._database.close()
        self._path.unlink(missing_ok=True)

    def add(self, pages: Sequence[Planned]) -> None:
        rows = [
            (_signed(page.entry.key), _signed(page.text), page.entry.url, page.entry.packed())
            for page in pages
        ]
        try:
            self._database.execute("BEGIN")
            self._database.executemany("INSERT OR REPLACE INTO plan VALUES (?, ?, ?, ?)", rows)
            self._database.execute("COMMIT")
        except sqlite3.Error as error:
            raise StoreError(f"cannot write {self._path}: {error}") from error

    def waiting(self, texts: Sequence[int]) -> dict[int, list[IndexedPage]]:
        """Returns the pages that wait for some texts, by `text_key`."""
        entries_by_text: dict[int, list[IndexedPage]] = {}
        for start in range(0, len(texts), _AT_ONCE):
            batch = [_signed(text) for text in texts[start : start + _AT_ONCE]]
            marks = ", ".join("?" * len(batch))
            query = f"SELECT text, entry FROM plan WHERE text IN ({marks})"
            for text, entry in self._database.execute(query, batch):
                entries_by_text.setdefault(text % (2 * _HALF), []).append(entry_from(entry))
        return entries_by_text

    def done(self, entries: Sequence[IndexedPage]) -> None:
        """Removes pages that are indexed."""
        rows = [(_signed(entry.key),) for entry in entries]
        self._database.executemany("DELETE FROM plan WHERE key = ?", rows)

    def first(self, *, without_text: bool = False) -> list[IndexedPage]:
        """Returns some of the pages that wait; `without_text`: only pages without text."""
        condition = "WHERE text IS NULL" if without_text else ""
        rows = self._database.execute(f"SELECT entry FROM plan {condition} LIMIT {_AT_ONCE}")
        return [entry_from(row[0]) for row in rows]


def _signed(number: int | None) -> int | None:
    """Returns an unsigned number as the signed 64-bit integer of SQLite."""
    return number if number is None or number < _HALF else number - 2 * _HALF
