"""Marks near-duplicates again after texts have changed.

In a crawl, a page is a near-duplicate of the nearest earlier page that is no near-duplicate itself. Here, earlier
means fetched earlier. A page keeps its mark if neither its text nor that of the marked original has changed.

The changed pages are kept in a file of the crawl, not of a plan: if a command is stopped, any later command can mark
near-duplicates.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from webcrawl.documents.simhash_blocks import blocks, distance as bits
from webcrawl.reparse.state_file import StateFile
from webcrawl.stores.reread_rows import ComparedText


class Rows(Protocol):
    """The methods of `RereadRows` that this module uses."""

    def texts(self) -> Iterable[ComparedText]: ...
    def mark(self, firsts: dict[str, str | None]) -> None: ...


class Originals:
    """Finds pages that are no near-duplicates by the SimHash of their text."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._urls: list[str] = []
        self._simhashes: list[int] = []
        self._by_block: defaultdict[int, list[int]] = defaultdict(list)

    def add(self, url: str, simhash: int) -> None:
        """Adds a page."""
        number = len(self._urls)
        self._urls.append(url)
        self._simhashes.append(simhash)
        for block in blocks(simhash, self._most):
            self._by_block[block].append(number)

    def nearest(self, simhash: int) -> str | None:
        """Returns the URL of the page with the nearest text, the earliest of several; None if no text is near."""
        near = {
            number
            for block in blocks(simhash, self._most)
            for number in self._by_block.get(block, ())
            if bits(self._simhashes[number], simhash) <= self._most
        }
        if not near:
            return None
        return self._urls[min(near, key=lambda number: (bits(self._simhashes[number], simhash), number))]


def mark_again(rows: Rows, changed: set[str], most: int) -> int:
    """Marks the near-duplicates of a crawl again; returns how many marks changed.

    `changed`: the URLs of the pages whose text differs from that of the crawl. `most`: the number of bits in which
    near-duplicates may differ.
    """
    if not changed:
        return 0
    originals, marks = Originals(most), dict[str, str | None]()
    for url, simhash, before in rows.texts():
        kept = before is not None and url not in changed and before not in changed and not marks.get(before)
        first = before if kept else None
        if simhash is not None and not kept and (first := originals.nearest(simhash)) is None:
            originals.add(url, simhash)
        if first != before:
            marks[url] = first
    rows.mark(marks)
    return len(marks)


_TABLE = """
CREATE TABLE IF NOT EXISTS changed (crawl TEXT, url TEXT, PRIMARY KEY (crawl, url)) WITHOUT ROWID;
"""


class ChangedTexts(StateFile):
    """The pages of a crawl whose text has changed since near-duplicates were marked, in a file beside the plans."""

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
