"""Reads neighbouring records of a WARC file in a single read."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from webcrawl.errors import StoreError, StoreUnavailable
from webcrawl.stores.archive import Records
from webcrawl.stores.warc.files import WarcLocation

MOST_BYTES = 4_194_304
"""The most bytes of a read. A larger record is read alone, in chunks."""
MOST_GAP = 65_536
"""The most unused bytes to read between two records. A request to S3 takes as long as reading a megabyte."""


class ReadAhead:
    """Returns expected records of the archive `records`, with a single read for many records.

    For one thread at a time. Methods raise StoreError.
    """

    def __init__(self, records: Records) -> None:
        self._records = records
        self._spans: list[WarcLocation] = []
        self._held: tuple[WarcLocation, bytes] | None = None

    def expect(self, locations: Iterable[WarcLocation]) -> None:
        """Names the records that will be read next, instead of the records named before."""
        self._spans = spans(locations)

    def chunks(self, location: WarcLocation) -> Iterator[bytes]:
        """Yields the gzip member of a record in chunks."""
        if (span := self._span_of(location)) is None:
            return self._records.chunks(location)
        if self._held is None or self._held[0] != span:
            self._held = None
            try:
                self._held = span, b"".join(self._records.chunks(span))
            except StoreUnavailable:
                raise
            except StoreError:
                return self._records.chunks(location)  # its error names this record
        start = location.offset - span.offset
        return iter((self._held[1][start : start + location.length],))

    def _span_of(self, location: WarcLocation) -> WarcLocation | None:
        before = bisect_right(self._spans, (location.file, location.offset, float("inf")))
        if not before:
            return None
        span = self._spans[before - 1]
        is_inside = (
            span.file == location.file and location.offset + location.length <= span.offset + span.length
        )
        return span if is_inside else None


def spans(locations: Iterable[WarcLocation]) -> list[WarcLocation]:
    """Returns sorted spans of files that join neighbouring locations, without large and without single locations."""
    joined: list[WarcLocation] = []
    counts: list[int] = []
    for location in sorted(set(locations)):
        if location.length > MOST_BYTES:
            continue
        last = joined[-1] if joined else None
        if last is not None and last.file == location.file:
            end = max(last.offset + last.length, location.offset + location.length)
            gap = location.offset - (last.offset + last.length)
            if gap <= MOST_GAP and end - last.offset <= MOST_BYTES:
                joined[-1] = last._replace(length=end - last.offset)
                counts[-1] += 1
                continue
        joined.append(location)
        counts.append(1)
    return [span for span, count in zip(joined, counts, strict=True) if count > 1]
