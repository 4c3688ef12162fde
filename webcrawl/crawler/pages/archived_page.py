"""A stored page: its row, and its archived headers, body and text."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from webcrawl.crawler.pages.stored_texts import StoredTexts, Text
from webcrawl.documents.document import Document
from webcrawl.errors import StoreError, UnreadableDocument
from webcrawl.stores.archive import archive_to_read
from webcrawl.stores.bodies import Bodies
from webcrawl.stores.locations import Row, location_of, location_with_body, own_location
from webcrawl.stores.warc.files import WarcLocation

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from webcrawl.opened import OpenedCrawl
    from webcrawl.stores.metadata import Metadata


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
        own = self._archived(location_of(self.row, self._metadata.get))
        location = location_with_body(own, self._bodies.head, self._metadata.history)
        if location is None:
            raise StoreError(
                f"the body of {self.row['url']} is not in the archive: the page is a duplicate of "
                f"{self.row['duplicate_of']}"
            )
        _, chunks, most = self._bodies.chunks(location)
        return ArchivedBody(chunks, most)

    def source(self) -> str:
        """Returns the body as text, decoded by its charset; for a duplicate, the body of the first page."""
        chunks, most = self.body()
        return Document(
            b"".join(chunks), self.row["mime_type"] or "", self.row["charset"], self.row["url"]
        ).text

    async def text(self, settings: BaseSettings, *, markdown: bool = False) -> Text:
        """Returns the text of the page, and with `markdown` also the Markdown of HTML."""
        texts = StoredTexts(self._opened, settings, self._metadata)
        document = await asyncio.to_thread(texts.document, self.row)
        if document is None:
            raise StoreError(f"the body of {self.row['url']} is not in the archive")
        try:
            text = await texts.text(document, markdown=markdown)
        except UnreadableDocument as error:
            raise StoreError(f"{self.row['url']} {error}") from error
        if not (text.text or text.markdown):
            raise StoreError(f"{self.row['url']} ({document.mime_type}) has no text")
        return text

    def _archived(self, location: WarcLocation | None) -> WarcLocation:
        if location is None:
            raise StoreError(f"{self.row['url']} is not in the archive")
        return location
