"""The text of pages as WARC records of type conversion, in files of their own."""

from __future__ import annotations

from webcrawl.documents.language_codes import iso_639_3
from webcrawl.page import Page
from webcrawl.stores.warc.files import WarcPlace
from webcrawl.stores.warc.writer import WarcWriter

TEXT, MARKDOWN = "text/plain", "text/markdown"
"""The types of the records; both are UTF-8."""


def append_texts(writer: WarcWriter, page: Page) -> WarcPlace:
    """Appends the text of an archived page, and its Markdown if it has it."""
    assert page.exchange is not None and page.record_id is not None
    texts = {TEXT: page.readable_text, MARKDOWN: page.markdown}
    encoded = {kind: text.encode("utf-8", "replace") for kind, text in texts.items() if text}
    return writer.write_conversions(page.exchange, page.record_id, encoded, iso_639_3(page.language))
