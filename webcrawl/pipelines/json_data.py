"""JSON: keys, JSON-LD, JSON feeds."""

from __future__ import annotations

from webcrawl.crawler.pages.mime_pipeline import MimePipeline


class JsonDataPipeline(MimePipeline):
    """Reads JSON, up to `inline_bytes` in the worker."""

    types = frozenset({"application/json", "application/ld+json", "application/feed+json", "text/json"})
    reader = "webcrawl.documents.mime.json_data:read"
    inline_bytes = 65_536
