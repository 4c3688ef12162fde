"""Stores the links of every page, for LINKS."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured

from webcrawl.crawler.session import Session
from webcrawl.links.journal import Entry
from webcrawl.links.store import open_link_store
from webcrawl.page import Page
from webcrawl.stores.group_commit import Batches

_EPOCH = datetime.fromtimestamp(0, UTC)
_MICROSECOND = timedelta(microseconds=1)


class LinksPipeline:
    """Writes the rows of a page's links, which the spider has set; off unless LINKS is set.

    A page leaves this pipeline when they are written. While there is no room, it waits and the worker pauses.
    """

    def __init__(self, session: Session) -> None:
        # now, not when the spider opens: an unusable folder or bucket stops the crawl before it starts
        self._store = open_link_store(session.stores, session.connection.keys.crawl)
        self._batches: Batches[Entry, None] = Batches(self._write)
        self._session = session

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        session = Session.of(crawler)
        if not session.stores.keeps_links:
            raise NotConfigured
        return cls(session)

    async def process_item(self, item: Any) -> Any:
        if isinstance(item, Page) and item.link_rows:
            entry = self._entry(item)
            await self._session.stored(lambda: self._batches.put(entry))
        return item

    async def close_spider(self) -> None:
        await self._batches.close(self._store.close)

    def _entry(self, page: Page) -> Entry:
        return Entry(
            url=page.url,
            crawl=self._session.connection.keys.crawl,
            depth=page.depth,
            time=(page.fetched_at - _EPOCH) // _MICROSECOND,
            nofollow=page.nofollow,
            rows=page.link_rows,
        )

    def _write(self, entries: list[Entry]) -> Sequence[None | Exception]:
        self._store.write(entries)
        return [None] * len(entries)
