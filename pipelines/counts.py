"""Counts by MIME type: pages, bytes and documents that could not be read, for the summary."""

from __future__ import annotations

from typing import Any, Self

from scrapy.crawler import Crawler

from webcrawl.crawler.access import tasks_of
from webcrawl.documents.mime.sniff import known_types
from webcrawl.page import Page


class CountsPipeline:
    """Counts after all that read documents; types that nobody has heard of are counted as "other"."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._known: frozenset[str] = frozenset()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def open_spider(self) -> None:
        self._known = known_types()  # now that all pipelines have added theirs

    def process_item(self, item: Any) -> Any:
        if isinstance(item, Page) and item.mime_type:
            mime_type = item.mime_type if item.mime_type in self._known else "other"
            count = tasks_of(self._crawler).count
            count(f"type_pages.{mime_type}")
            count(f"type_bytes.{mime_type}", item.length or 0)
            if item.processing_error:
                count(f"type_errors.{mime_type}")
        return item
