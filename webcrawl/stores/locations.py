"""Finds the records of a page in the archive."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from webcrawl.stores.warc.files import WarcPlace
from webcrawl.stores.warc.reading import StoredRecord, has_body
from webcrawl.stores.warc.records import warc_date

if TYPE_CHECKING:
    from webcrawl.stores.metadata import Fetch  # SQLAlchemy is slow to import

Row: TypeAlias = Mapping[str, Any]

_MOST_REFERENCES = 3


def place_of(row: Row, get: Callable[[str], Row | None]) -> WarcPlace | None:
    """The place of the body of a page in the archive; for a copy, that of the first page, whose row `get` returns.

    If the first page has another body by now, returns the copy's own record, which usually has no body: see
    `place_with_body`.
    """
    if row["duplicate_kind"] == "exact" and row["duplicate_of"] not in (None, row["url"]):
        first = get(row["duplicate_of"])
        if first is not None and first["digest"] == row["digest"] and first["duplicate_kind"] != "exact":
            row = first
    return own_place(row)


def own_place(row: Row) -> WarcPlace | None:
    """The place of the response of a page, which has no body for a copy; None if it is not archived."""
    if row["warc_file"] is None:
        return None
    return WarcPlace(row["warc_file"], row["warc_offset"], row["warc_length"])


def place_with_body(
    place: WarcPlace,
    head: Callable[[WarcPlace], StoredRecord],
    history: Callable[[str], Iterable[Fetch]],
) -> WarcPlace | None:
    """The place of the body of a record: the record itself, or for a revisit the one that it refers to, or None.

    `head` returns a record without its payload, `history` the fetches of a URL.
    """
    for _ in range(_MOST_REFERENCES):
        record = head(place)
        if has_body(record):
            return place
        url, date = map(record.headers.get, ("WARC-Refers-To-Target-URI", "WARC-Refers-To-Date"))
        fetches = history(url) if url else ()
        places = (own_place(one._asdict()) for one in fetches if warc_date(one.fetched_at) == date)
        if (found := next(filter(None, places), None)) is None:
            return None
        place = found
    return None
