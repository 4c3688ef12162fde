"""Near-duplicates: pages whose text is nearly that of an earlier one, by SimHash."""

from __future__ import annotations

from typing import Any, Self

from scrapy.crawler import Crawler

from webcrawl.access import frontier_scheduler
from webcrawl.config import whole
from webcrawl.duplicates import simhash64
from webcrawl.page import Page
from webcrawl.session import Session


class NearDuplicatesPipeline:
    """Marks a page whose SimHash differs in at most SIMHASH_DISTANCE bits from that of an earlier one."""

    def __init__(self, crawler: Crawler, session: Session, distance: int) -> None:
        self._crawler = crawler
        self._session = session
        self._distance = distance

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(
            crawler, Session.of(crawler), whole(crawler.settings, "SIMHASH_DISTANCE", least=0, most=15)
        )

    async def process_item(self, item: Any) -> Any:
        if not isinstance(item, Page) or not item.text or item.status != 200:
            return item
        item.simhash = simhash = simhash64(item.text)
        if simhash is not None:
            index = self._session.duplicates
            first = await self._session.patiently(lambda: index.near_text(simhash, item.url, self._distance))
            if first:
                item.duplicate_of, item.duplicate_kind = first, "near"
                frontier_scheduler(self._crawler).count("near_duplicates")
        return item
