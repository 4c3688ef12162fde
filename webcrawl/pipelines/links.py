"""Stores the links of every page, if LINKS is set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any

from scrapy.crawler import Crawler

from webcrawl.crawler.session import Session, SessionComponent
from webcrawl.documents.html.link_rows import document_rows, pack_rows
from webcrawl.documents.page import Page
from webcrawl.documents.payload import StoredRows
from webcrawl.links.entry import StoredLinks, microseconds
from webcrawl.stores.group_commit import PAUSE, Batches, write_apart


class LinksPipeline(SessionComponent):
    """Writes a row for each link that the spider has set on a page; off unless LINKS is set.

    The store has the links of unchanged contents once, and the row of the page names the fetch that stored them.

    A page leaves this pipeline when its rows are written. While there is no room, the page waits and the worker pauses.
    """

    needs = "LINKS"

    def __init__(self, crawler: Crawler, session: Session) -> None:
        super().__init__(crawler, session)
        # Scrapy also imports pipelines that are off, and NumPy takes 11 MB
        from webcrawl.links.store import open_link_store

        # now, not when the spider opens: an unusable folder or bucket stops the crawl before it starts
        self._store = open_link_store(session.stores, session.connection.keys.crawl)
        self._batches: Batches[Page, StoredRows] = Batches(
            partial(write_apart, write=self._write), pause=PAUSE
        )

    async def process_item(self, item: Any) -> Any:
        if isinstance(item, Page) and (item.links.rows or _has_document_links(item)):
            item.archived.stored_links = await self._session.stored(
                "links", item.url, lambda: self._batches.put(item)
            )
        return item

    async def close_spider(self) -> None:
        await self._batches.close(self._store.close)

    def _entry(self, page: Page) -> StoredLinks:
        return StoredLinks(
            url=page.url,
            crawl=self._session.connection.keys.crawl,
            depth=page.depth,
            time=microseconds(page.fetched_at),
            nofollow=page.links.nofollow,
            rows=(*page.links.rows, *_document_rows(page)),
            read_at=None if page.archived.read_at is None else microseconds(page.archived.read_at),
        )

    def _write(self, pages: Sequence[Page]) -> Sequence[StoredRows]:
        # in the thread of the store: a sitemap has up to 50,000 links
        entries = [self._entry(page) for page in pages]
        digests = [entry.digest for entry in entries]
        stored = [self._stored(page, digest) for page, digest in zip(pages, digests, strict=True)]
        new = [entry for entry, links in zip(entries, stored, strict=True) if links is None]
        file = self._store.write(new) if new else ""
        return [
            links or StoredRows(page.fetched_at, file, digest)
            for page, links, digest in zip(pages, stored, digests, strict=True)
        ]

    def _stored(self, page: Page, digest: str) -> StoredRows | None:
        """Returns the links of an earlier fetch with the contents of a page, if they are the same; None otherwise."""
        links, payload = page.archived.stored_links, page.archived.payload
        has_contents = payload is not None and payload.url == page.url
        if links is None or page.archived.read_at is not None:
            return None
        if not has_contents and page.status != HTTPStatus.NOT_MODIFIED:
            return None
        return links if links.digest == digest and self._store.has(links.file) else None


def _has_document_links(page: Page) -> bool:
    """Returns whether a page has links from a document that is not HTML; they count like links of HTML."""
    if page.links.in_document is None or page.reading.noindex:
        return False
    return page.status is not None and (200 <= page.status < 300 or page.status == HTTPStatus.NOT_MODIFIED)


def _document_rows(page: Page) -> Iterator[bytes]:
    if page.links.in_document is not None and _has_document_links(page):
        element, links = page.links.in_document
        if rows := document_rows((link.url for link in links), element):
            yield pack_rows(rows)
