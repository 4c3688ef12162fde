"""The archive: every exchange as WARC/1.1 records."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Self

from scrapy.crawler import Crawler

import webcrawl
from webcrawl.config import read
from webcrawl.crawler.session import Session
from webcrawl.documents.disk import shortage
from webcrawl.errors import StoreError, StoreUnavailable
from webcrawl.page import Page
from webcrawl.stores.archive import open_archive
from webcrawl.stores.group_commit import Batches
from webcrawl.stores.warc import WarcPlace
from webcrawl.worker.backpressure import POLL_SECONDS

logger = logging.getLogger(__name__)


class WarcPipeline:
    """Writes response and request, a revisit record for a copy; a page that says noarchive is left out.

    An item leaves this pipeline when its records are written; while there is no room it waits, and the worker holds.
    """

    def __init__(self, session: Session, user_agent: str) -> None:
        # now, not when the spider opens: a place that cannot be used is named, and nothing happens
        self._archive = open_archive(
            session.stores,
            prefix=session.connection.keys.crawl,
            software=f"webcrawl/{webcrawl.__version__}",
            info={"http-header-user-agent": user_agent, "robots": "obey"},
        )
        self._batches = Batches(self._write)
        self._session = session
        self._tending: asyncio.Task[None] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(Session.of(crawler), read(crawler.settings, "USER_AGENT"))

    async def open_spider(self) -> None:
        self._tending = asyncio.create_task(self._tend())

    async def process_item(self, item: Any) -> Any:
        if not isinstance(item, Page):
            return item
        if item.document is not None:
            item.document.forget()  # from here on a page waits
        if item.exchange is not None and not (item.noarchive or item.noindex):
            place = await self._session.stored(lambda: self._batches.put(item))
            item.warc_file, item.warc_offset, item.warc_length = place
        return item

    async def close_spider(self) -> None:
        if self._tending is not None:
            self._tending.cancel()
            await asyncio.wait([self._tending])
        await self._batches.close(self._archive.close)

    async def _tend(self) -> None:
        """Files grow old and disks full also while nothing is written."""
        failure = ""
        while True:
            try:
                self._session.backpressure.shortage = await self._batches.run(self._look)
                failure = ""
            except StoreError as error:
                if str(error) != failure:
                    logger.error("%s", error)
                failure = str(error)
            await asyncio.sleep(POLL_SECONDS)

    def _look(self) -> str:
        stores = self._session.stores
        return self._archive.tend() or shortage(stores.data_dir, stores.min_free)

    def _write(self, pages: list[Page]) -> list[WarcPlace | Exception]:
        """One by one: what is written must not be written again because there was no room for the next."""
        places: list[WarcPlace | Exception] = []
        for page in pages:
            try:
                places.append(self._archive.write(page))
            except StoreUnavailable as error:
                # nor for those behind it
                return places + [error] * (len(pages) - len(places))
            except StoreError as error:
                places.append(error)
        return places
