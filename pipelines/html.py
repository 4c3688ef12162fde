"""HTML: what a page says of itself, and its text."""

from __future__ import annotations

from typing import Any, Self

from scrapy.crawler import Crawler

from webcrawl.mime.html import describe, is_html
from webcrawl.mime.readable import visible_text
from webcrawl.page import Page
from webcrawl.session import Session


class HtmlPipeline:
    """Reads HTML pages that no copy was read of; of a page that says noindex nothing is kept but that it exists."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        Session.of(crawler).trees_are_wanted = True
        return cls()

    def process_item(self, item: Any) -> Any:
        if not isinstance(item, Page) or item.document is None or item.was_read:
            return item
        if is_html(item.mime_type) and item.document.refused is not None:
            item.processing_error = f"{item.mime_type} {item.document.refused}"
        elif is_html(item.mime_type) and not item.noindex:
            facts = describe(item.document)
            item.title = facts.title
            item.description = facts.description
            item.language = facts.language
            item.canonical_url = facts.canonical_url
            item.author = facts.author
            item.published_at = facts.published_at
            item.image_url = facts.image_url
            item.details = facts.details or None
            item.main_text = facts.main_text
            item.text = lambda: facts.text
            if item.frames or item.is_frame:
                _stitch(item)
        return item


def _stitch(page: Page) -> None:
    """The text of frames is that of the page that they are in, and none of their own."""
    texts = [document_text for frame in page.frames if (document_text := visible_text(frame.html))]
    page.main_text = None
    page.text = None if page.is_frame else " ".join([page.text or "", *texts]).strip()
