"""Marks near-duplicates by SimHash: pages with nearly the same text as an earlier page."""

from __future__ import annotations

from typing import Any

from scrapy.crawler import Crawler

from webcrawl.config import DuplicatesConfig
from webcrawl.crawler.access import tasks_of
from webcrawl.crawler.components import Reads
from webcrawl.crawler.session import Session, SessionComponent
from webcrawl.documents.exchange import digest_bytes
from webcrawl.documents.page import Page
from webcrawl.documents.simhash_blocks import has_simhash


class NearDuplicatesPipeline(SessionComponent):
    """Marks a page whose SimHash differs in at most SIMHASH_DISTANCE bits from the SimHash of an earlier page.

    The SimHash is that of the main part of the text, or of the whole text if there is no main part. With
    NEAR_DUPLICATES "drop", marked pages and their copies get a row but are not archived.
    """

    reads = Reads.SIMHASH

    def __init__(self, crawler: Crawler, session: Session) -> None:
        super().__init__(crawler, session)
        self._config = DuplicatesConfig.from_settings(crawler.settings)

    async def process_item(self, item: Any) -> Any:
        if not isinstance(item, Page) or item.status != 200 or self._is_settled(item):
            return item
        if item.truncated not in (None, "length"):  # incomplete: another fetch may get more
            return item
        item.simhash = simhash = (
            item.reading.text_hash if item.reading.text_hash is not None else simhash_of(item)
        )
        if simhash is None or item.soft_404:  # an error page cannot be an original
            return item
        if first := await self._first(item, simhash):
            counted = tasks_of(self._crawler).count
            if item.duplicate_kind == "exact":
                counted("exact_duplicates", -1)
            counted("near_duplicates")
            item.duplicate_of, item.duplicate_kind = first, "near"
            if self._config.drop:
                await self._drop(item)
        return item

    def _is_settled(self, page: Page) -> bool:
        """Returns whether a copy needs no lookup: its first page is stored, or near-duplicates are not dropped."""
        return page.duplicate_kind == "exact" and (
            not self._config.drop or page.archived.duplicate_fetched_at is not None
        )

    async def _first(self, page: Page, simhash: int) -> str | None:
        """Returns the earlier page with nearly this text; for a copy, the earlier page of its original."""
        index, distance = self._session.duplicates, self._config.distance
        copied = page.duplicate_of
        if copied is not None:
            return await self._session.connection.retry_until_available(
                lambda: index.near_copy(simhash, copied, distance)
            )
        return await self._session.connection.retry_until_available(
            lambda: index.near_text(simhash, page.url, distance)
        )

    async def _drop(self, page: Page) -> None:
        """Keeps a page out of the archive, so that it cannot represent its exact copies."""
        page.archived.noarchive = True
        if page.archived.is_first and page.digest:
            page.archived.is_first = False
            digest, index = digest_bytes(page.digest), self._session.duplicates
            await self._session.connection.retry_until_available(
                lambda: index.forget_payload(digest, page.url)
            )


def simhash_of(page: Page) -> int | None:
    """Returns the SimHash of the main part of a page's text, or of the whole text; None without a text."""
    text = page.main_text or page.text
    if not text or not has_simhash(text):
        return None
    # imported late, because the process for HTML has made it for most pages: NumPy takes 0.1 s and 10 MB
    from webcrawl.documents.simhash import simhash64

    return simhash64(text)
