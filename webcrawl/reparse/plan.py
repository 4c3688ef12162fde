"""The plan of a reparse in a SQLite file: the chosen pages in the order of the archive, and their results.

A page is marked when all work on it is done, so a reparse that was killed continues with the unmarked pages.
Plans are in the folder `DATA_DIR/reparse`, with the locks of the processes that work on them.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from webcrawl.documents.disk import failure
from webcrawl.errors import StoreError
from webcrawl.reparse.state_file import StateFile
from webcrawl.stores.file_lock import try_lock
from webcrawl.stores.reread_rows import ResponseLocation

BLOCK = 64
"""The number of pages that a process takes at a time."""

_MOST_VALUES = 500
"""The most values of a query: SQLite may be built with a limit of 999."""
_MOST_REASONS = 1_000
"""How many unreadable pages are stored with their reasons; further pages are only counted and logged."""
_TABLES = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS work (
    position INTEGER PRIMARY KEY, url TEXT NOT NULL, done INTEGER NOT NULL DEFAULT 0, fetched_at INTEGER,
    read_at INTEGER);
CREATE TABLE IF NOT EXISTS failures (url TEXT PRIMARY KEY, reason TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS counts (name TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;
"""
# the keys of the table of facts
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
    """The plan in the file at `path`, which is created if it does not exist."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, _TABLES)

    @property
    def is_made(self) -> bool:
        """Whether the pages have been chosen."""
        return self._fact(_CHOSEN) is not None

    @property
    def chosen(self) -> dict[str, int]:
        """The numbers of chosen pages: the result of `RereadRows.count`."""
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
        """Stores the chosen pages in one transaction."""
        with self.writing() as database:
            database.execute("DELETE FROM work")
            database.executemany(
                "INSERT INTO work (url) VALUES (?)", ((location.url,) for location in locations)
            )
            self._note(_CHOSEN, json.dumps(dict(chosen)))
            if callback is not None:
                self._note(_CALLBACK, callback)

    def begin(self) -> None:
        """Makes all unfinished pages available again. No process may be working on the plan."""
        with self.writing() as database:
            if self._fact(_NEXT) is not None:
                self._note(_RESUMED, "yes")
            first = database.execute("SELECT min(position) FROM work WHERE done = 0").fetchone()[0]
            self._note(_NEXT, str(first or 0))

    def finish(self, moment: str) -> None:
        """Records the time at which the reparse was finished, in ISO 8601."""
        with self.writing():
            self._note(_FINISHED, moment)

    def take(self) -> list[Work]:
        """Returns up to BLOCK pages, which no other process gets; an empty list if no page is left."""
        with self.writing() as database:
            query = (
                "SELECT position, url FROM work WHERE position >= ? AND done = 0 ORDER BY position LIMIT ?"
            )
            block = [Work(*row) for row in database.execute(query, (int(self._fact(_NEXT) or 0), BLOCK))]
            if block:
                self._note(_NEXT, str(block[-1].position + 1))
            return block

    def left(self) -> int:
        """Returns the number of pages that are not done."""
        with self.reading():
            (number,) = self._database.execute("SELECT count(*) FROM work WHERE done = 0").fetchone()
            return int(number)

    def settle(
        self, done: Mapping[int, Reading | None], failures: Mapping[str, str], counts: Counter[str]
    ) -> None:
        """Records finished pages, the reasons why pages could not be read, and counts to add to the totals.

        `done`: the reading of each page by its position, or None if nothing was stored again.
        """
        with self.writing() as database:
            database.executemany(
                "UPDATE work SET done = 1, fetched_at = ?, read_at = ? WHERE position = ?",
                ((*(reading or (None, None)), position) for position, reading in done.items()),
            )
            kept = database.execute("SELECT count(*) FROM failures").fetchone()[0]
            stored_failures = list(failures.items())[: max(0, _MOST_REASONS - kept)]
            database.executemany("INSERT OR REPLACE INTO failures VALUES (?, ?)", stored_failures)
            database.executemany(
                "INSERT INTO counts VALUES (?, ?) ON CONFLICT DO UPDATE SET number = number + excluded.number",
                counts.items(),
            )

    def readings(self, urls: Sequence[str]) -> dict[str, Reading]:
        """Returns the readings by URL, of those pages of which something was stored again."""
        readings: dict[str, Reading] = {}
        with self.reading():
            self._database.execute("CREATE INDEX IF NOT EXISTS work_urls ON work (url)")
            for start in range(0, len(urls), _MOST_VALUES):
                part = urls[start : start + _MOST_VALUES]
                marks = ",".join("?" * len(part))
                query = f"SELECT url, fetched_at, read_at FROM work WHERE read_at IS NOT NULL AND url IN ({marks})"
                readings.update({url: Reading(*times) for url, *times in self._database.execute(query, part)})
        return readings

    def counts(self) -> dict[str, int]:
        """Returns the totals of all processes and runs."""
        with self.reading():
            return dict(self._database.execute("SELECT name, number FROM counts ORDER BY name"))

    def failures(self) -> dict[str, str]:
        """Returns by URL why pages could not be read, for at most 1,000 pages."""
        with self.reading():
            return dict(self._database.execute("SELECT url, reason FROM failures ORDER BY url"))

    def _fact(self, name: str) -> str | None:
        with self.reading():
            row = self._database.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
            return None if row is None else str(row[0])

    def _note(self, name: str, value: str) -> None:
        self._database.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))


def remove(path: Path) -> None:
    """Deletes a plan."""
    for end in ("", "-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)


def facts_of(plan: Plan) -> dict[str, Any]:
    """Returns the facts that `scrapy reparse` prints at the end."""
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


_LOCK, _WORKERS = "lock", "workers"


def open_plan(data_dir: Path, mark: str, *, again: bool) -> Plan:
    """Returns the plan of a command by its mark; a new plan if `again`. Deletes finished plans of other commands."""
    folder = _folder(data_dir)
    path = folder / f"{mark}.db"
    for other in folder.glob("?" * len(mark) + ".db"):
        if again if other == path else _is_finished(other):
            remove(other)
    return Plan(path)


def _is_finished(path: Path) -> bool:
    with suppress(StoreError), Plan(path) as plan:
        return plan.finished_at is not None
    return False


@contextmanager
def locked(data_dir: Path) -> Iterator[None]:
    """Keeps other reparses out of this folder during the block; raises StoreError if a reparse is running.

    A killed reparse counts as running until all its processes have ended.
    """
    folder = _folder(data_dir)
    with _file(folder / _LOCK) as own, _file(folder / _WORKERS) as workers:
        for descriptor, path in ((own, folder / _LOCK), (workers, folder / _WORKERS)):
            if not try_lock(descriptor, path):
                raise StoreError(
                    f"another reparse is running in {data_dir}, or its processes have not ended yet"
                )
        fcntl.flock(workers, fcntl.LOCK_UN)
        yield


@contextmanager
def working(plan: Path) -> Iterator[None]:
    """Marks this process as working on a plan during the block; see `locked`."""
    with _file(plan.parent / _WORKERS) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield


@contextmanager
def _file(path: Path) -> Iterator[int]:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise failure("open", path, error) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _folder(data_dir: Path) -> Path:
    folder = data_dir / "reparse"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise failure("create", folder, error) from error
    return folder
