"""Watches the crawls of iterations while no worker watches, so that the death of the only worker raises an alarm."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from webcrawl.alarms.watcher import About, Post, Watcher
from webcrawl.errors import CrawlError
from webcrawl.opened import OpenedCrawl

logger = logging.getLogger(__name__)


class Watching:
    """Watches crawls in place of a worker. `scheduler`: the name of the watcher in the engines of the crawls."""

    def __init__(self, scheduler: str, *, clock: Callable[[], float] = time.time) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self._posts: dict[str, Post] = {}

    async def look(self, opened: OpenedCrawl, about: About, urls: Sequence[str]) -> None:
        """Looks once at an opened crawl, and begins to send due notices to Apprise URLs.

        A look keeps the watch for 15 seconds; then a worker may watch. Raises RedisError.
        """
        if not urls:
            return
        try:
            if about.crawl not in self._posts:
                self._posts[about.crawl] = await asyncio.to_thread(Post, opened.stores.metadata, list(urls))
            post = self._posts[about.crawl]
            crawl = replace(opened.connection.crawl, worker=self._scheduler)
            await Watcher(opened.connection.frontier, crawl, post, about, clock=self._clock).look()
        except CrawlError as error:
            logger.warning("Cannot watch %s now: %s", about.crawl, error)
            return
        post.send_soon()

    async def leave(self, crawl: str) -> None:
        """Stops watching a crawl. Unsent notices stay in its database."""
        if post := self._posts.pop(crawl, None):
            await post.close()
