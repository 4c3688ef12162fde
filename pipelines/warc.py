"""The archive: every exchange as WARC/1.1 records."""

from __future__ import annotations

from typing import Any, Self

from scrapy.crawler import Crawler

import webcrawl
from webcrawl.batches import Batches
from webcrawl.page import Page
from webcrawl.session import Session
from webcrawl.stores.archive import open_archive
from webcrawl.stores.warc import WarcPlace


class WarcPipeline:
    """Writes response and request, a revisit record for a copy; a page that says noarchive is left out.

    An item leaves this pipeline when its records are written.
    """

    def __init__(self, session: Session, user_agent: str) -> None:
        # now, not when the spider opens: a place that cannot be used is named, and nothing happens
        self._archive = open_archive(
            session.stores,
            prefix=session.keys.crawl,
            software=f"webcrawl/{webcrawl.__version__}",
            info={"http-header-user-agent": user_agent, "robots": "obey"},
        )
        self._batches = Batches(self._write)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(Session.of(crawler), crawler.settings.get("USER_AGENT"))

    async def process_item(self, item: Any) -> Any:
        if isinstance(item, Page) and item.exchange is not None and not (item.noarchive or item.noindex):
            place = await self._batches.put(item)
            item.warc_file, item.warc_offset, item.warc_length = place
        return item

    async def close_spider(self) -> None:
        await self._batches.close(self._archive.close)

    def _write(self, pages: list[Page]) -> list[WarcPlace]:
        return [self._archive.write(page) for page in pages]
