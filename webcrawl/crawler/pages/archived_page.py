"""A stored page: its row, its archived headers, body and text, and the archived files that it loads."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from webcrawl.crawler.pages.stored_texts import StoredTexts, Text
from webcrawl.documents.document import Document
from webcrawl.errors import StoreError, UnreadableDocument
from webcrawl.results.replay import ArchivedFile
from webcrawl.stores.archive import archive_to_read
from webcrawl.stores.bodies import Bodies
from webcrawl.stores.locations import Row, location_of, location_of_body, location_with_body, own_location
from webcrawl.stores.warc.files import WarcLocation
from webcrawl.urls.canonical import as_requested

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from webcrawl.opened import OpenedCrawl
    from webcrawl.stores.metadata import Metadata

_MOST_HOPS = 10


class ArchivedBody(NamedTuple):
    """A decoded body in chunks. A fetch keeps at most `most` bytes; infinity for a body without content coding."""

    chunks: Iterator[bytes]
    most: float


class ArchivedPage:
    """A page of the archive. Methods raise StoreError if a part is missing or damaged, and may take long."""

    def __init__(self, opened: OpenedCrawl, metadata: Metadata, row: Row) -> None:
        self.row = row
        self._opened = opened
        self._metadata = metadata
        self._bodies = Bodies(archive_to_read(opened.stores), opened.fetch)

    def http_head(self) -> list[str]:
        """Returns the lines of the archived HTTP response head, the status line first."""
        record = self._bodies.head(self._archived(own_location(self.row)))
        return record.http_head.decode("latin-1").strip().split("\r\n")

    def body(self) -> ArchivedBody:
        """Returns the body; for a duplicate, the body of the first page."""
        _, chunks, most = self._bodies.chunks(self._location())
        return ArchivedBody(chunks, most)

    def source(self) -> str:
        """Returns the body as text, decoded by its charset; for a duplicate, the body of the first page.

        It has no more bytes than a fetch keeps of its type.
        """
        _, body = self._bodies.read(self._location())
        return Document(body, self.row["mime_type"] or "", self.row["charset"], self.row["url"]).text

    async def text(self, settings: BaseSettings, *, markdown: bool = False) -> Text:
        """Returns the text of the page, and with `markdown` also the Markdown of HTML."""
        texts = StoredTexts(self._opened, settings, self._metadata)
        document = await asyncio.to_thread(texts.document, self.row)
        if document is None:
            raise StoreError(f"the body of {self.row['url']} is not in the archive")
        try:
            text = await texts.text(document, ("text", "markdown") if markdown else ("text",))
        except UnreadableDocument as error:
            raise StoreError(f"{self.row['url']} {error}") from error
        if not (text.text or text.markdown):
            raise StoreError(f"{self.row['url']} ({document.mime_type}) has no text")
        return text

    def _location(self) -> WarcLocation:
        own = self._archived(location_of(self.row, self._metadata.get))
        location = location_with_body(own, self._bodies.head, self._metadata.history)
        if location is None:
            raise StoreError(
                f"the body of {self.row['url']} is not in the archive: the page is a duplicate of "
                f"{self.row['duplicate_of']}"
            )
        return location

    def _archived(self, location: WarcLocation | None) -> WarcLocation:
        if location is None:
            raise StoreError(f"{self.row['url']} is not in the archive")
        return location


class ArchivedFiles:
    """The files with a status of 2xx by the URLs in pages: images, style sheets, fonts and frames."""

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
