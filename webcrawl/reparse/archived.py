"""Reads archived pages: for a row of table `pages`, the exchange as it was when the page was fetched."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple, TypeAlias

from webcrawl.config import Spool, StoreConfig
from webcrawl.documents.body import Body
from webcrawl.documents.body_writer import BodyWriter
from webcrawl.documents.exchange import Exchange, status_in
from webcrawl.errors import StoreError
from webcrawl.stores.archive import archive_to_read
from webcrawl.stores.locations import Row, location_of_payload, location_with_body, own_location, payload_of
from webcrawl.stores.metadata import Metadata, StoredFetch
from webcrawl.stores.read_ahead import ReadAhead
from webcrawl.stores.warc.files import WarcLocation
from webcrawl.stores.warc.reading import StoredRecord, begun, has_body
from webcrawl.stores.warc.records import STATUS

_ORIGINAL = re.compile(rb"^X-Archive-Orig-", re.IGNORECASE)
_FRAMING = (b"transfer-encoding", b"content-length")
_HTML = (b"Content-Type", b"text/html; charset=utf-8")


Fields: TypeAlias = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Archived:
    """A page to read again: its row, and the archived parts of its fetch.

    fields    the fields of the response's header, as received
    record_id the WARC-Record-ID of the record with its body; None for a copy
    first     for a copy whose header alone is archived: the page with the same payload
    """

    row: Row
    exchange: Exchange
    fields: Fields
    record_id: str | None = None
    first: First | None = None


class First(NamedTuple):
    """An earlier page with the same payload: its URL, and the fields of its header."""

    url: str
    fields: Fields


class ArchivedPages:
    """Reads the archived responses of rows; for one thread."""

    def __init__(self, config: StoreConfig, spool: Spool) -> None:
        self._metadata = Metadata(config.metadata, history=config.history)
        self._records = ReadAhead(archive_to_read(config))
        self._spool = spool

    def load(self, urls: Sequence[str]) -> dict[str, Archived | StoreError | None]:
        """Returns for each URL its page, the error of reading it, or None if no response is archived any more."""
        rows = self._metadata.get_many(urls)
        copied = {row["duplicate_of"] for row in rows.values() if row["duplicate_kind"] == "exact"}
        firsts = rows | self._metadata.get_many([url for url in copied if url and url not in rows])
        locations = [location for row in rows.values() if (location := own_location(row)) is not None]
        self._records.expect(locations)
        return {url: self._page(rows.get(url), firsts.get) for url in urls}

    def close(self) -> None:
        """Closes the database."""
        self._metadata.close()

    def _page(self, row: Row | None, get: Callable[[str], Row | None]) -> Archived | StoreError | None:
        if row is None or row["status"] is None or (location := own_location(row)) is None:
            return None
        try:
            return self._read(row, location, get)
        except StoreError as error:
            return StoreError(f"{location.file} at byte {location.offset}: {error}")

    def _read(self, row: Row, location: WarcLocation, get: Callable[[str], Row | None]) -> Archived:
        record, payload = begun(self._records.chunks(location))
        if (target := record.headers.get("WARC-Target-URI")) != row["url"]:
            raise StoreError(f"the record is that of {target}")
        first, record_id = None, record.headers.get("WARC-Record-ID")
        if not has_body(record):
            original, payload = self._first(row, location, get)
            url = original.headers.get("WARC-Target-URI", "")
            if row["duplicate_kind"] == "exact":
                record_id = None
            first = First(url, _fields(original, url, get(url)))
            if not record.http_head:
                record = replace(record, headers=original.headers | record.headers)
        body = self._body(payload)
        if row["digest"] is not None and body.digest != row["digest"]:
            raise StoreError(f"the payload has the digest {body.digest}, not {row['digest']}")
        fields = _fields(record, row["url"], row)
        return Archived(row, _exchange(row, record, body), fields, record_id, first)

    def _first(
        self, row: Row, location: WarcLocation, get: Callable[[str], Row | None]
    ) -> tuple[StoredRecord, Iterator[bytes]]:
        """Returns the record with the payload of a revisit, and the payload."""
        payload = payload_of(row, get)
        body_location = payload and location_of_payload(payload)
        if body_location in (None, location):
            body_location = location_with_body(location, self._head, self._history)
        if body_location is None:
            raise StoreError(
                f"its body is not in the archive: it is a copy of {row['duplicate_of'] or row['url']}"
            )
        return begun(self._records.chunks(body_location))

    def _head(self, location: WarcLocation) -> StoredRecord:
        return begun(self._records.chunks(location))[0]

    def _history(self, url: str) -> list[StoredFetch]:
        return self._metadata.history(url)

    def _body(self, payload: Iterator[bytes]) -> Body:
        writer = BodyWriter(self._spool, digests=True)
        for piece in payload:
            writer.add(piece)
            if writer.is_full:
                writer.spill()
        return writer.finish()


def _exchange(row: Row, record: StoredRecord, payload: Body) -> Exchange:
    fields = record.headers
    fetched_at: datetime = row["fetched_at"]
    is_http = row["url"].startswith("http")
    return Exchange(
        url=row["url"],
        method="GET",
        request_head=b"",
        request_body=b"",
        status=_status(record),
        response_head=record.http_head,
        payload=payload,
        ip_address=fields.get("WARC-IP-Address"),
        fetched_at=fetched_at,
        truncated=fields.get("WARC-Truncated"),
        mime_type=None if record.http_head else fields.get("Content-Type"),
        # an exchange of another protocol has its problem only in the row
        problem=None if is_http or row["mime_type"] != "text/html" else row["processing_error"],
        protocol=fields.get("WARC-Protocol"),
    )


def _status(record: StoredRecord) -> int:
    if not record.http_head:
        return int(record.headers.get(STATUS, "200"))
    status = status_in(record.http_head)
    if status is None:
        raise StoreError("the status line of the response cannot be read")
    return status


def _fields(record: StoredRecord, url: str, row: Row | None) -> list[tuple[bytes, bytes]]:
    """Returns a header as it was received. `webcrawl.stores.warc.records` describes what the archive changes in it."""
    if not record.http_head:
        return _without_head(record, url, row)
    lines = record.http_head.split(b"\r\n")[1:]
    parts = [line.partition(b":") for line in lines]
    fields = [(name.strip(), value.strip()) for name, colon, value in parts if colon]
    if not any(_ORIGINAL.match(name) for name, _ in fields):
        return fields
    kept = [(name, value) for name, value in fields if name.lower() not in _FRAMING]
    return [(_ORIGINAL.sub(b"", name), value) for name, value in kept]


def _declared(row: Row) -> str | None:
    """Returns the declared language of a page, also if its text is in another."""
    if row["language_source"] == "declared":
        return str(row["language"])
    declared = (row["details"] or {}).get("languages", {}).get("declared")
    return None if declared is None else str(declared)


def _without_head(record: StoredRecord, url: str, row: Row | None) -> list[tuple[bytes, bytes]]:
    """Returns the header that a download handler gives to a response without a header."""
    scheme = url.partition(":")[0]
    if scheme in ("http", "https"):
        # a rendered page is archived in UTF-8 unless its record has a charset; its row keeps only the language
        mime_type, language = record.headers.get("Content-Type", ""), _declared(row) if row else None
        html = (b"Content-Type", mime_type.encode("latin-1", "replace")) if "charset=" in mime_type else _HTML
        return [html, *([(b"Content-Language", language.encode())] if language else [])]
    if scheme == "ftp":
        return [_HTML] if url.endswith("/") else []
    return [(b"Content-Type", record.headers.get("Content-Type", "").encode("latin-1", "replace"))]
