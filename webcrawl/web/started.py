"""Whether a crawl that was started as a process has begun."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from webcrawl.engine.client import UNAVAILABLE
from webcrawl.errors import CrawlError
from webcrawl.web.crawls import Crawls
from webcrawl.web.overview import overview
from webcrawl.web.starter import CrawlStarter


async def state_of(crawls: Crawls, crawl: str, *, alive: bool = False) -> str | None:
    """Returns the state of a crawl; None if there is none, or if it must be `alive` and is not."""
    with suppress(*UNAVAILABLE, CrawlError):
        opened = await crawls.opened(crawl)
        if opened is not None:
            now = await overview(opened.connection.crawl, opened.connection.frontier)
            return now.state if now.is_alive or not alive else None
    return None


async def has_begun(crawls: Crawls, starter: CrawlStarter, crawl: str, seconds: float) -> bool:
    """Waits until the engine knows the crawl, and a worker of it is alive or has ended in order."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        ended = not starter.is_running(crawl)
        if ended and starter.failure(crawl):
            return False
        if await state_of(crawls, crawl, alive=not ended):
            return True
        if ended:
            return False
        await asyncio.sleep(0.2)
    return False
