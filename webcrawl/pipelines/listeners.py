"""Publishes every page to listeners once its row is stored."""

from __future__ import annotations

import logging
from functools import cached_property
from typing import Any

from scrapy.crawler import Crawler

from webcrawl.crawler.access import tasks_of
from webcrawl.crawler.session import Session, SessionComponent
from webcrawl.documents.page import Page
from webcrawl.errors import EngineUnavailable
from webcrawl.stores.listeners import Publisher

logger = logging.getLogger(__name__)


class ListenersPipeline(SessionComponent):
    """Publishes pages to the crawl's stream in the engine; off while LISTENERS_MAXLEN is 0.

    No page fails in this pipeline: while the engine is full, unpublished pages are only counted.
    """

    needs = "LISTENERS_MAXLEN"

    def __init__(self, crawler: Crawler, session: Session) -> None:
        super().__init__(crawler, session)
        self._has_warned = False

    async def process_item(self, item: Any) -> Any:
        if isinstance(item, Page):
            row = item.row()
            try:
                published = await self._session.connection.retry_until_available(
                    lambda: self._publisher.publish(row)
                )
            except EngineUnavailable:
                # the page cannot be acknowledged either: the next run fetches and publishes it again
                return item
            if not published:
                self._count_unpublished()
        return item

    @cached_property
    def _publisher(self) -> Publisher:
        return Publisher(
            self._session.connection.engine, self._session.connection.keys, self._session.stores.listeners
        )

    def _count_unpublished(self) -> None:
        tasks_of(self._crawler).count("unpublished")
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "The engine is full: pages are not published to listeners until it has memory again"
            )
