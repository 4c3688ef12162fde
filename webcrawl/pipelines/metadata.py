"""Stores a row for each URL in the metadata database. This is the last pipeline that stores a page."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any

import xxhash
from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.settings import BaseSettings

from webcrawl.config import read
from webcrawl.config.extraction import extract_rules
from webcrawl.crawler.access import tasks_of
from webcrawl.crawler.importance import update_importance
from webcrawl.crawler.session import Session, SessionComponent
from webcrawl.documents.exchange import digest_bytes
from webcrawl.documents.page import NOT_REPEATABLE, Page
from webcrawl.errors import (
    ConfigurationError,
    EngineUnavailable,
    InvalidURL,
    StoreError,
    StoreUnavailable,
)
from webcrawl.hosts.robots import robots_url
from webcrawl.policies.change_signals import FEED, SITEMAP, lifetime_days
from webcrawl.stores.group_commit import PAUSE, Batches, write_apart
from webcrawl.urls.canonical import normalize, split

logger = logging.getLogger(__name__)

_ENDS = ("finished", "max_pages", "max_bytes")
"""The reasons with which a crawl ends, and not only this worker."""


class MetadataPipeline(SessionComponent):
    """Commits the row of a page and frees its body.

    While the database is unavailable or refuses every row, pages wait here and the worker pauses. If a single row
    cannot be stored, only the page of that row fails.
    """

    def __init__(self, crawler: Crawler, session: Session) -> None:
        super().__init__(crawler, session)
        _check_length(crawler.settings, session.stores.metadata)
        dates = session.revisit_dates
        # imported late: Scrapy also imports disabled pipelines, and SQLAlchemy takes 0.15 s
        from webcrawl.stores.metadata import Metadata

        session.stores.data_dir.mkdir(parents=True, exist_ok=True)
        # now, not when the spider opens: an unusable database stops the crawl before it starts
        stores = session.stores
        self._metadata = Metadata(
            stores.metadata, history=stores.history, dates=dates, partitions=stores.partitions
        )
        self._due_pages = None
        if dates is not None:
            from webcrawl.stores.due_pages import DuePages

            _check_weights(dates.weights.column, session.stores.metadata)
            self._due_pages = DuePages(session.stores.metadata, session.config.crawl_id, dates.weights.column)
        self._batches: Batches[Page, None] = Batches(partial(write_apart, write=self._write), pause=PAUSE)
        self._has_importance = session.config.importance != "off"
        self._has_lake = bool(read(crawler.settings, "LAKE"))
        if self._has_lake:
            from webcrawl.lake.catalogue import check_lake

            check_lake(session.stores)
        if self._has_importance or self._has_lake:
            # the frontier learns of the last pages only after the pipelines are closed
            crawler.signals.connect(self._do_final_work, signals.spider_closed)

    async def process_item(self, item: Any) -> Any:
        if isinstance(item, Page):
            if self._session.revisit_dates is not None and item.main_text:
                item.text_digest = text_digest(item.main_text)
            if item.links.in_document is not None:
                # before the row is stored: a page whose process dies in between is fetched again
                await self._announce(item)
            await self._session.stored("metadata", item.url, lambda: self._batches.put(item))
            tasks_of(self._crawler).count("stored")
            if item.archived.is_first:
                await self._tell(item)
            item.release()
        return item

    async def close_spider(self) -> None:
        await self._batches.close(self._metadata.close)
        if self._due_pages is not None:
            await asyncio.to_thread(self._due_pages.close)

    async def _announce(self, page: Page) -> None:
        """Notes the changes of known pages that a sitemap or feed tells."""
        due_pages, dates = self._due_pages, self._session.revisit_dates
        if due_pages is None or dates is None or page.links.in_document is None:
            return
        if changes := announced_changes(page):
            kind = SITEMAP if page.links.in_document[0] == SITEMAP else FEED
            now, announce = datetime.now(UTC), due_pages.announce
            work = partial(asyncio.to_thread, announce, dates, kind, page.url, changes, now)
            try:
                await self._session.stored("metadata", page.url, work)
            except StoreUnavailable:
                raise
            except StoreError as error:
                logger.warning("%s: the changes that it announces are not noted: %s", page.url, error)

    async def _tell(self, page: Page) -> None:
        """Makes the page known as stored, so that copies can refer to it."""
        assert page.digest is not None
        digest, index, payload = digest_bytes(page.digest), self._session.duplicates, page.archived.payload
        if payload is not None and payload.url != page.url:
            return  # its record cannot represent copies, because another page has the payload
        archived_at = page.fetched_at if payload is None else payload.fetched_at
        with suppress(EngineUnavailable):  # without this record, copies are read and archived in full
            await self._session.connection.retry_until_available(
                lambda: index.kept(digest, page.url, archived_at, page.read_as)
            )

    async def _do_final_work(self, reason: str) -> None:
        """Sets the final importance of pages in their rows, then updates the lake; the last worker does this."""
        connection, stores = self._session.connection, self._session.stores
        if not connection.is_open or not await self._is_last(reason):
            return
        if self._has_importance and reason in _ENDS:
            try:
                await update_importance(connection, stores.metadata, connection.link_memory)
            except (EngineUnavailable, StoreError) as error:
                logger.warning(
                    "The importance of pages could not be updated in the metadata database: %s", error
                )
        if self._has_lake:
            await asyncio.to_thread(self._update_lake)

    async def _is_last(self, reason: str) -> bool:
        """Returns whether this worker does the final work: of a crawl that ended, or of a run that was stopped."""
        connection = self._session.connection
        workers = connection.crawl.workers
        try:
            if reason in _ENDS:
                return await connection.retry_until_available(workers.is_last)
            return self._has_lake and not await connection.retry_until_available(workers.alive)
        except EngineUnavailable as error:
            logger.warning("The final work of the crawl is left undone: %s", error)
            return False

    def _update_lake(self) -> None:
        # its libraries may not be installed
        from webcrawl.lake.update import update_lake
        from webcrawl.stores.metadata import Metadata

        rules = extract_rules(read(self._crawler.settings, "EXTRACT"))
        try:
            with Metadata(self._session.stores.metadata) as metadata:
                update_lake(self._session.stores, metadata, self._session.config.crawl_id, rules)
        except StoreError as error:
            logger.error("%s; the next run, or scrapy export --format iceberg, brings it up to date", error)

    def _write(self, pages: Sequence[Page]) -> list[None]:
        crawl = self._session.connection.keys.crawl
        rows = [page.row() | _beside(page, crawl) for page in pages]
        if self._session.revisit_dates is not None:
            for page, row in zip(pages, rows, strict=True):
                row["lifetime"] = lifetime_days(*page.caching)
        self._metadata.upsert(rows)
        return [None] * len(pages)


def announced_changes(page: Page) -> dict[str, datetime]:
    """Returns URL -> the time of its last change, as a sitemap or feed tells it of pages of its own host.

    What other hosts tell does not count: whoever names many pages of others as new would let the crawl fetch them, and
    could begin again with each further host name, of which nothing is known. A host whose robots.txt names the sitemap
    has vouched for it, on whichever host it is (sitemaps.org, "Sitemaps & Cross Submits").
    """
    if page.links.in_document is None:
        return {}
    hosts = {split(normalize(page.final_url))[0]}
    if page.reading.is_sitemap and page.referrer:
        with suppress(InvalidURL):
            host, _ = split(page.referrer)
            hosts |= {host} if page.referrer == robots_url(host) else set()
    changes: dict[str, datetime] = {}
    for link in page.links.in_document[1]:
        with suppress(InvalidURL):
            if link.modified is not None and split(url := normalize(link.url))[0] in hosts:
                changes[url] = link.modified
    return changes


def _beside(page: Page, crawl: str) -> dict[str, Any]:
    """Returns the columns that only the database has."""
    request = page.recrawl_request
    return {
        "crawl": crawl,
        "queued_at": page.queued_at,
        "text_digest": page.text_digest,
        "fetch_class": page.fetch_class,
        "recrawl_request": base64.b64encode(request).decode() if request else None,
        "is_repeatable": request != NOT_REPEATABLE,
    }


def _check_weights(column: str, uri: str) -> None:
    """Raises ConfigurationError if the column of RECRAWL_WEIGHTS does not exist or has no numbers."""
    if column and not column.startswith("details."):
        from webcrawl.stores.chosen_columns import ChosenColumns

        with ChosenColumns(uri) as columns:
            try:
                columns.check_number(column)
            except ConfigurationError as error:
                raise ConfigurationError(f"RECRAWL_WEIGHTS: {error}") from None


def text_digest(text: str) -> int:
    """Returns the XXH3 of a text, 64 bits."""
    return xxhash.xxh3_64_intdigest(text.encode(errors="surrogatepass"))


def _check_length(settings: BaseSettings, uri: str) -> None:
    from webcrawl.stores.columns import LONGEST_KEY

    limit = read(settings, "URLLENGTH_LIMIT")
    if uri.startswith("postgresql") and not 1 <= limit <= LONGEST_KEY:
        raise ConfigurationError(
            f"URLLENGTH_LIMIT {limit}: must be from 1 to {LONGEST_KEY}, as long as PostgreSQL's primary keys may be"
        )
