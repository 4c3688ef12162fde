"""The pages whose text has changed since near-duplicates were marked.

They are kept for a crawl, not for a plan: another command may finish what one that was stopped has begun.
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
        """Note pages; before their rows change, so that none is forgotten."""
        with self.writing() as database:
            rows = ((self._crawl, url) for url in urls)
            database.executemany("INSERT OR IGNORE INTO changed VALUES (?, ?)", rows)

    def urls(self) -> set[str]:
        """The URLs of these pages."""
        with self.reading():
            rows = self._database.execute("SELECT url FROM changed WHERE crawl = ?", (self._crawl,))
            return {url for (url,) in rows}

    def clear(self) -> None:
        """Forget them, because near-duplicates are marked again."""
        with self.writing() as database:
            database.execute("DELETE FROM changed WHERE crawl = ?", (self._crawl,))
