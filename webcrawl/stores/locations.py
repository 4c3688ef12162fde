"""Where the archive has what a row of table `pages` is about."""

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
    """Where the archive has the body of a page: of a copy that of the first one, whose row `get` gives.

    Where the first one has another body by now it is the copy's own record, which has none as a rule: see
    `place_with_body`.
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


def place_with_body(
    place: WarcPlace,
    head: Callable[[WarcPlace], StoredRecord],
    history: Callable[[str], Iterable[Fetch]],
) -> WarcPlace | None:
    """Where the body of a record is: there, or of a revisit in the record that it refers to; None if nobody knows.

    `head` gives a record, whose payload is not needed, and `history` the fetches of a URL.
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
