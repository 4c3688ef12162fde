"""Reads JSON: keys, JSON-LD and JSON feeds."""

from __future__ import annotations

from webcrawl.crawler.pages.mime_pipeline import MimePipeline


class JsonDataPipeline(MimePipeline):
    """Reads JSON; documents of at most `inline_bytes` are read in the worker."""

    types = frozenset({"application/json", "application/ld+json", "application/feed+json", "text/json"})
    reader = "webcrawl.documents.mime.json_data:read"
    inline_bytes = 65_536
