"""Reads plain text, and the URLs in it."""

from __future__ import annotations

from typing import Self

from scrapy.crawler import Crawler

from webcrawl.config import read
from webcrawl.crawler.pages.mime_pipeline import MimePipeline


class TextPipeline(MimePipeline):
    """Reads plain text, in the worker up to `inline_bytes`. With TEXT_LINKS, the URLs in a text are links."""

    types = frozenset({"text/plain", "text/markdown", "text/x-markdown", "text/csv", "text/x-rst"})
    reader = "webcrawl.documents.mime.text:read"
    inline_bytes = 65_536

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        pipeline = super().from_crawler(crawler)
        if read(crawler.settings, "TEXT_LINKS"):
            pipeline.reader = "webcrawl.documents.mime.text:read_with_links"
        return pipeline
