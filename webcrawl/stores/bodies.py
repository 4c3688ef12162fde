"""Reads bodies from the archive as a fetch returns them: decoded, truncated by type, and in a file if large."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

from webcrawl.config import FetchConfig
from webcrawl.documents.body import Body
from webcrawl.documents.body_writer import BodyWriter
from webcrawl.documents.content_coding import codings, pieces
from webcrawl.documents.mime.sizes import SizeLimits
from webcrawl.documents.mime.sniff import SNIFF_BYTES
from webcrawl.errors import BadCoding, StoreError, StoreUnavailable
from webcrawl.stores.archive import Records
from webcrawl.stores.warc.files import WarcLocation
from webcrawl.stores.warc.reading import StoredRecord, begun, http_fields


class Bodies:
    """The bodies in an archive, with the limits of a fetch: a coded payload may expand to any size."""

    def __init__(self, archive: Records, fetch: FetchConfig) -> None:
        self._archive = archive
        self._spool = fetch.spool
        self._sizes = SizeLimits(fetch.sizes)
        self._most = fetch.maxsize or math.inf

    def read(self, location: WarcLocation) -> tuple[StoredRecord, Body]:
        """Returns a record without its payload, and its body. A body that cannot be decoded stays encoded.

        May take long. Raises StoreError when the record is missing or damaged.
        """
        with _named(location):
            record, content, _ = self._begun(location)
            writer = BodyWriter(self._spool)
            self._sizes.fill(writer, content, **about(record), most=self._most)
            return record, writer.finish()

    def chunks(self, location: WarcLocation) -> tuple[StoredRecord, Iterator[bytes], float]:
        """Returns a record without its payload, its body in chunks, and the number of bytes that a fetch would keep.

        The number is infinity for a body without content coding, which was truncated before it was archived. Raises
        StoreError, also while the chunks are read.
        """
        with _named(location):
            record, content, is_coded = self._begun(location)
            start = b""
            while len(start) < SNIFF_BYTES and (piece := next(content, b"")):
                start += piece
        most = min(self._sizes.of_start(start=start, **about(record)), self._most) if is_coded else math.inf
        return record, _named_pieces(location, chain((start,), content)), most

    def head(self, location: WarcLocation) -> StoredRecord:
        """Returns a record without its payload, and does not read to the end of the payload; raises StoreError."""
        return self.chunks(location)[0]

    def _begun(self, location: WarcLocation) -> tuple[StoredRecord, Iterator[bytes], bool]:
        """Returns a record, its decoded body, and whether it had a content coding."""
        record, payload = begun(self._archive.chunks(location))
        names = codings(",".join(http_fields(record.http_head, "content-encoding")))
        try:
            content = pieces(payload, names)
            first = next(content, b"")
        except BadCoding:
            record, payload = begun(self._archive.chunks(location))
            return record, payload, False
        return record, chain((first,), content), bool(names)


@contextmanager
def _named(location: WarcLocation) -> Iterator[None]:
    """Adds the location to errors."""
    try:
        yield
    except StoreUnavailable:
        raise
    except StoreError as error:
        raise StoreError(f"{location.file} at byte {location.offset}: {error}") from error


def _named_pieces(location: WarcLocation, chunks: Iterable[bytes]) -> Iterator[bytes]:
    with _named(location):
        yield from chunks


def about(record: StoredRecord) -> dict[str, Any]:
    """Returns the arguments of `sniff` that a record determines."""
    fields = record.headers
    nosniff = (_last(record, "x-content-type-options") or "").split(",")[0].strip().lower() == "nosniff"
    return {
        "content_type": _last(record, "content-type") if record.http_head else fields.get("Content-Type"),
        "url": fields.get("WARC-Target-URI", ""),
        "nosniff": nosniff,
    }


def _last(record: StoredRecord, name: str) -> str | None:
    """Returns the last header line of a name, which a fetch uses."""
    return ([None, *http_fields(record.http_head, name)])[-1]
