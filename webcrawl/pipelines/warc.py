"""Archives every exchange as WARC/1.1 records, also those of robots.txt."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy.crawler import Crawler

from webcrawl.config import read
from webcrawl.config.program import VERSION
from webcrawl.crawler.access import tasks_of
from webcrawl.crawler.components import ResourceRules, RobotsArchiver
from webcrawl.crawler.known import UNCHANGED
from webcrawl.crawler.session import Session, SessionComponent
from webcrawl.documents.disk import shortage
from webcrawl.documents.exchange import Exchange
from webcrawl.documents.page import Page
from webcrawl.errors import StoreError
from webcrawl.stores.archive import open_archive, open_robotstxt
from webcrawl.stores.group_commit import PAUSE, Batches, write_alone
from webcrawl.stores.warc.files import WarcLocation

if TYPE_CHECKING:
    from webcrawl.stores.earlier_payloads import Across, EarlierPayloads
    from webcrawl.stores.store_use import StoreUse

logger = logging.getLogger(__name__)


class _Write(NamedTuple):
    """A call that appends records to an archive, and the page whose records they are; None for robots.txt."""

    append: Callable[[], WarcLocation]
    page: Page | None = None


class WarcPipeline(SessionComponent, RobotsArchiver):
    """Writes response and request records, or a revisit record for a payload that is archived already.

    Skips pages with noarchive or noindex, and those of which DEPTH_OF_COPY wants the metadata only.

    A page leaves this pipeline when its records are written. While the disk is full, pages wait and the worker pauses.
    """

    def __init__(self, crawler: Crawler, session: Session) -> None:
        super().__init__(crawler, session)
        # the actual behaviour instead of ROBOTSTXT_OBEY: middlewares are created before pipelines
        obeys = session.components.get(ResourceRules) is not None
        user_agent = read(crawler.settings, "USER_AGENT")
        # now, not when the spider opens: an unusable folder or bucket stops the crawl before it starts
        about: Any = {
            "prefix": session.connection.keys.crawl,
            "software": f"webcrawl/{VERSION}",
            "info": {"http-header-user-agent": user_agent, "robots": "obey" if obeys else "ignore"},
        }
        self._archive = open_archive(session.stores, **about)
        keeps_robotstxt = obeys and session.stores.keeps_robotstxt
        self._robotstxt = open_robotstxt(session.stores, **about) if keeps_robotstxt else None
        self._across: Across = read(crawler.settings, "DEDUP_ACROSS")
        self._earlier: EarlierPayloads | None = None
        self._archives = [archive for archive in (self._archive, self._robotstxt) if archive is not None]
        self._batches: Batches[_Write, WarcLocation] = Batches(self._write, pause=PAUSE)
        self._store_use = session.store_use
        self._tending: list[asyncio.Task[None]] = []

    async def open_spider(self) -> None:
        self._tending = [asyncio.create_task(self._tend())]
        if self._store_use is not None:
            self._tending.append(asyncio.create_task(self._watch_quota(self._store_use)))

    async def process_item(self, item: Any) -> Any:
        if not isinstance(item, Page):
            return item
        if item.document is not None:
            item.document.forget()  # frees memory, because the page waits for the writer from here on
        if item.archived.exchange is not None and item.may_be_archived:
            write = _Write(partial(self._archive.write, item), item)
            item.warc_file, item.warc_offset, item.warc_length = await self._stored(item.url, write)
            tasks_of(self._crawler).count("archived")
        return item

    async def archive_robotstxt(self, exchange: Exchange, facts: Mapping[str, str]) -> None:
        if self._robotstxt is not None:
            await self._stored(exchange.url, _Write(partial(self._robotstxt.write_exchange, exchange, facts)))

    async def close_spider(self) -> None:
        for task in self._tending:
            task.cancel()
        if self._tending:
            await asyncio.wait(self._tending)
        await self._batches.close(self._close)

    async def _stored(self, url: str, write: _Write) -> WarcLocation:
        return await self._session.stored("archive", url, lambda: self._batches.put(write))

    async def _tend(self) -> None:
        """Closes old files and checks the disk, also while no page is written."""
        await self._batches.tend(self._look, self._hold)

    def _look(self) -> str:
        stores = self._session.stores
        # all are tended, also after the first shortage
        shortages = [archive.tend() for archive in self._archives]
        shortages.append(shortage(stores.data_dir, stores.min_free, stores.max_share))
        if self._store_use is not None:
            shortages.append(self._store_use.shortage)
        return next(filter(None, shortages), "")

    async def _watch_quota(self, use: StoreUse) -> None:
        """Lists the store from time to time, beside the writing thread."""
        while True:
            try:
                await asyncio.to_thread(use.look)
            except StoreError as error:
                logger.warning("Cannot tell how much of STORE_QUOTA_BYTES is used: %s", error)
            await asyncio.sleep(use.pause)

    def _hold(self, shortage: str) -> None:
        self._session.backpressure.shortage = shortage

    def _write(self, writes: list[_Write]) -> list[WarcLocation | Exception]:
        try:
            self._note_earlier(writes)
        except StoreError:
            raise
        except Exception:
            # a value that a spider has set does not fit: only its page fails
            return write_alone(writes, self._write_one)
        return write_alone(writes, lambda write: write.append())

    def _write_one(self, write: _Write) -> WarcLocation:
        self._note_earlier([write])
        return write.append()

    def _note_earlier(self, writes: list[_Write]) -> None:
        """Notes what is stored of pages whose contents are those of an earlier fetch."""
        pages = [write.page for write in writes if write.page is not None]
        if pages:
            earlier = self._earlier_payloads().find(pages)
            for page in pages:
                contents = earlier.get(page.url) or (None, None, None)
                page.archived.payload, page.archived.stored_text, links = contents
                # a 304 has no payload, and what its row names is known
                if page.status != UNCHANGED:
                    page.archived.stored_links = links

    def _earlier_payloads(self) -> EarlierPayloads:
        if self._earlier is None:
            from webcrawl.stores.earlier_payloads import EarlierPayloads  # SQLAlchemy is slow to import

            uri, crawl = self._session.stores.metadata, self._session.connection.keys.crawl
            self._earlier = EarlierPayloads(uri, crawl, self._across, self._archive.has_payload)
        return self._earlier

    def _close(self) -> None:
        with ExitStack() as closing:  # closes all, also after the first error
            if self._earlier is not None:
                closing.callback(self._earlier.close)
            for archive in self._archives:
                closing.callback(archive.close)
