"""One row a URL in SQL: the last pipeline, after which a page is stored."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Self

from scrapy.crawler import Crawler
from scrapy.settings import BaseSettings

from webcrawl.config import read
from webcrawl.crawler.session import Session
from webcrawl.documents.exchange import digest_bytes
from webcrawl.errors import ConfigurationError, EngineUnavailable, StoreError, StoreUnavailable
from webcrawl.page import Page
from webcrawl.stores.group_commit import Batches


class MetadataPipeline:
    """An item leaves this pipeline when its row is committed, freed from its body.

    While the database is away or refuses any row, pages wait here and the worker holds; a row that it refuses for
    itself fails its own page and no other.
    """

    def __init__(self, session: Session) -> None:
        # Scrapy imports pipelines that are off too, and SQLAlchemy takes 0.15 s
        from webcrawl.stores.metadata import Metadata

        session.stores.data_dir.mkdir(parents=True, exist_ok=True)
        # now, not when the spider opens: a place that cannot be used is named, and nothing happens
        self._metadata = Metadata(session.stores.metadata, history=session.stores.history)
        self._batches = Batches(self._write)
        self._session = session

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        session = Session.of(crawler)
        _check_length(crawler.settings, session.stores.metadata)
        return cls(session)

    async def process_item(self, item: Any) -> Any:
        if isinstance(item, Page):
            await self._session.stored(lambda: self._batches.put(item))
            if item.is_first:
                await self._tell(item)
            item.release()
        return item

    async def close_spider(self) -> None:
        await self._batches.close(self._metadata.close)

    async def _tell(self, page: Page) -> None:
        """Its copies may refer to it from now on."""
        assert page.digest is not None
        digest, index = digest_bytes(page.digest), self._session.duplicates
        with suppress(EngineUnavailable):  # then they do not
            await self._session.connection.retry_until_available(
                lambda: index.kept(digest, page.url, page.fetched_at, page.reading)
            )

    def _write(self, pages: list[Page]) -> list[None | Exception]:
        try:
            self._metadata.upsert(
                [page.row() | {"crawl": self._session.connection.keys.crawl} for page in pages]
            )
        except StoreUnavailable:
            raise
        except StoreError as error:
            if len(pages) == 1:
                return [error]
            return [result for page in pages for result in self._write([page])]
        return [None] * len(pages)


def _check_length(settings: BaseSettings, uri: str) -> None:
    from webcrawl.stores.columns import LONGEST_KEY

    limit = read(settings, "URLLENGTH_LIMIT")
    if uri.startswith("postgresql") and not 1 <= limit <= LONGEST_KEY:
        raise ConfigurationError(
            f"URLLENGTH_LIMIT {limit}: must be from 1 to {LONGEST_KEY}, as long as PostgreSQL's primary keys may be"
        )
