"""Reads the metadata and text of HTML pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from scrapy.crawler import Crawler

from webcrawl.crawler.components import Reads
from webcrawl.crawler.session import Session
from webcrawl.documents.document import Document
from webcrawl.documents.html.extraction import extracted
from webcrawl.documents.html.facts import describe, is_html
from webcrawl.documents.html.structured_data import StructuredData
from webcrawl.documents.html.text import visible_text
from webcrawl.documents.page import Page
from webcrawl.errors import UnreadableDocument

LEAST_BYTES = 4_096
"""Smaller pages that were not sent to the HTML process before are read in the worker."""


class HtmlPipeline:
    """Reads HTML pages, except pages with noindex and exact copies of pages that were read."""

    reads = Reads.FACTS

    def __init__(self, session: Session) -> None:
        self._session = session
        stores = session.stores
        self._wanted = {
            "with_markdown": stores.makes_markdown("main"),
            "with_page_markdown": stores.makes_markdown("page"),
            "with_shares": stores.has_signals,
        }

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(Session.of(crawler))

    def process_item(self, item: Any) -> Any:
        if not isinstance(item, Page) or item.document is None or item.reading.was_read:
            return item
        if is_html(item.mime_type) and item.document.refused is not None:
            item.processing_error = f"{item.mime_type} {item.document.refused}"
        elif is_html(item.mime_type) and not item.reading.noindex:
            extract = self._session.extract(item.status, item.document.url)
            if self._lacks(item, item.document, extract):
                return self._read_elsewhere(item, item.document, extract)
            self._read(item, extract)
        return item

    def _lacks(self, page: Page, document: Document, extract: str) -> bool:
        """Returns whether a page must be read in the HTML process.

        That is a page that was skipped as a likely copy, or one with an XPath or nested data that could take long.
        """
        if (outline := page.reading.outline) is not None:
            return outline.facts is None
        wants_more = bool(extract) or self._session.structured_data
        return wants_more and self._session.outlines is not None and len(document) >= LEAST_BYTES

    async def _read_elsewhere(self, page: Page, document: Document, extract: str) -> Page:
        """Reads a page in the HTML process, because it may crash the parser."""
        outlines = self._session.outlines
        assert outlines is not None
        simhash = self._session.components.read_simhash
        try:
            outline = await outlines.read(document, facts=True, simhash=simhash, extract=extract)
        except UnreadableDocument as error:
            page.processing_error = f"{page.mime_type} {error}"
        else:
            page.reading.outline = outline or page.reading.outline
            self._read(page, extract)
        return page

    def _read(self, page: Page, extract: str) -> None:
        _fill(page, self._wanted)
        _fill_data(page, extract, with_structured_data=self._session.structured_data)
        if page.reading.frames or page.reading.is_frame:
            _stitch(page)


def _fill(page: Page, wanted: Mapping[str, bool]) -> None:
    """`wanted`: the keyword arguments of `describe`."""
    assert page.document is not None
    outline, simhash = page.reading.outline, None
    facts = outline.facts if outline else None
    if outline is None or facts is None:
        facts = describe(page.document, **wanted)
        page.text = lambda: facts.text
    else:
        page.text = outline.text if outline.text is not None else lambda: facts.text
        simhash = outline.simhash
    page.title = facts.title
    page.description = facts.description
    page.language = facts.language
    page.canonical_url = facts.canonical_url
    page.author = facts.author
    page.published_at = facts.published_at
    page.image_url = facts.image_url
    page.details = {**facts.details, "text_length": len(facts.main_text or "")}
    page.main_text = facts.main_text
    page.reading.markdown, page.reading.page_markdown = facts.markdown, facts.page_markdown
    page.reading.shares = facts.shares
    page.reading.text_hash = simhash  # last, because setting the text resets it


def _fill_data(page: Page, extract: str, *, with_structured_data: bool) -> None:
    """Sets the fields of EXTRACT and the structured data, as far as they are wanted."""
    outline, document = page.reading.outline, page.document
    assert document is not None
    if extract:
        fields = outline.extracted if outline else None
        page.reading.extracted = fields = fields or extracted(document, extract)
        page.extracted = fields.values
    if with_structured_data:
        data = outline.structured if outline else None
        page.structured_data = (StructuredData(document).as_dict() if data is None else data) or None


def _stitch(page: Page) -> None:
    """Moves the text of frames to the page that contains them."""
    texts = [document_text for frame in page.reading.frames if (document_text := visible_text(frame.html))]
    page.main_text = page.reading.markdown = page.reading.page_markdown = None
    page.text = None if page.reading.is_frame else "\n".join([page.text or "", *texts]).strip()
