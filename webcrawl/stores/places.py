"""Where the archive has what a row of table `pages` is about."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from webcrawl.stores.warc import WarcPlace

Row: TypeAlias = Mapping[str, Any]


def place_of(row: Row, get: Callable[[str], Row | None]) -> WarcPlace | None:
    """Where the archive has the body of a page: of a copy that of the first one, whose row `get` gives.

    Where the first one has another body by now it is the copy's own record, which has none as a rule.
    """
    if row["duplicate_kind"] == "exact" and row["duplicate_of"] not in (None, row["url"]):
        first = get(row["duplicate_of"])
        if first is not None and first["digest"] == row["digest"] and first["duplicate_kind"] != "exact":
            row = first
    return own_place(row)


def own_place(row: Row) -> WarcPlace | None:
    """Where the archive has the answer of a page, for a copy without its body; None when it has not."""
    if row["warc_file"] is None:
        return None
    return WarcPlace(row["warc_file"], row["warc_offset"], row["warc_length"])
