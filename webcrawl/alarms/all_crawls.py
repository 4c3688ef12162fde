"""Watches every crawl of an engine from a process that is not a worker."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace

from webcrawl.alarms.watcher import LOOK_SECONDS, About, Post, Watcher
from webcrawl.engine.client import UNAVAILABLE
from webcrawl.engine.keys import CRAWLS
from webcrawl.errors import StoreError
from webcrawl.frontier import Crawl, Frontier

logger = logging.getLogger(__name__)


class AllCrawls:
    """Watches the crawls of an engine, or the crawl `only`, while no worker of the crawl watches it.

    So the death of a crawl's only worker raises an alarm too. `about` returns the `About` of a crawl's notifications.
    """

    def __init__(
        self,
        frontier: Frontier,
        crawl: Crawl,
        post: Post,
        about: Callable[[str], About],
        *,
        only: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._frontier = frontier
        self._crawl = crawl
        self._post = post
        self._about = about
        self._only = only
        self._clock = clock
        self._watchers: dict[str, Watcher] = {}

    async def run(self, ending: asyncio.Event) -> None:
        """Watches until `ending` is set. Waits while the engine or the metadata database is unavailable."""
        while not ending.is_set():
            try:
                await self.look()
            except (*UNAVAILABLE, StoreError) as error:
                logger.warning("Watching crawls waits: %s", error)
            self._post.send_soon()
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    await ending.wait()
            except TimeoutError:
                continue
        for watcher in self._watchers.values():
            await watcher.leave()

    async def look(self) -> None:
        """Looks once at each crawl that has workers or has lost workers."""
        layouts = await self._crawl.engine.client.hgetall(CRAWLS)
        for name, layout in layouts.items():
            if self._only in (None, name.decode()):
                keys = replace(self._crawl.keys, crawl=name.decode()).with_layout(layout)
                await self._look_at(replace(self._crawl, keys=keys))

    async def _look_at(self, crawl: Crawl) -> None:
        name = crawl.keys.crawl
        watcher = self._watchers.get(name)
        if not (await crawl.workers.names() or (await crawl.workers.lost())[1]):
            if watcher is not None:
                await self._watchers.pop(name).leave()
            return
        if watcher is None:
            frontier = replace(self._frontier, keys=crawl.keys)
            watcher = self._watchers[name] = Watcher(
                frontier, crawl, self._post, self._about(name), clock=self._clock
            )
        await watcher.look()
