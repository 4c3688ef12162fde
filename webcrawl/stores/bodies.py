"""Bodies from the archive as a fetch has them: decoded, cut off by type, in a file where they are large."""

from __future__ import annotations

import math
from collections.abc import Iterable

from webcrawl.body import Body, BodyWriter
from webcrawl.coding import codings, pieces
from webcrawl.config import FetchConfig
from webcrawl.errors import BadCoding, StoreError, StoreUnavailable
from webcrawl.mime.sizes import Sizes
from webcrawl.stores.archive import Archive
from webcrawl.stores.record import StoredRecord, begun, http_fields
from webcrawl.stores.warc import WarcPlace


class Bodies:
    """The bodies in an archive. What is archived may unfold to any size, so whoever parses it reads it here."""

    def __init__(self, archive: Archive, fetch: FetchConfig) -> None:
        self._archive = archive
        self._spool = fetch.spool
        self._sizes = Sizes(fetch.sizes)
        self._most = fetch.maxsize or math.inf

    def read(self, place: WarcPlace) -> tuple[StoredRecord, Body]:
        """A record without its payload, and its body: what cannot be decoded is as it was sent.

        May take long; raises StoreError when there is no record, or it is damaged.
        """
        try:
            return self._read(place)
        except StoreUnavailable:
            raise
        except StoreError as error:
            raise StoreError(f"{place.file} at byte {place.offset}: {error}") from error

    def _read(self, place: WarcPlace) -> tuple[StoredRecord, Body]:
        record, payload = begun(self._archive.chunks(place))
        names = codings(",".join(http_fields(record.http_head, "content-encoding")))
        try:
            return record, self._body(record, pieces(payload, names))
        except BadCoding:
            record, payload = begun(self._archive.chunks(place))
            return record, self._body(record, payload)

    def _body(self, record: StoredRecord, found: Iterable[bytes]) -> Body:
        writer, about = BodyWriter(self._spool), record.headers
        content_type = _last(record, "content-type") if record.http_head else about.get("Content-Type")
        nosniff = (_last(record, "x-content-type-options") or "").split(",")[0].strip().lower() == "nosniff"
        url = about.get("WARC-Target-URI", "")
        self._sizes.fill(writer, found, content_type, url, nosniff=nosniff, most=self._most)
        return writer.finish()


def _last(record: StoredRecord, name: str) -> str | None:
    """The header line that counts for a fetch when there are several."""
    return ([None, *http_fields(record.http_head, name)])[-1]
