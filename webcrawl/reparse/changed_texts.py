"""Keeps the pages whose text has changed since near-duplicates were marked.

The file belongs to a crawl, not to a plan: if a command is stopped, any later command can mark near-duplicates.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from webcrawl.reparse.state_file import StateFile

_TABLE = """
CREATE TABLE IF NOT EXISTS changed (crawl TEXT, url TEXT, PRIMARY KEY (crawl, url)) WITHOUT ROWID;
"""


class ChangedTexts(StateFile):
    """The pages of one crawl, in a file in the folder of the plans."""

    def __init__(self, folder: Path, crawl: str) -> None:
        super().__init__(folder / "changed.db", _TABLE)
        self._crawl = crawl

    def add(self, urls: Iterable[str]) -> None:
        """Records pages. Call it before their rows change, so that a crash loses none."""
        with self.writing() as database:
            rows = ((self._crawl, url) for url in urls)
            database.executemany("INSERT OR IGNORE INTO changed VALUES (?, ?)", rows)

    def urls(self) -> set[str]:
        """Returns the URLs of the recorded pages."""
        with self.reading():
            rows = self._database.execute("SELECT url FROM changed WHERE crawl = ?", (self._crawl,))
            return {url for (url,) in rows}

    def clear(self) -> None:
        """Forgets all pages; call it when near-duplicates have been marked again."""
        with self.writing() as database:
            database.execute("DELETE FROM changed WHERE crawl = ?", (self._crawl,))
