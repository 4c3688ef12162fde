"""Reads sitemaps as XML, gzipped XML, or lines: links and the times of their last changes."""

from __future__ import annotations

import re
import zlib
from contextlib import suppress

from webcrawl.crawler.pages.mime_pipeline import MimePipeline
from webcrawl.documents.document import Document
from webcrawl.documents.mime.facts import Facts, SitemapLink
from webcrawl.documents.mime.sniff import SNIFF_BYTES, is_sitemap
from webcrawl.documents.page import Page

_XML = frozenset({"application/xml", "text/xml"})
_GZIP = frozenset({"application/gzip", "application/x-gzip"})
_PACKED = re.compile(r"\.xml\.gz$|sitemap[^/]*\.gz$", re.IGNORECASE)
_LINES = re.compile(r"sitemap[^/]*\.txt$", re.IGNORECASE)


class SitemapPipeline(MimePipeline):
    """Reads XML (only sitemaps yield facts), gzipped sitemaps, and sitemaps that are lists of lines.

    Gzip is read if its URL or contents look like a sitemap, and text if its URL does. Named sitemaps are always read.
    """

    types = _XML | _GZIP | {"text/plain"}
    reader = "webcrawl.documents.mime.sitemap:read"
    link_element = "sitemap"

    def takes(self, page: Page) -> bool:
        if page.mime_type not in self.types:
            return False
        if page.mime_type in _XML or page.reading.is_sitemap:
            return True
        path = page.final_url.partition("?")[0]
        if page.mime_type in _GZIP:
            return _PACKED.search(path) is not None or _packs_a_sitemap(page.document)
        return _LINES.search(path) is not None

    def was_read(self, page: Page) -> bool:
        # whether lines are a sitemap depends on the URL, so a copy may differ
        return page.reading.was_read and page.mime_type != "text/plain"

    async def _facts(self, document: Document) -> Facts:
        facts = await super()._facts(document)
        if facts.details.get("sitemap") == "sitemapindex":
            facts.links = [SitemapLink(*link) for link in facts.links]
        return facts


def _packs_a_sitemap(document: Document | None) -> bool:
    """Returns whether gzipped data begins like a sitemap: a sitemap may have any URL."""
    with suppress(zlib.error):
        packed = document.start(SNIFF_BYTES) if document is not None else b""
        return is_sitemap(zlib.decompressobj(wbits=31).decompress(packed, SNIFF_BYTES))
    return False
