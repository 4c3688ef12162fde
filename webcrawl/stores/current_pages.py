"""Finds the current rows of stored links and texts: those of the contents that a page has now, each once.

The metadata database decides. A row of a page describes its last answer with contents, and when these were stored
first, if later answers had the same payload. Links and texts from that time until its last answer have these contents;
those of the last fetch, and of its last reading, are current. Nothing is written when a page changes, so a killed
crawl, two crawls at once and deleted rows leave no wrong marks.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

Numbers = NDArray[np.int64]
_EPOCH = datetime.fromtimestamp(0, UTC)
_NEVER = -(1 << 63)


class PageContents(NamedTuple):
    """The contents of a page. `since`: when they were stored first. `until`: when an answer last had or confirmed them.

    `is_good`: the page answers 2xx, no soft 404.
    """

    url: str
    since: datetime
    until: datetime
    is_good: bool


class CurrentPages:
    """The contents of all pages of a database, in 25 bytes for each page, and two numbers for each in `CurrentRows`."""

    def __init__(self, contents: Iterable[PageContents]) -> None:
        digests, since, until, good = array("Q"), array("q"), array("q"), bytearray()
        for page in contents:
            digests.append(_digest(page.url))
            since.append((page.since - _EPOCH) // timedelta(microseconds=1))
            until.append((page.until - _EPOCH) // timedelta(microseconds=1))
            good.append(page.is_good)
        unsorted = np.frombuffer(digests, np.uint64)
        order = np.argsort(unsorted, kind="stable")
        self._digests = unsorted[order]
        self._since, self._until = (np.frombuffer(times, np.int64)[order] for times in (since, until))
        self._good = np.frombuffer(good, np.bool_)[order]

    def __len__(self) -> int:
        return len(self._digests)

    def rows(self, urls: Any, times: Any, *, only_good: bool = False) -> tuple[Numbers, NDArray[np.bool_]]:
        """Returns for each row the number of its page, and whether it has the contents that the page has now.

        `urls` and `times` are Arrow arrays. `only_good`: no row of other pages has. A page without a row has number 0.
        """
        encoded = urls.combine_chunks().dictionary_encode()
        if len(self) == 0 or len(encoded) == 0:
            return np.zeros(len(encoded), np.int64), np.zeros(len(encoded), np.bool_)
        digests = np.array([_digest(url) for url in encoded.dictionary.to_pylist()], np.uint64)
        numbers = np.minimum(np.searchsorted(self._digests, digests), len(self) - 1)
        known = self._digests[numbers] == digests
        if only_good:
            known &= self._good[numbers]
        codes = encoded.indices.to_numpy()
        page = numbers[codes]
        moments = _microseconds(times)
        return page, known[codes] & (self._since[page] <= moments) & (moments <= self._until[page])


class CurrentRows:
    """The current rows of a table of links or texts: `see` all its rows first, then `are` tells which they are.

    `columns` are those of the URL of the page and of the time of its fetch. Rows are Arrow tables with these, and with
    `read_at`, the time of a later reading of the fetch.
    """

    def __init__(self, pages: CurrentPages, columns: tuple[str, str], *, only_good: bool = False) -> None:
        self._pages, self._only_good = pages, only_good
        self._url, self._time = columns
        self._fetched, self._read = (np.full(len(pages), _NEVER, np.int64) for _ in range(2))

    @property
    def columns(self) -> Sequence[str]:
        """The columns that `see` and `are` read."""
        return self._url, self._time, "read_at"

    def see(self, rows: Any) -> None:
        """Notes the last fetch and reading of pages."""
        page, fetched, read, has_contents = self._facts(rows)
        page, fetched, read = page[has_contents], fetched[has_contents], read[has_contents]
        order = np.lexsort((read, fetched, page))
        page, fetched, read = page[order], fetched[order], read[order]
        is_last = np.append(page[1:] != page[:-1], True)[: len(page)]
        page, fetched, read = page[is_last], fetched[is_last], read[is_last]
        known = self._fetched[page]
        newer = (fetched > known) | ((fetched == known) & (read > self._read[page]))
        self._fetched[page[newer]], self._read[page[newer]] = fetched[newer], read[newer]

    def are(self, rows: Any) -> NDArray[np.bool_]:
        """Returns for each row whether it is current."""
        page, fetched, read, has_contents = self._facts(rows)
        if not len(self._pages):
            return has_contents
        is_current: NDArray[np.bool_] = (
            has_contents & (fetched == self._fetched[page]) & (read == self._read[page])
        )
        return is_current

    def _facts(self, rows: Any) -> tuple[Numbers, Numbers, Numbers, NDArray[np.bool_]]:
        """Returns for each row page, time, time of the reading, and whether it has the present contents."""
        page, has_contents = self._pages.rows(rows[self._url], rows[self._time], only_good=self._only_good)
        fetched = _microseconds(rows[self._time])
        return page, fetched, np.maximum(_microseconds(rows["read_at"]), fetched), has_contents


def _digest(url: str) -> int:
    return xxh3_64_intdigest(url.encode("utf-8", "replace"))


def _microseconds(times: Any) -> Numbers:
    """Returns an Arrow array of times in microseconds since 1970; a missing time is that of 1970."""
    numbers: Numbers = times.combine_chunks().cast("timestamp[us]").cast("int64").fill_null(0).to_numpy()
    return numbers
