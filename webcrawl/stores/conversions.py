"""The files of texts: conversion records as in the WET files of Common Crawl, and the same with Markdown.

There is a record for each page that was fetched successfully. Markdown is in files of its own, because a reader of WET
files takes every conversion record for a document.
"""

from __future__ import annotations

from typing import NamedTuple

from webcrawl.config import StoreConfig
from webcrawl.documents.mime.language import iso_639_3
from webcrawl.documents.page import Page
from webcrawl.stores.warc.files import MARKDOWN, WET, WarcLocation
from webcrawl.stores.warc.writer import WarcWriter

TEXT_TYPE, MARKDOWN_TYPE = "text/plain", "text/markdown"
"""The types of the records, whose texts are in UTF-8."""


class Conversion(NamedTuple):
    """A series of files with one text of each page.

    uri        of the object store
    part       of the page: "main" or "page"
    mime_type  TEXT_TYPE or MARKDOWN_TYPE
    """

    uri: str
    part: str
    mime_type: str

    @property
    def suffix(self) -> str:
        """The suffix of the finished files."""
        return WET if self.mime_type == TEXT_TYPE else MARKDOWN

    def text(self, page: Page) -> str:
        """Returns the text of a page for these files; "" if they have none."""
        if not is_successful(page):
            return ""
        if self.mime_type == TEXT_TYPE:
            return page.reading.readable(self.part)
        return page.reading.markdown_of(self.part) or ""

    def append(self, writer: WarcWriter, page: Page) -> WarcLocation:
        """Appends the text of an archived page, which must have one."""
        assert page.archived.exchange is not None and page.archived.record_id is not None
        text = self.text(page).encode("utf-8", "replace")
        about = page.archived.exchange, page.archived.record_id, self.mime_type
        return writer.write_conversion(*about, text, iso_639_3(page.language))


def conversions(config: StoreConfig) -> list[Conversion]:
    """Returns the files that `TEXT = "wet"` writes with `TEXT_PART` and `TEXT_MARKDOWN`."""
    uris = (config.wet, config.markdown), (config.page_wet, config.page_markdown)
    types = (TEXT_TYPE, MARKDOWN_TYPE) if config.has_markdown else (TEXT_TYPE,)
    return [
        Conversion(uri, part, mime_type)
        for part, of_part in zip(config.text_parts, uris, strict=False)
        for uri, mime_type in zip(of_part, types, strict=False)
    ]


def is_successful(page: Page) -> bool:
    """Returns whether a page was fetched successfully: its status is 2xx, and it is no soft 404."""
    exchange = page.archived.exchange
    return exchange is not None and 200 <= exchange.status < 300 and not page.soft_404
