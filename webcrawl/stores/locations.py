"""Finds the records of a page in the archive."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from webcrawl.documents.payload import StoredPayload
from webcrawl.stores.warc.files import WarcLocation
from webcrawl.stores.warc.reading import StoredRecord, has_body
from webcrawl.stores.warc.records import warc_date

if TYPE_CHECKING:
    from webcrawl.stores.bodies import Bodies
    from webcrawl.stores.metadata import Metadata, StoredFetch  # SQLAlchemy is slow to import

Row: TypeAlias = Mapping[str, Any]

_MOST_REFERENCES = 3


def payload_of(row: Row, get: Callable[[str], Row | None]) -> StoredPayload | None:
    """Returns the fetch that archived the body of a page; for a copy, that of the first page; None if no fetch did.

    `get` returns the row of a URL. If the first page of a copy has changed its body, returns the copy's own fetch,
    whose record usually has no body: see `location_with_body`.
    """
    if earlier := StoredPayload.of_details(row.get("details")):
        return earlier
    if row["duplicate_kind"] == "exact" and row["duplicate_of"] not in (None, row["url"]):
        first = get(row["duplicate_of"])
        if first is not None and first["digest"] == row["digest"] and first["duplicate_kind"] != "exact":
            return payload_of(first, get)
    location = own_location(row)
    return None if location is None else StoredPayload(row["url"], row["fetched_at"], *location)


def location_of_payload(payload: StoredPayload) -> WarcLocation:
    """Returns the location of the record with a payload."""
    return WarcLocation(payload.warc_file, payload.warc_offset, payload.warc_length)


def location_of(row: Row, get: Callable[[str], Row | None]) -> WarcLocation | None:
    """Returns the location of the body of a page in the archive; see `payload_of`."""
    payload = payload_of(row, get)
    return None if payload is None else location_of_payload(payload)


def own_location(row: Row) -> WarcLocation | None:
    """Returns the location of a page's response; None if it is not archived. The response of a copy has no body."""
    if row["warc_file"] is None:
        return None
    return WarcLocation(row["warc_file"], row["warc_offset"], row["warc_length"])


def location_of_body(row: Row, metadata: Metadata, bodies: Bodies) -> WarcLocation | None:
    """The location of the body of a page, read through its references; None if it is not archived."""
    location = location_of(row, metadata.get)
    return location and location_with_body(location, bodies.head, metadata.history)


def location_with_body(
    location: WarcLocation,
    head: Callable[[WarcLocation], StoredRecord],
    history: Callable[[str], Iterable[StoredFetch]],
) -> WarcLocation | None:
    """Returns the location of a record's body: the record itself, for a revisit the record it refers to, or None.

    `head` returns a record without its payload, `history` the fetches of a URL.
    """
    for _ in range(_MOST_REFERENCES):
        record = head(location)
        if has_body(record):
            return location
        url, date = map(record.headers.get, ("WARC-Refers-To-Target-URI", "WARC-Refers-To-Date"))
        fetches = history(url) if url else ()
        locations = (
            own_location(fetch._asdict()) for fetch in fetches if warc_date(fetch.fetched_at) == date
        )
        if (referred := next(filter(None, locations), None)) is None:
            return None
        location = referred
    return None
