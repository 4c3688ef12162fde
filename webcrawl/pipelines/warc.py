"""Archives every exchange as WARC/1.1 records."""

from __future__ import annotations

import asyncio
from typing import Any

from scrapy.crawler import Crawler

from webcrawl.config import read
from webcrawl.config.version import VERSION
from webcrawl.crawler.access import tasks_of
from webcrawl.crawler.components import ResourceRules
from webcrawl.crawler.session import Session, SessionComponent
from webcrawl.documents.disk import shortage
from webcrawl.documents.page import Page
from webcrawl.stores.archive import open_archive
from webcrawl.stores.group_commit import PAUSE, Batches, write_alone
from webcrawl.stores.warc.files import WarcLocation


class WarcPipeline(SessionComponent):
    """Writes response and request records, or a revisit record for a copy; skips pages with noarchive or noindex.

    A page leaves this pipeline when its records are written. While the disk is full, pages wait and the worker pauses.
    """

    def __init__(self, crawler: Crawler, session: Session) -> None:
        super().__init__(crawler, session)
        # the actual behaviour instead of ROBOTSTXT_OBEY: middlewares are created before pipelines
        obeys = session.components.get(ResourceRules) is not None
        user_agent = read(crawler.settings, "USER_AGENT")
        # now, not when the spider opens: an unusable folder or bucket stops the crawl before it starts
        self._archive = open_archive(
            session.stores,
            prefix=session.connection.keys.crawl,
            software=f"webcrawl/{VERSION}",
            info={"http-header-user-agent": user_agent, "robots": "obey" if obeys else "ignore"},
        )
        self._batches = Batches(self._write, pause=PAUSE)
        self._tending: asyncio.Task[None] | None = None

    async def open_spider(self) -> None:
        self._tending = asyncio.create_task(self._tend())

    async def process_item(self, item: Any) -> Any:
        if not isinstance(item, Page):
            return item
        if item.document is not None:
            item.document.forget()  # frees memory, because the page waits for the writer from here on
        if item.archived.exchange is not None and not (item.archived.noarchive or item.reading.noindex):
            location = await self._session.stored("archive", item.url, lambda: self._batches.put(item))
            item.warc_file, item.warc_offset, item.warc_length = location
            tasks_of(self._crawler).count("archived")
        return item

    async def close_spider(self) -> None:
        if self._tending is not None:
            self._tending.cancel()
            await asyncio.wait([self._tending])
        await self._batches.close(self._archive.close)

    async def _tend(self) -> None:
        """Closes old files and checks the disk, also while no page is written."""
        await self._batches.tend(self._look, self._hold)

    def _look(self) -> str:
        stores = self._session.stores
        return self._archive.tend() or shortage(stores.data_dir, stores.min_free)

    def _hold(self, shortage: str) -> None:
        self._session.backpressure.shortage = shortage

    def _write(self, pages: list[Page]) -> list[WarcLocation | Exception]:
        return write_alone(pages, self._archive.write)
