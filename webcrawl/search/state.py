"""Reads the keys and states of the pages in an index, and the crawls that requested them last."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from webcrawl.search.schema import schema, tantivy

Numbers = npt.NDArray[np.uint64]

_AT_ONCE = 50_000
_ALL = 1 << 64


class KnownPages:
    """The pages of an index, with 17 bytes for each. Pages for which `see` is not called are `gone`."""

    def __init__(self, searcher: Any) -> None:
        self._keys, self._states = fast_values(searcher, "state")
        self._seen = np.zeros(len(self._keys), np.bool_)

    def __len__(self) -> int:
        return len(self._keys)

    def see(self, key: int, state: int) -> tuple[bool, bool]:
        """Records that a page exists; returns whether the index has the page, and whether its state is the same."""
        index = int(np.searchsorted(self._keys, np.uint64(key)))
        if index == len(self._keys) or int(self._keys[index]) != key:
            return False, False
        self._seen[index] = True
        return True, int(self._states[index]) == state

    def gone(self) -> list[int]:
        """Returns the keys for which `see` was not called."""
        return [int(key) for key in self._keys[~self._seen]]


def fast_values(searcher: Any, field: str) -> tuple[Numbers, Numbers]:
    """Returns all keys that have a value in a numeric field, sorted, and the values."""
    library = tantivy()
    parts = max(1, searcher.num_docs // _AT_ONCE)
    # 8 bytes for each number instead of 40
    keys, values = array("Q"), array("Q")
    for part in range(parts):
        bounds = part * _ALL // parts, (part + 1) * _ALL // parts - 1
        query = library.Query.range_query(schema(), "key", library.FieldType.Unsigned, *bounds)
        hits = searcher.search(query, max(1, searcher.num_docs), count=False).hits
        addresses = [address for _, address in hits]
        for key, value in zip(
            searcher.fast_field_values("key", addresses),
            searcher.fast_field_values(field, addresses),
            strict=True,
        ):
            if value is not None:
                keys.append(key)
                values.append(value)
    all_keys = np.frombuffer(keys, np.uint64)
    order = np.argsort(all_keys, kind="stable")
    return all_keys[order], np.frombuffer(values, np.uint64)[order]


class PageCrawls:
    """The crawls that requested pages last. They are beside the index, since a new crawl requests all pages again.

    `names` are those of crawls; for each page of the table, `keys` has its key, and `crawls` the number of its crawl.
    """

    _FILE = "crawls.npz"

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.keys: Numbers = np.empty(0, np.uint64)
        self.crawls = np.empty(0, np.uint32)
        self._new_keys, self._new_crawls = array("Q"), array("I")

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """Returns the crawls of an index; None for an index of an earlier version."""
        crawls = cls()
        try:
            with np.load(folder / cls._FILE) as stored:
                crawls.names = {str(name): number for number, name in enumerate(stored["names"])}
                crawls.keys, crawls.crawls = stored["keys"], stored["crawls"]
        except (OSError, ValueError, KeyError):
            return None
        return crawls

    def add(self, key: int, crawl: str | None) -> None:
        """Adds a page."""
        self._new_keys.append(key)
        self._new_crawls.append(self.names.setdefault(crawl or "", len(self.names)))

    def write(self, folder: Path) -> None:
        """Replaces the file in the folder of an index by the added pages."""
        keys = np.frombuffer(self._new_keys, np.uint64)
        order = np.argsort(keys, kind="stable")
        crawls = np.frombuffer(self._new_crawls, np.uint32)[order]
        unfinished = folder / f"unfinished-{self._FILE}"
        np.savez(unfinished, names=np.array([*self.names], np.str_), keys=keys[order], crawls=crawls)
        unfinished.rename(folder / self._FILE)

    def of(self, key: int) -> str | None:
        """Returns the crawl of a page."""
        index = int(np.searchsorted(self.keys, np.uint64(key)))
        if index == len(self.keys) or int(self.keys[index]) != key:
            return None
        return [*self.names][self.crawls[index]] or None

    def condition(self, crawl: str) -> Any:
        """Returns a query for the pages of a crawl in `names`; None if these are all pages."""
        query, occur, are_wanted = tantivy().Query, tantivy().Occur, self.crawls == self.names[crawl]
        if are_wanted.all():
            return None
        # the shorter list of keys
        if np.count_nonzero(are_wanted) * 2 <= len(self.keys):
            condition = query.term_set_query(schema(), "key", self.keys[are_wanted].tolist())
        else:
            others = query.term_set_query(schema(), "key", self.keys[~are_wanted].tolist())
            condition = query.boolean_query([(occur.Must, query.all_query()), (occur.MustNot, others)])
        return query.const_score_query(condition, 0.0)
