"""SQLite files in which the processes of a reparse keep their state."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from webcrawl.errors import StoreError

_LOCK_SECONDS = 60.0
_RETRY_SECONDS = 0.01


class StateFile:
    """The SQLite file at `path`, created with `tables` if it does not exist.

    The methods may be called in any thread. They raise StoreError, whose message has the path.
    """

    def __init__(self, path: Path, tables: str) -> None:
        self.path = path
        self._lock = threading.RLock()
        with self.reading():
            self._database = sqlite3.connect(
                path, timeout=_LOCK_SECONDS, isolation_level=None, check_same_thread=False
            )
            self._turn_on_log()
            self._database.execute("PRAGMA synchronous = NORMAL")
            self._database.executescript(tables)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        self._database.close()

    def _turn_on_log(self) -> None:
        # SQLite ignores its timeout here while another process writes the new file, or does the same
        deadline = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                self._database.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
            time.sleep(_RETRY_SECONDS)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Locks out other threads during the block, and adds the path to errors."""
        try:
            with self._lock:
                yield
        except sqlite3.Error as error:
            raise StoreError(f"{self.path}: {error}") from error

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Runs the block in a transaction, during which no other process can write."""
        with self.reading():
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield self._database
            except BaseException:
                self._database.execute("ROLLBACK")
                raise
            self._database.execute("COMMIT")
