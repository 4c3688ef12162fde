"""Reads the keys and states of the pages in an index."""

from __future__ import annotations

from typing import Any

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
    keys: list[int] = []
    values: list[int] = []
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
    sorted_keys = np.array(keys, np.uint64)
    order = np.argsort(sorted_keys, kind="stable")
    return sorted_keys[order], np.array(values, np.uint64)[order]
