"""Counts pages, bytes and unreadable documents by MIME type, and what pages forbid, for the summary."""

from __future__ import annotations

from typing import Any

from webcrawl.crawler.access import tasks_of
from webcrawl.crawler.session import SessionComponent
from webcrawl.documents.mime.sniff import known_types
from webcrawl.documents.page import AI_OPT_OUT, Page
from webcrawl.frontier.figures import REMARK, UNREAD

_MOST_BYTES = 1 << 50
"""No page is longer; sums of the lengths of pages stay within 64 bits."""


class CountsPipeline(SessionComponent):
    """Runs after all pipelines that read documents; counts unknown types as "other"."""

    _known: frozenset[str] = frozenset()

    def open_spider(self) -> None:
        self._known = known_types()  # all pipelines have added their types by now

    def process_item(self, item: Any) -> Any:
        if isinstance(item, Page) and item.mime_type:
            mime_type = item.mime_type if item.mime_type in self._known else "other"
            count = tasks_of(self._crawler).count
            count(f"type_pages.{mime_type}")
            count(f"type_bytes.{mime_type}", _size(item))
            if item.processing_error:
                count(f"type_errors.{mime_type}")
            elif item.details and item.details.get("broken"):
                count("repaired")
            if item.reading.missing_extra:
                count(f"{UNREAD}{item.reading.missing_extra}")
            for remark in item.archived.remarks:
                count(f"{REMARK}{remark}")
            if item.reading.noindex and AI_OPT_OUT not in item.archived.remarks:
                count("noindex")
            if item.archived.noarchive:
                count("noarchive")
            if item.links.nofollow:
                count("nofollow")
        return item


def _size(page: Page) -> int:
    """Returns the length of a page's body. The engine adds only such integers; a spider may have set another value."""
    length = page.length
    return length if type(length) is int and 0 <= length < _MOST_BYTES else 0
