"""The pages that have to be indexed, in a temporary SQLite file, so that memory does not grow with the crawl."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from webcrawl.errors import StoreError
from webcrawl.search.entry import Entry, entry_from

_AT_ONCE = 500
_HALF = 1 << 63


class Planned(NamedTuple):
    """A page that has to be indexed. `text`: the fetch that has its text (`text_key`), None if it has none."""

    entry: Entry
    text: int | None


class Plan:
    """The pages that wait. Methods raise StoreError when the disk is full."""

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
            (_signed(one.entry.key), _signed(one.text), one.entry.url, one.entry.packed()) for one in pages
        ]
        try:
            self._database.execute("BEGIN")
            self._database.executemany("INSERT OR REPLACE INTO plan VALUES (?, ?, ?, ?)", rows)
            self._database.execute("COMMIT")
        except sqlite3.Error as error:
            raise StoreError(f"cannot write {self._path}: {error}") from error

    def waiting(self, texts: Sequence[int]) -> dict[int, list[Entry]]:
        """Returns the pages that wait for some texts, by `text_key`."""
        found: dict[int, list[Entry]] = {}
        for start in range(0, len(texts), _AT_ONCE):
            some = [_signed(one) for one in texts[start : start + _AT_ONCE]]
            marks = ", ".join("?" * len(some))
            query = f"SELECT text, entry FROM plan WHERE text IN ({marks})"
            for text, entry in self._database.execute(query, some):
                found.setdefault(text % (2 * _HALF), []).append(entry_from(entry))
        return found

    def done(self, entries: Sequence[Entry]) -> None:
        """Forgets pages, which are indexed."""
        rows = [(_signed(entry.key),) for entry in entries]
        self._database.executemany("DELETE FROM plan WHERE key = ?", rows)

    def first(self, *, without_text: bool = False) -> list[Entry]:
        """Returns some of the pages that wait; `without_text`: of those that have none."""
        condition = "WHERE text IS NULL" if without_text else ""
        found = self._database.execute(f"SELECT entry FROM plan {condition} LIMIT {_AT_ONCE}")
        return [entry_from(row[0]) for row in found]


def _signed(number: int | None) -> int | None:
    """The number in SQLite's 64 bits."""
    return number if number is None or number < _HALF else number - 2 * _HALF
