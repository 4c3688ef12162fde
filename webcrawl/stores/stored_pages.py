"""Reads the stored pages of crawls: rows of the metadata database, and documents of the archive."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

from webcrawl.config import FetchConfig, StoreConfig
from webcrawl.documents.body import Body
from webcrawl.documents.document import Document
from webcrawl.documents.html.timed_parse import BlockingTimedParser
from webcrawl.stores.archive import open_archive
from webcrawl.stores.bodies import Bodies
from webcrawl.stores.columns import pages
from webcrawl.stores.locations import Row, location_of, location_with_body, own_location
from webcrawl.stores.metadata import Metadata
from webcrawl.stores.warc.files import WarcLocation
from webcrawl.stores.warc.reading import has_body, http_fields


class StoredPages:
    """The pages of a database and an archive. Methods raise StoreError, also for damaged records."""

    def __init__(self, config: StoreConfig, fetch: FetchConfig) -> None:
        self.metadata = Metadata(config.metadata, history=config.history)
        self._archive = open_archive(config)
        self._bodies = Bodies(self._archive, fetch)
        self._parser = BlockingTimedParser()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._archive.close()
        self.metadata.close()

    def rows(self, crawl: str | None = None) -> Iterator[dict[str, Any]]:
        """Yields all rows, or those that a crawl tried last, sorted by URL, so that the rows of a host are adjacent."""
        return self.metadata.scan(where=[] if crawl is None else [pages.c.crawl == crawl])

    def get(self, url: str) -> dict[str, Any] | None:
        return self.metadata.get(url)

    def body(self, row: Row) -> Body | None:
        """Returns the decoded body of a page; None when it is not in the archive."""
        location = location_of(row, self.metadata.get)
        return None if location is None else self.body_at(location)

    def body_at(self, location: WarcLocation) -> Body | None:
        """Returns the decoded body of a record, or of the record that a revisit refers to; None if there is no body."""
        record, body = self._bodies.read(location)
        if has_body(record):
            return body
        referred = location_with_body(location, self._bodies.head, self.metadata.history)
        return None if referred is None else self._bodies.read(referred)[1]

    def location(self, row: Row) -> str | None:
        """Returns the `Location` header of a page; None when it has none, or is not in the archive."""
        location = own_location(row)
        head = b"" if location is None else self._bodies.read(location)[0].http_head
        return next(http_fields(head, "location"), None)

    def document(self, row: Row) -> Document | None:
        """Returns the document of a page; None when it is not in the archive.

        The document is `refused` if parsing takes too long.
        """
        body = self.body(row)
        return None if body is None else self._read(body, row["mime_type"] or "", row["charset"], row["url"])

    def _read(self, body: Body, mime_type: str, charset: str | None, url: str) -> Document:
        document = Document(body, mime_type, charset, url)
        self._parser.parse(document)
        return document
