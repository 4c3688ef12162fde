"""Reads RSS, Atom and RDF feeds: metadata, entries and links."""

from __future__ import annotations

from webcrawl.crawler.pages.mime_pipeline import MimePipeline


class FeedPipeline(MimePipeline):
    """Reads feeds."""

    types = frozenset({"application/rss+xml", "application/atom+xml", "application/rdf+xml"})
    reader = "webcrawl.documents.mime.feed:read"
    link_element = "feed"
