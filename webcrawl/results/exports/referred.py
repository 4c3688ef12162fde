"""Finds the payloads to which the revisit records of a crawl refer, and which other crawls have archived."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from webcrawl.errors import StoreError, StoreUnavailable
from webcrawl.stores.archive import Records
from webcrawl.stores.bodies import Bodies
from webcrawl.stores.group_commit import batched
from webcrawl.stores.locations import Row, location_of, location_with_body
from webcrawl.stores.metadata import Metadata
from webcrawl.stores.warc.files import WarcLocation
from webcrawl.stores.warc.wacz import Capture, ReferredRecord

_AT_ONCE = 500


class ReferredRecords:
    """The records of the archive that have the payloads of revisits, by the rows of a metadata database.

    A call yields the records that are not in the files named `packed`, each once. A payload that is not archived any
    more is left out.
    """

    def __init__(self, archive: Records, bodies: Bodies, metadata: Metadata) -> None:
        self._archive = archive
        self._bodies = bodies
        self._metadata = metadata

    def __call__(self, revisits: Iterable[Capture], packed: frozenset[str]) -> Iterator[ReferredRecord]:
        seen: set[WarcLocation] = set()
        for captures in batched(revisits, _AT_ONCE):
            for capture, location in zip(captures, self._locations(captures), strict=True):
                if location is None or location.file in packed or location in seen:
                    continue
                seen.add(location)
                try:
                    record = self._bodies.head(location)
                except StoreUnavailable:
                    raise
                except StoreError:
                    continue
                yield ReferredRecord(record, self._archive.chunks(location), capture.status)

    def _locations(self, captures: Sequence[Capture]) -> Iterator[WarcLocation | None]:
        rows = self._metadata.payload_rows(list({capture.url for capture in captures}))
        copied = {row["duplicate_of"] for row in rows.values() if row["duplicate_kind"] == "exact"}
        firsts = rows | self._metadata.payload_rows([url for url in copied if url not in {None, *rows}])
        for capture in captures:
            yield self._location(capture, rows.get(capture.url), firsts)

    def _location(self, capture: Capture, row: Row | None, firsts: Mapping[str, Row]) -> WarcLocation | None:
        location = (
            location_of(row, firsts.get) if row and row["digest"] == capture.digest else capture.location
        )
        try:
            return location and location_with_body(location, self._bodies.head, self._metadata.history)
        except StoreUnavailable:
            raise
        except StoreError:
            return None
