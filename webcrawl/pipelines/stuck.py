"""Records pages that cannot be processed."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import DropItem
from scrapy.http import Response
from twisted.python.failure import Failure

from webcrawl.crawler.errors import SchemaRefused
from webcrawl.crawler.fetch import fetch_of
from webcrawl.crawler.pages.from_response import page_of, page_url, queued_at
from webcrawl.crawler.session import Session, SessionComponent
from webcrawl.documents.page import Page
from webcrawl.errors import StoreUnavailable, brief
from webcrawl.stores.group_commit import Batches

if TYPE_CHECKING:
    from webcrawl.alarms.stuck import Kind, StuckPage, StuckPages

logger = logging.getLogger(__name__)


class StuckPipeline(SessionComponent):
    """Stores a row for each page with an item that its schema refuses, without a field that EXTRACT expects, or with a
    document that no reader can read.

    The row is stored before the page is acknowledged. While the database is unavailable, pages wait here. For a page
    without errors, the pipeline reads two attributes.
    """

    def __init__(self, crawler: Crawler, session: Session) -> None:
        super().__init__(crawler, session)
        crawler.signals.connect(self.item_dropped, signals.item_dropped)

    def process_item(self, item: Any) -> Any:
        if isinstance(item, Page):
            if item.processing_error:
                return self._add_page(item, "DOCUMENT", item.processing_error)
            if item.extraction_problem:
                return self._add_page(item, "SCHEMA", item.extraction_problem)
        return item

    async def item_dropped(self, exception: BaseException, response: Response | None) -> None:
        if not isinstance(exception, SchemaRefused) or response is None:
            return
        if not fetch_of(response).is_page:
            # the spider did not yield the page: archive it nevertheless
            await self._archive(page_of(response), response)
        queued = queued_at(response.request)
        await self._add(page_url(response), "SCHEMA", str(exception), queued)

    async def _archive(self, page: Page, response: Response) -> None:
        """Sends a page through the pipelines without Scrapy's signal `item_scraped`, which would add it to feeds."""
        pipelines: Any = self._crawler.engine.scraper.itemproc
        try:
            await pipelines.process_item_async(page)
        except DropItem:
            pass
        except Exception:
            logger.exception("%s has an item that was refused, and could not be archived", page.url)
            # the URL is retried
            await self._crawler.signals.send_catch_log_async(
                signals.item_error,
                item=page,
                response=response,
                spider=self._crawler.spider,
                failure=Failure(),  # type: ignore[no-untyped-call]
            )

    async def close_spider(self) -> None:
        if "_batches" in self.__dict__:
            await self._batches.close(self._pages.close)

    async def _add_page(self, page: Page, kind: Kind, reason: str) -> Page:
        await self._add(page.url, kind, reason, page.queued_at)
        return page

    async def _add(self, url: str, kind: Kind, reason: str, queued: datetime | None) -> None:
        # imported with the first stuck page: SQLAlchemy takes 12 MB, and most crawls have none or no database
        from webcrawl.alarms.stuck import StuckPage

        now, crawl = datetime.now(UTC), self._session.connection.keys.crawl
        page = StuckPage(crawl, url, kind, brief(reason), now, now, queued_at=queued)
        try:
            await self._session.backpressure.retry_until_available(
                lambda: self._batches.put(page), self._session.turns.ending
            )
        except StoreUnavailable as error:
            logger.error("%s is stuck (%s), and its row was not stored: %s", url, page.reason, error)

    @cached_property
    def _pages(self) -> StuckPages:
        from webcrawl.alarms.stuck import StuckPages

        return StuckPages(self._session.stores.metadata)

    @cached_property
    def _batches(self) -> Batches[StuckPage, None]:
        return Batches(self._write)

    def _write(self, pages: list[StuckPage]) -> list[None | Exception]:
        for page, error in self._pages.add_accepted(pages):
            # the row of the page is stored, so the page must not fail
            logger.error("%s is stuck (%s), and its row was not stored: %s", page.url, page.reason, error)
        return [None] * len(pages)
