"""Watches every crawl of an engine from a process that is not a worker."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from webcrawl.alarms.watcher import LOOK_SECONDS, About, Post, Watcher
from webcrawl.engine.client import UNAVAILABLE
from webcrawl.engine.keys import CRAWLS
from webcrawl.errors import StoreError
from webcrawl.frontier import Crawl, Frontier

logger = logging.getLogger(__name__)


@dataclass
class AllCrawls:
    """Watches the crawls of an engine, or the crawl `only`, while no worker of the crawl watches it.

    So the death of a crawl's only worker raises an alarm too. `about` returns the `About` of a crawl's notifications.
    """

    frontier: Frontier
    crawl: Crawl
    post: Post
    about: Callable[[str], About]
    only: str | None = field(default=None, kw_only=True)
    clock: Callable[[], float] = field(default=time.time, kw_only=True)
    _watchers: dict[str, Watcher] = field(default_factory=dict, init=False)

    async def run(self, ending: asyncio.Event) -> None:
        """Watches until `ending` is set. Waits while the engine or the metadata database is unavailable."""
        while not ending.is_set():
            try:
                await self.look()
            except (*UNAVAILABLE, StoreError) as error:
                logger.warning("Watching crawls waits: %s", error)
            self.post.send_soon()
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    await ending.wait()
            except TimeoutError:
                continue
        for watcher in self._watchers.values():
            await watcher.leave()

    async def look(self) -> None:
        """Looks once at each crawl that has workers or has lost workers."""
        layouts = await self.crawl.engine.client.hgetall(CRAWLS)
        for name, layout in layouts.items():
            if self.only in (None, name.decode()):
                keys = replace(self.crawl.keys, crawl=name.decode()).with_layout(layout)
                await self._look_at(replace(self.crawl, keys=keys))

    async def _look_at(self, crawl: Crawl) -> None:
        name = crawl.keys.crawl
        watcher = self._watchers.get(name)
        if not (await crawl.workers.names() or (await crawl.workers.lost())[1]):
            if watcher is not None:
                await self._watchers.pop(name).leave()
            return
        if watcher is None:
            frontier = replace(self.frontier, keys=crawl.keys)
            watcher = self._watchers[name] = Watcher(
                frontier, crawl, self.post, self.about(name), clock=self.clock
            )
        await watcher.look()
