"""Reads PDF: text, metadata, and the links of annotations and outline."""

from __future__ import annotations

from webcrawl.crawler.pages.mime_pipeline import MimePipeline


class PdfPipeline(MimePipeline):
    """Reads PDF."""

    types = frozenset({"application/pdf", "application/x-pdf"})
    reader = "webcrawl.documents.mime.pdf:read"
