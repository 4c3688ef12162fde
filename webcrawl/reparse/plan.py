"""The plan of a reparse in a SQLite file: the chosen pages in the order of the archive, and what became of them.

A page is marked when all work on it is done, so a reparse that was killed goes on with the others.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from webcrawl.reparse.state_file import StateFile
from webcrawl.stores.reread_rows import ResponseLocation

BLOCK = 64
"""Pages that a process takes at a time."""

_MOST_VALUES = 500
"""Values of a query; SQLite may be built for 999."""
_MOST_REASONS = 1_000
"""Pages of which the reason is kept why they could not be read; further ones are only counted and logged."""
_TABLES = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS work (
    position INTEGER PRIMARY KEY, url TEXT NOT NULL, done INTEGER NOT NULL DEFAULT 0, fetched_at INTEGER,
    read_at INTEGER);
CREATE TABLE IF NOT EXISTS failures (url TEXT PRIMARY KEY, reason TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS counts (name TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;
"""
# facts
_CHOSEN, _CALLBACK, _NEXT, _RESUMED, _FINISHED = "chosen", "callback", "next", "resumed", "finished"


class Work(NamedTuple):
    """A page to read again: its position in the plan, and its URL."""

    position: int
    url: str


class Reading(NamedTuple):
    """When a page was fetched and when it was read again, in microseconds since 1970."""

    fetched_at: int
    read_at: int


class Plan(StateFile):
    """The plan in the file at `path`; it is made if it does not exist."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, _TABLES)

    @property
    def is_made(self) -> bool:
        """Whether the pages have been chosen."""
        return self._fact(_CHOSEN) is not None

    @property
    def chosen(self) -> dict[str, int]:
        """What was chosen: the result of `RereadRows.count`."""
        return dict(json.loads(self._fact(_CHOSEN) or "{}"))

    @property
    def callback(self) -> str | None:
        """The name of the spider's method that gets the responses; None: `parse`."""
        return self._fact(_CALLBACK)

    @property
    def is_resumed(self) -> bool:
        """Whether an earlier run has worked on the plan."""
        return self._fact(_RESUMED) is not None

    @property
    def finished_at(self) -> str | None:
        """When all pages were read, in ISO 8601; None if some are left."""
        return self._fact(_FINISHED)

    def make(
        self, locations: Iterable[ResponseLocation], chosen: Mapping[str, int], callback: str | None
    ) -> None:
        """Note the chosen pages, all or none."""
        with self.writing() as database:
            database.execute("DELETE FROM work")
            database.executemany(
                "INSERT INTO work (url) VALUES (?)", ((location.url,) for location in locations)
            )
            self._note(_CHOSEN, json.dumps(dict(chosen)))
            if callback is not None:
                self._note(_CALLBACK, callback)

    def begin(self) -> None:
        """Give out all pages again that are not done; no process may work on the plan."""
        with self.writing() as database:
            if self._fact(_NEXT) is not None:
                self._note(_RESUMED, "yes")
            first = database.execute("SELECT min(position) FROM work WHERE done = 0").fetchone()[0]
            self._note(_NEXT, str(first or 0))

    def finish(self, moment: str) -> None:
        """Note that all is done."""
        with self.writing():
            self._note(_FINISHED, moment)

    def take(self) -> list[Work]:
        """The next pages, up to BLOCK, for one process; an empty list if none is left."""
        with self.writing() as database:
            query = (
                "SELECT position, url FROM work WHERE position >= ? AND done = 0 ORDER BY position LIMIT ?"
            )
            block = [Work(*row) for row in database.execute(query, (int(self._fact(_NEXT) or 0), BLOCK))]
            if block:
                self._note(_NEXT, str(block[-1].position + 1))
            return block

    def left(self) -> int:
        """The number of pages that are not done."""
        with self.reading():
            (number,) = self._database.execute("SELECT count(*) FROM work WHERE done = 0").fetchone()
            return int(number)

    def settle(
        self, done: Mapping[int, Reading | None], failures: Mapping[str, str], counts: Counter[str]
    ) -> None:
        """Note what is done, why some pages could not be read, and numbers to add to the totals.

        `done`: positions of pages, and their readings; None if nothing was stored anew.
        """
        with self.writing() as database:
            database.executemany(
                "UPDATE work SET done = 1, fetched_at = ?, read_at = ? WHERE position = ?",
                ((*(reading or (None, None)), position) for position, reading in done.items()),
            )
            kept = database.execute("SELECT count(*) FROM failures").fetchone()[0]
            some = list(failures.items())[: max(0, _MOST_REASONS - kept)]
            database.executemany("INSERT OR REPLACE INTO failures VALUES (?, ?)", some)
            database.executemany(
                "INSERT INTO counts VALUES (?, ?) ON CONFLICT DO UPDATE SET number = number + excluded.number",
                counts.items(),
            )

    def readings(self, urls: Sequence[str]) -> dict[str, Reading]:
        """URL -> its reading, of the pages of which something was stored anew."""
        readings: dict[str, Reading] = {}
        with self.reading():
            self._database.execute("CREATE INDEX IF NOT EXISTS work_urls ON work (url)")
            for start in range(0, len(urls), _MOST_VALUES):
                some = urls[start : start + _MOST_VALUES]
                marks = ",".join("?" * len(some))
                query = f"SELECT url, fetched_at, read_at FROM work WHERE read_at IS NOT NULL AND url IN ({marks})"
                readings.update({url: Reading(*times) for url, *times in self._database.execute(query, some)})
        return readings

    def counts(self) -> dict[str, int]:
        """The totals of all processes and runs."""
        with self.reading():
            return dict(self._database.execute("SELECT name, number FROM counts ORDER BY name"))

    def failures(self) -> dict[str, str]:
        """URL -> why a page could not be read; at most 1,000 of them."""
        with self.reading():
            return dict(self._database.execute("SELECT url, reason FROM failures ORDER BY url"))

    def _fact(self, name: str) -> str | None:
        with self.reading():
            row = self._database.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
            return None if row is None else str(row[0])

    def _note(self, name: str, value: str) -> None:
        self._database.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))


def remove(path: Path) -> None:
    """Delete a plan."""
    for end in ("", "-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)


def facts_of(plan: Plan) -> dict[str, Any]:
    """What `scrapy reparse` prints at the end."""
    counts = plan.counts()
    return {
        **plan.chosen,
        "left": plan.left(),
        "rows": counts.pop("rows", 0),
        "failed": counts.pop("failed", 0),
        "failures": plan.failures(),
        "texts_changed": counts.pop("texts_changed", 0),
        "marks_changed": counts.pop("marks_changed", 0),
        "counts": counts,
        "finished_at": plan.finished_at,
    }
