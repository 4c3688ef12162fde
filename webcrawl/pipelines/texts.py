"""Stores the text of archived pages, and leaves it to feeds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from scrapy.crawler import Crawler

from webcrawl.config.program import VERSION
from webcrawl.crawler.session import Session, SessionComponent
from webcrawl.documents.page import FedText, Page
from webcrawl.documents.payload import StoredRows
from webcrawl.errors import ConfigurationError
from webcrawl.stores.archive import open_conversion
from webcrawl.stores.conversions import Conversion, conversions
from webcrawl.stores.group_commit import PAUSE, Batches, write_alone, write_apart
from webcrawl.stores.tables.texts import open_text_table

R = TypeVar("R")


class TextsPipeline(SessionComponent):
    """Writes the text of each page whose body was archived, and its Markdown; off while TEXT is empty.

    The table has the text of an unchanged page once, and the row of the page names the fetch that stored it.

    A page leaves this pipeline when its text is written. While the disk is full, the page waits.
    """

    needs = "TEXT"

    def __init__(self, crawler: Crawler, session: Session) -> None:
        super().__init__(crawler, session)
        # now, not when the spider opens: an unusable folder or bucket stops the crawl before it starts
        kinds = session.stores.texts.split(",")
        self._feeds = "feed" in kinds
        if session.stores.has_signals and "parquet" not in kinds:
            raise ConfigurationError("TEXT_SIGNALS are columns of tables: add parquet to TEXT")
        self._parts = session.stores.text_parts
        self._stores: list[_Store[Any]] = []
        if "wet" in kinds:
            self._stores += [_Conversions(session, files) for files in conversions(session.stores)]
        if "parquet" in kinds:
            self._stores.append(_Table(session))
        self._tending: list[asyncio.Task[None]] = []

    async def open_spider(self) -> None:
        self._tending = [asyncio.create_task(store.tend()) for store in self._stores]

    async def process_item(self, item: Any) -> Any:
        if isinstance(item, Page) and item.archived.record_id is not None and (item.main_text or item.text):
            for store in self._stores:
                await self._session.stored("texts", item.url, partial(store.put, item))
            if self._feeds:
                item.fed_text = FedText.of(item.reading, self._parts)
        return item

    async def close_spider(self) -> None:
        for task in self._tending:
            task.cancel()
        if self._tending:
            await asyncio.wait(self._tending)
        for store in self._stores:
            await store.close()


class _Store(Generic[R]):
    """A store of texts with its writing thread. The thread also splits the texts into lines."""

    def __init__(self, close: Callable[[], None]) -> None:
        self._close = close
        self.batches: Batches[Page, R] = Batches(self._write, pause=PAUSE)

    async def put(self, page: Page) -> None:
        await self.batches.put(page)

    async def close(self) -> None:
        await self.batches.close(self._close)

    async def tend(self) -> None:
        """Does the regular work of the store, also while no text is written."""

    def _write(self, pages: list[Page]) -> Sequence[R | Exception]:
        raise NotImplementedError


class _Table(_Store[StoredRows]):
    """The table of texts, which does its regular work in its own thread."""

    def __init__(self, session: Session) -> None:
        self._table = open_text_table(session.stores, session.connection.keys.crawl)
        super().__init__(self._table.close)

    async def put(self, page: Page) -> None:
        page.archived.stored_text = await self.batches.put(page)

    def _write(self, pages: list[Page]) -> Sequence[StoredRows | Exception]:
        return write_apart(pages, self._table.write)


class _Conversions(_Store[None]):
    """WET files, or files of Markdown."""

    def __init__(self, session: Session, conversion: Conversion) -> None:
        about = {"prefix": session.connection.keys.crawl, "software": f"webcrawl/{VERSION}"}
        self._text = conversion.text
        self._files = open_conversion(session.stores, conversion, **about)
        super().__init__(self._files.close)

    async def tend(self) -> None:
        """Closes old files, also while no text is written."""
        await self.batches.tend(self._files.tend, lambda shortage: None)

    def _write(self, pages: list[Page]) -> Sequence[None | Exception]:
        return write_alone(pages, self._write_page)

    def _write_page(self, page: Page) -> None:
        if self._text(page):
            self._files.write(page)
