"""Reads audio and video: duration, codecs and tags."""

from __future__ import annotations

from webcrawl.crawler.pages.mime_pipeline import MimePipeline
from webcrawl.documents.page import Page

# playlists
_LISTS = frozenset({"audio/x-mpegurl", "audio/mpegurl", "audio/x-scpls"})


class MediaPipeline(MimePipeline):
    """Reads the headers of all audio and video."""

    reader = "webcrawl.documents.mime.media:read"

    def extra(self, page: Page) -> str:
        return "media"

    def takes(self, page: Page) -> bool:
        mime_type = page.mime_type or ""
        return (
            mime_type.startswith(("audio/", "video/"))
            and mime_type not in _LISTS
            or mime_type == "application/ogg"
        )
