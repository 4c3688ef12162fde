"""Marks exact copies as the crawl marked them, because payloads do not change."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from scrapy.crawler import Crawler

from webcrawl.config import read
from webcrawl.crawler.pages.response_links import directives_of
from webcrawl.crawler.responses import content_type, received_headers, says_nosniff
from webcrawl.crawler.session import Session, SessionComponent
from webcrawl.documents.document import Document
from webcrawl.documents.mime.sniff import SNIFF_BYTES, mime_type_of
from webcrawl.documents.page import Page
from webcrawl.reparse.archived import First
from webcrawl.reparse.scheduler import scheduler_of


class CopiesPipeline(SessionComponent):
    """Replaces `ChecksumPipeline`: a page that was archived as a copy is read only if the crawl had to read it.

    It also sets the fields of the page that its row keeps from the fetch (location in the archive, importance, soft
    404), the ID of its record, and the time of the new reading.
    """

    def __init__(self, crawler: Crawler, session: Session) -> None:
        super().__init__(crawler, session)
        self._obeys = read(crawler.settings, "ROBOTS_META_OBEY")

    def process_item(self, item: Any) -> Any:
        if not isinstance(item, Page) or (archived := scheduler_of(self._crawler).page(item.url)) is None:
            return item
        row = archived.row
        item.warc_file, item.warc_offset, item.warc_length = (
            row[name] for name in ("warc_file", "warc_offset", "warc_length")
        )
        item.archived.record_id, item.archived.read_at = archived.record_id, datetime.now(UTC)
        item.importance, item.soft_404 = row["importance"], bool(row["soft_404"])
        remarks = (row["details"] or {}).get("remarks")
        kept = remarks if isinstance(remarks, list) else ()
        item.archived.remarks = tuple(dict.fromkeys([*kept, *item.archived.remarks]))
        if row["duplicate_kind"] == "exact":
            item.duplicate_of, item.duplicate_kind = row["duplicate_of"], "exact"
            if archived.first is not None and item.document is not None:
                first = self._reading(archived.first, item.document)
                item.reading.was_read = first in (item.read_as, item.read_as.removeprefix("-"))
        return item

    def _reading(self, first: First, document: Document) -> str:
        """Returns how the first page with the payload of a copy was read; see `Page.read_as`."""
        headers = received_headers(first.fields)
        start, nosniff = document.start(SNIFF_BYTES), says_nosniff(headers)
        mime_type = mime_type_of(content_type(headers), start, first.url, nosniff=nosniff)
        if mime_type == "text/html":
            return ""
        agent = self._session.robots_agents.of(first.url)
        nofollow = self._obeys and directives_of(headers, (), agent).nofollow
        return f"{'-' if nofollow else ''}{mime_type}"
