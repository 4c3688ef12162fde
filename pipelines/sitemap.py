"""Sitemaps: XML, gzip of it, or lines; where they lead and what changed there lately."""

from __future__ import annotations

import re
import zlib
from contextlib import suppress

from webcrawl.crawler.pages.mime_pipeline import MimePipeline
from webcrawl.documents.document import Document
from webcrawl.documents.mime.facts import Facts, SitemapLink
from webcrawl.documents.mime.sniff import SNIFF_BYTES, is_sitemap
from webcrawl.page import Page

_XML = frozenset({"application/xml", "text/xml"})
_GZIP = frozenset({"application/gzip", "application/x-gzip"})
_PACKED = re.compile(r"\.xml\.gz$|sitemap[^/]*\.gz$", re.IGNORECASE)
_LINES = re.compile(r"sitemap[^/]*\.txt$", re.IGNORECASE)


class SitemapPipeline(MimePipeline):
    """Reads all plain XML, of which only sitemaps have facts, packed ones, and lists of lines.

    What is no XML is a sitemap by its name or by who named it: robots.txt, an index or a seed.
    """

    types = _XML | _GZIP | {"text/plain"}
    reader = "webcrawl.documents.mime.sitemap:read"

    def takes(self, page: Page) -> bool:
        if page.mime_type not in self.types:
            return False
        if page.mime_type in _XML or page.is_sitemap:
            return True
        path = page.final_url.partition("?")[0]
        if page.mime_type in _GZIP:
            return _PACKED.search(path) is not None or _packs_a_sitemap(page.document)
        return _LINES.search(path) is not None

    def was_read(self, page: Page) -> bool:
        # whether lines are those of a sitemap is not in them, which a copy has none of
        return page.was_read and page.mime_type != "text/plain"

    async def _facts(self, document: Document) -> Facts:
        facts = await super()._facts(document)
        if facts.details.get("sitemap") == "sitemapindex":
            facts.links = [SitemapLink(*link) for link in facts.links]
        return facts


def _packs_a_sitemap(document: Document | None) -> bool:
    """Whether what gzip packed begins as a sitemap: their names are free, and an index may give any."""
    with suppress(zlib.error):
        packed = document.start(SNIFF_BYTES) if document is not None else b""
        return is_sitemap(zlib.decompressobj(wbits=31).decompress(packed, SNIFF_BYTES))
    return False
