"""Reads office documents: metadata, text and links."""

from __future__ import annotations

from webcrawl.crawler.pages.mime_pipeline import MimePipeline

_OOXML = "application/vnd.openxmlformats-officedocument"
_ODF = "application/vnd.oasis.opendocument"


class OfficePipeline(MimePipeline):
    """Reads OOXML, OpenDocument, and the metadata of the older binary formats."""

    _ole = (
        "application/msword",
        "application/vnd.ms-excel",
        "application/vnd.ms-powerpoint",
        "application/x-ole-storage",
    )
    types = frozenset(
        {
            f"{_OOXML}.wordprocessingml.document",
            f"{_OOXML}.spreadsheetml.sheet",
            f"{_OOXML}.presentationml.presentation",
            f"{_OOXML}.presentationml.slideshow",
            f"{_ODF}.text",
            f"{_ODF}.spreadsheet",
            f"{_ODF}.presentation",
            *_ole,
        }
    )
    extras = dict.fromkeys(_ole, "documents")
    reader = "webcrawl.documents.mime.office:read"
