"""Near-duplicates: pages whose text is nearly that of an earlier one, by SimHash."""

from __future__ import annotations

from typing import Any, Self

from scrapy.crawler import Crawler

from webcrawl.config import DuplicatesConfig
from webcrawl.crawler.access import tasks_of
from webcrawl.crawler.components import Reads
from webcrawl.crawler.session import Session
from webcrawl.documents.exchange import digest_bytes
from webcrawl.documents.simhash import simhash64
from webcrawl.page import Page


class NearDuplicatesPipeline:
    """Marks a page whose SimHash differs in at most SIMHASH_DISTANCE bits from that of an earlier one.

    The SimHash is that of the main part of the text, where the page has one. With NEAR_DUPLICATES "drop" a page so
    marked keeps its row and is not archived, nor is a copy of it.
    """

    reads = Reads.SIMHASH

    def __init__(self, crawler: Crawler, session: Session, config: DuplicatesConfig) -> None:
        self._crawler = crawler
        self._session = session
        self._config = config

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler, Session.of(crawler), DuplicatesConfig.from_settings(crawler.settings))

    async def process_item(self, item: Any) -> Any:
        if not isinstance(item, Page) or item.status != 200 or self._is_settled(item):
            return item
        if item.truncated not in (None, "length"):  # a part of a page, that another time may be longer
            return item
        item.simhash = simhash = item.text_hash if item.text_hash is not None else _simhash(item)
        if simhash is not None and (first := await self._first(item, simhash)):
            counted = tasks_of(self._crawler).count
            if item.duplicate_kind == "exact":
                counted("exact_duplicates", -1)
            counted("near_duplicates")
            item.duplicate_of, item.duplicate_kind = first, "near"
            if self._config.drop:
                await self._drop(item)
        return item

    def _is_settled(self, page: Page) -> bool:
        """Whether it is known what becomes of a page: of a copy, once the first is stored, or when none is dropped."""
        return page.duplicate_kind == "exact" and (
            not self._config.drop or page.duplicate_fetched_at is not None
        )

    async def _first(self, page: Page, simhash: int) -> str | None:
        """The earlier page with nearly this text; of a copy, that of which the page with its bytes is one."""
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
        """Leave it out of the archive, where it cannot stand for its exact copies then."""
        page.noarchive = True
        if page.is_first and page.digest:
            page.is_first = False
            digest, index = digest_bytes(page.digest), self._session.duplicates
            await self._session.connection.retry_until_available(
                lambda: index.forget_payload(digest, page.url)
            )


def _simhash(page: Page) -> int | None:
    text = page.main_text or page.text
    return simhash64(text) if text else None
