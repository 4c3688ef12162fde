"""Finds the archived files that pages load: images, style sheets, fonts and frames."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from webcrawl.documents.document import Document
from webcrawl.results.replay import ArchivedFile
from webcrawl.stores.archive import archive_to_read
from webcrawl.stores.bodies import Bodies
from webcrawl.stores.locations import Row, location_of_body
from webcrawl.urls.canonical import as_requested

if TYPE_CHECKING:
    from webcrawl.opened import OpenedCrawl
    from webcrawl.stores.metadata import Metadata

_MOST_HOPS = 10


class ArchivedFiles:
    """The files of an archive with a status of 2xx, by the URLs in pages."""

    def __init__(self, opened: OpenedCrawl, metadata: Metadata) -> None:
        self._canonical = opened.canonicalizer.canonical
        self._metadata = metadata
        self._bodies = Bodies(archive_to_read(opened.stores), opened.fetch)

    def find(self, url: str) -> ArchivedFile | None:
        """Returns the last stored response to a URL, or to the URL to which it redirects; None if there is none."""
        for _ in range(_MOST_HOPS):
            row = self._row(url)
            if row is None or row["status"] is None:
                return None
            if row["status"] // 100 == 3 and row["final_url"] not in (None, row["url"], url):
                url = row["final_url"]
                continue
            if row["status"] // 100 != 2:
                return None
            return ArchivedFile(row["mime_type"] or "", row["length"], partial(self._read, row))
        return None

    def _row(self, url: str) -> Row | None:
        forms = list(dict.fromkeys((url, as_requested(url), self._canonical(url))))
        rows = self._metadata.get_many(forms)
        return next((rows[form] for form in forms if form in rows), None)

    def _read(self, row: Row) -> Document | None:
        """Returns the body; None if it is not in the archive. Raises StoreError for a damaged record."""
        location = location_of_body(row, self._metadata, self._bodies)
        if location is None:
            return None
        _, body = self._bodies.read(location)
        return Document(body, row["mime_type"] or "", row["charset"], row["url"])
