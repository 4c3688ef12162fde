"""Opens crawls of iterations on this machine that have their own engine in their DATA_DIR.

The dashboard connects to the socket of such an engine as to a server. It does not take the lock of an engine's user,
so it neither starts an engine nor keeps an engine running: the engine ends with its crawl.
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
    """Opens these crawls. `running` returns the settings of running iterations on this machine by CRAWL_ID."""

    def __init__(self, running: Callable[[], Mapping[str, Settings]]) -> None:
        self._running = running
        self._opened: dict[str, OpenedCrawl] = {}
        self._opening = asyncio.Lock()

    async def all(self) -> list[OpenedCrawl]:
        """Returns each reachable crawl, connected to its engine."""
        return [
            opened
            for crawl in await asyncio.to_thread(self._running)
            if (opened := await self.opened(crawl)) is not None
        ]

    async def opened(self, crawl: str) -> OpenedCrawl | None:
        """Returns the crawl, connected to its engine; None if it has no such engine, or its engine has ended."""
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
    """Returns the socket of the engine in a DATA_DIR, or None if no server answers."""
    try:
        from webcrawl.engine.embedded import answers
        from webcrawl.engine.server_folder import socket_path
    except ImportError:  # this platform has no embedded engines
        return None
    folder = Path(read(settings, "DATA_DIR") or "data").resolve() / "engine"
    with suppress(CrawlError, OSError):
        if folder.is_dir() and answers(path := socket_path(folder)):
            return path
    return None
