"""Near-duplicates: pages whose text is nearly that of an earlier one, by SimHash."""

from __future__ import annotations

from typing import Any, Self

from scrapy.crawler import Crawler

from webcrawl.access import frontier_scheduler
from webcrawl.config import DuplicatesConfig
from webcrawl.duplicates import simhash64
from webcrawl.exchange import digest_bytes
from webcrawl.page import Page
from webcrawl.session import Session


class NearDuplicatesPipeline:
    """Marks a page whose SimHash differs in at most SIMHASH_DISTANCE bits from that of an earlier one.

    The SimHash is that of the main part of the text, where the page has one. With NEAR_DUPLICATES "drop" a page so
    marked keeps its row and is not archived.
    """

    def __init__(self, crawler: Crawler, session: Session, config: DuplicatesConfig) -> None:
        self._crawler = crawler
        self._session = session
        self._config = config

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler, Session.of(crawler), DuplicatesConfig.from_settings(crawler.settings))

    async def process_item(self, item: Any) -> Any:
        if not isinstance(item, Page) or item.status != 200 or item.duplicate_kind == "exact":
            return item
        if item.truncated not in (None, "length"):  # a part of a page, that another time may be longer
            return item
        text = item.main_text or item.text
        item.simhash = simhash = simhash64(text) if text else None
        if simhash is not None:
            index, distance = self._session.duplicates, self._config.distance
            first = await self._session.patiently(lambda: index.near_text(simhash, item.url, distance))
            if first:
                item.duplicate_of, item.duplicate_kind = first, "near"
                if self._config.drop:
                    await self._drop(item)
                frontier_scheduler(self._crawler).count("near_duplicates")
        return item

    async def _drop(self, page: Page) -> None:
        """Leave it out of the archive, where it cannot stand for its exact copies then."""
        page.noarchive, page.is_first = True, False
        if page.digest:
            digest, index = digest_bytes(page.digest), self._session.duplicates
            await self._session.patiently(lambda: index.forget_payload(digest, page.url))
