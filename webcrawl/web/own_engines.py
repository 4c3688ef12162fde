"""Crawls of iterations that run on this machine with an engine of their own, in their DATA_DIR.

The dashboard connects to the socket of their engine as to a server. It takes no lock of a user, so it neither starts
an engine nor keeps one running, and the engine ends with its crawl.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from scrapy.settings import Settings

from webcrawl.config import read
from webcrawl.engine.client import UNAVAILABLE
from webcrawl.errors import CrawlError
from webcrawl.opened import OpenedCrawl


class OwnEngines:
    """Opens these crawls. `running` returns CRAWL_ID -> settings of the iterations that run here."""

    def __init__(self, running: Callable[[], Mapping[str, Settings]]) -> None:
        self._running = running
        self._opened: dict[str, OpenedCrawl] = {}
        self._opening = asyncio.Lock()

    async def names(self) -> list[str]:
        """The CRAWL_ID of each crawl that is reached."""
        return [crawl for crawl in await asyncio.to_thread(self._running) if await self.opened(crawl)]

    async def opened(self, crawl: str) -> OpenedCrawl | None:
        """The crawl, connected to its engine; None if none of these engines has it, or its engine has ended."""
        async with self._opening:
            opened = self._opened.pop(crawl, None) or await self._open(crawl)
            if opened is None:
                return None
            with suppress(*UNAVAILABLE):  # the crawl and its engine have ended
                if await opened.connection.adopt_layout():
                    self._opened[crawl] = opened
                    return opened
            await opened.close()
            return None

    async def close(self) -> None:
        """Ends all connections."""
        for opened in self._opened.values():
            await opened.close()
        self._opened.clear()

    async def _open(self, crawl: str) -> OpenedCrawl | None:
        settings = (await asyncio.to_thread(self._running)).get(crawl)
        if settings is None or (path := await asyncio.to_thread(_socket, settings)) is None:
            return None
        settings.set("REDIS_URL", f"unix://{path}", priority="cmdline")
        opened = OpenedCrawl(settings, crawl)
        with suppress(CrawlError, *UNAVAILABLE):
            await opened.connection.connect()
            return opened
        await opened.close()
        return None


def _socket(settings: Settings) -> Path | None:
    """The socket of the engine in a DATA_DIR, if a server answers there."""
    try:
        from webcrawl.engine.embedded import answers
        from webcrawl.engine.server_folder import socket_path
    except ImportError:  # there are no embedded engines on this platform
        return None
    folder = Path(read(settings, "DATA_DIR") or "data").resolve() / "engine"
    with suppress(CrawlError, OSError):
        if folder.is_dir() and answers(path := socket_path(folder)):
            return path
    return None
