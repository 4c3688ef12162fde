"""Crawls of iterations that run on this machine with an engine of their own, in their DATA_DIR.

The dashboard connects to the socket of such an engine as to a server. It takes no lock of a user, so it neither starts
an engine nor keeps one running, and the engine ends with its crawl.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from scrapy.settings import Settings

from webcrawl.config import read
from webcrawl.crawler.session import Session
from webcrawl.engine.client import UNAVAILABLE
from webcrawl.errors import CrawlError


class OwnEngines:
    """Sessions of these crawls. `running` returns CRAWL_ID -> settings of those that run here."""

    def __init__(self, running: Callable[[], Mapping[str, Settings]]) -> None:
        self._running = running
        self._sessions: dict[str, Session] = {}
        self._opening = asyncio.Lock()

    async def names(self) -> list[str]:
        """The CRAWL_ID of each crawl that is reached."""
        return [crawl for crawl in await asyncio.to_thread(self._running) if await self.session(crawl)]

    async def session(self, crawl: str) -> Session | None:
        """A session that is connected to the crawl; None if none of these engines has it, or its engine has ended."""
        async with self._opening:
            session = self._sessions.pop(crawl, None) or await self._opened(crawl)
            if session is None:
                return None
            with suppress(*UNAVAILABLE):  # the crawl and its engine have ended
                if await session.connection.adopt_layout():
                    self._sessions[crawl] = session
                    return session
            await session.close()
            return None

    async def close(self) -> None:
        """Ends all connections."""
        for session in self._sessions.values():
            await session.close()
        self._sessions.clear()

    async def _opened(self, crawl: str) -> Session | None:
        settings = (await asyncio.to_thread(self._running)).get(crawl)
        if settings is None or (path := await asyncio.to_thread(_socket, settings)) is None:
            return None
        settings.set("REDIS_URL", f"unix://{path}", priority="cmdline")
        session = Session(settings, crawl)
        with suppress(CrawlError, *UNAVAILABLE):
            await session.connection.connect()
            return session
        await session.close()
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
