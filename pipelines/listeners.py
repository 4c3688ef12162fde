"""Listeners hear of every page once its row is stored."""

from __future__ import annotations

import logging
from functools import cached_property
from typing import Any, Self

from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured

from webcrawl.crawler.access import tasks_of
from webcrawl.crawler.session import Session
from webcrawl.errors import EngineUnavailable
from webcrawl.page import Page
from webcrawl.stores.listeners import Publisher

logger = logging.getLogger(__name__)


class ListenersPipeline:
    """Publishes pages to the crawl's stream in the engine; off while LISTENERS_MAXLEN is 0.

    No page fails for it: what a full engine cannot take is counted and not published.
    """

    def __init__(self, crawler: Crawler, session: Session) -> None:
        self._crawler = crawler
        self._session = session
        self._told = False

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        session = Session.of(crawler)
        if not session.stores.listeners:
            raise NotConfigured
        return cls(crawler, session)

    async def process_item(self, item: Any) -> Any:
        if isinstance(item, Page):
            row = item.row()
            try:
                published = await self._session.connection.retry_until_available(
                    lambda: self._publisher.publish(row)
                )
            except EngineUnavailable:
                # nor can it be told that the page is done: the next run fetches and publishes it again
                return item
            if not published:
                self._not_published()
        return item

    @cached_property
    def _publisher(self) -> Publisher:
        return Publisher(
            self._session.connection.engine, self._session.connection.keys, self._session.stores.listeners
        )

    def _not_published(self) -> None:
        tasks_of(self._crawler).count("unpublished")
        if not self._told:
            self._told = True
            logger.warning("The engine is full: listeners do not hear of pages until it has room")
