"""Marks exact duplicates: pages with the same payload as an earlier page."""

from __future__ import annotations

from typing import Any

from webcrawl.crawler.access import tasks_of
from webcrawl.crawler.session import SessionComponent
from webcrawl.documents.exchange import digest_bytes
from webcrawl.documents.page import Page


class ChecksumPipeline(SessionComponent):
    """Marks a copy with the URL of the first page that had the same bytes.

    Later pipelines skip the copy (`was_read`), unless the first page was read as another type, its links were not
    followed, or the first page could not be read or is not stored yet.
    """

    @staticmethod
    def _is_comparable(page: Page) -> bool:
        """Returns whether a page may be a copy or have copies.

        False for pages without a body, statuses other than 200, truncated bodies, and pages that are not archived.
        """
        if not page.may_be_archived:
            return False
        # equal payloads are cut at the same byte during decoding
        exchange = page.archived.exchange
        cut = exchange.truncated if exchange and page.truncated == "length" else page.truncated
        return page.status == 200 and bool(page.length) and cut is None

    async def process_item(self, item: Any) -> Any:
        if isinstance(item, Page) and self._is_comparable(item) and item.digest:
            digest = digest_bytes(item.digest)
            index = self._session.duplicates
            first = await self._session.connection.retry_until_available(
                lambda: index.same_payload(digest, item.url, item.fetched_at, item.read_as)
            )
            item.archived.is_first = not first
            if first:
                item.duplicate_of, item.duplicate_kind = first.url, "exact"
                item.archived.duplicate_fetched_at = first.fetched_at
                is_stored = first.fetched_at is not None
                item.reading.was_read = is_stored and first.reading in (
                    item.read_as,
                    item.read_as.removeprefix("-"),
                )
                tasks_of(self._crawler).count("exact_duplicates")
        return item
