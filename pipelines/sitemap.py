"""Sitemaps: XML, gzip of it, or lines; where they lead and what changed there lately."""

from __future__ import annotations

import re

from webcrawl.page import Page
from webcrawl.reading import MimePipeline

_XML = frozenset({"application/xml", "text/xml"})
_GZIP = frozenset({"application/gzip", "application/x-gzip"})
_PACKED = re.compile(r"\.xml\.gz$|sitemap[^/]*\.gz$", re.IGNORECASE)
_LINES = re.compile(r"sitemap[^/]*\.txt$", re.IGNORECASE)


class SitemapPipeline(MimePipeline):
    """Reads all plain XML, of which only sitemaps have facts, and by their names packed ones and lists of lines."""

    types = _XML | _GZIP | {"text/plain"}
    reader = "webcrawl.mime.sitemap:read"

    def takes(self, page: Page) -> bool:
        if page.mime_type not in self.types:
            return False
        path = page.final_url.partition("?")[0]
        named = _PACKED if page.mime_type in _GZIP else _LINES
        return page.mime_type in _XML or named.search(path) is not None
