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
        Session.of(crawler).facts_are_wanted = True
        return cls()

    def process_item(self, item: Any) -> Any:
        if not isinstance(item, Page) or item.document is None or item.was_read:
            return item
        if is_html(item.mime_type) and item.document.refused is not None:
            item.processing_error = f"{item.mime_type} {item.document.refused}"
        elif is_html(item.mime_type) and not item.noindex:
            _fill(item)
            if item.frames or item.is_frame:
                _stitch(item)
        return item


def _fill(page: Page) -> None:
    assert page.document is not None
    outline = page.outline
    facts = outline.facts if outline else None
    if outline is None or facts is None:
        facts = describe(page.document)
        page.text = lambda: facts.text
    else:
        page.text = outline.text or (lambda: facts.text)
        page.text_hash = outline.simhash
    page.title = facts.title
    page.description = facts.description
    page.language = facts.language
    page.canonical_url = facts.canonical_url
    page.author = facts.author
    page.published_at = facts.published_at
    page.image_url = facts.image_url
    page.details = facts.details or None
    page.main_text = facts.main_text


def _stitch(page: Page) -> None:
    """The text of frames is that of the page that they are in, and none of their own."""
    texts = [document_text for frame in page.frames if (document_text := visible_text(frame.html))]
    page.main_text = page.text_hash = None
    page.text = None if page.is_frame else " ".join([page.text or "", *texts]).strip()
