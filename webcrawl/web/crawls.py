"""The crawls of an engine, which share one connection to it, crawls with an engine of their own, and their rows.

A list of crawls also has those that only a summary is left of.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, TypeVar

from scrapy.settings import Settings

from webcrawl.config import read
from webcrawl.engine.client import UNAVAILABLE
from webcrawl.engine.keys import Keys
from webcrawl.errors import ConfigurationError, CrawlError, brief
from webcrawl.frontier import Crawl
from webcrawl.frontier.crawl import Runs, last_end_and_time
from webcrawl.frontier.history import History
from webcrawl.opened import Connection, OpenedCrawl
from webcrawl.stores.metadata import Metadata
from webcrawl.web.job_store import running_here
from webcrawl.web.overview import Overview, Overviews, overview

logger = logging.getLogger(__name__)

T = TypeVar("T")


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


class Crawls:
    """Finds crawls by their CRAWL_ID. `engine`: the connection to the engine, which belongs to no crawl."""

    def __init__(self, engine: OpenedCrawl, settings: Settings) -> None:
        self._engine = engine
        self._settings = settings
        self._opened: dict[str, OpenedCrawl] = {}
        self.own = OwnEngines(lambda: running_here(settings))
        """The iterations on this machine that have engines of their own."""
        self._overviews = Overviews(engine.connection)

    @property
    def server(self) -> str:
        """The engine of the crawls, for messages."""
        return str(self._engine.connection.server)

    async def names(self) -> list[str]:
        """Returns the CRAWL_ID of each crawl, including iterations on this machine with their own engines."""
        own = [opened.connection.keys.crawl for opened in await self.own.all()]
        return [*await self._engine.connection.crawls(), *own]

    async def overviews(self) -> list[Overview]:
        """Returns the overviews of these crawls: running crawls first, then sorted by name."""
        known = await self._overviews.all()
        for opened in await self.own.all():
            with suppress(*UNAVAILABLE):  # the crawl and its engine have just ended
                known.append(await overview(opened.connection.crawl, opened.connection.frontier))
        return sorted(known, key=lambda overview: (not overview.is_alive, overview.crawl))

    async def close(self) -> None:
        """Closes the connections to engines of iterations."""
        await self.own.close()

    async def opened(self, crawl: str) -> OpenedCrawl | None:
        """Returns a crawl by its name; None if there is no such crawl."""
        opened = self._opened.get(crawl)
        if opened is None:
            try:
                Keys(crawl, 1)
            except ConfigurationError:
                return None
            opened = OpenedCrawl(self.settings_of(crawl), crawl)
            opened.connection.share(self._engine.connection)
        # also for a known crawl: it may have been deleted, and begun again with other shards
        if not await opened.connection.adopt_layout():
            self._opened.pop(crawl, None)
            return await self.own.opened(crawl)
        self._opened[crawl] = opened
        return opened

    def settings_of(self, crawl: str) -> Settings:
        """Returns the settings of the dashboard, with this CRAWL_ID."""
        settings: Settings = self._settings.copy()
        if crawl:
            settings.set("CRAWL_ID", crawl, priority="cmdline")
        return settings


async def in_metadata(opened: OpenedCrawl, read: Callable[[Metadata], T]) -> T | None:
    """Returns the result of `read` in a thread; None if there is no database yet. Raises StoreError."""

    def work() -> T | None:
        metadata = opened.metadata_if_any()
        if metadata is None:
            return None
        with metadata:
            return read(metadata)

    return await asyncio.to_thread(work)


class ListedCrawl(NamedTuple):
    """A crawl in the list. `state`: as docs/glossary.md says. `how`: why its last run ended, as in summary.json.

    `checked`: the repeated visits of known pages, as in `CrawlFigures.checked`. `pages_per_second` and
    `checks_per_second`: over the last half minute; None without a worker.
    """

    crawl: str
    state: str
    pages: int
    checked: int
    pages_per_second: float | None
    checks_per_second: float | None
    queued: int
    started: datetime | None
    ended: datetime | None
    how: str | None


async def crawls_of_engine(connection: Connection) -> list[ListedCrawl]:
    """Returns the crawls of a connected engine."""
    return [
        await _listed(replace(connection.crawl, keys=replace(connection.keys, crawl=now.crawl)), now)
        for now in await Overviews(connection).all()
    ]


async def crawls_of_jobs(engines: OwnEngines) -> list[ListedCrawl]:
    """Returns the running iterations on this machine that have engines of their own."""
    crawls = []
    for opened in await engines.all():
        connection = opened.connection
        with suppress(*UNAVAILABLE):  # the crawl and its engine have just ended
            now = await overview(connection.crawl, connection.frontier)
            crawls.append(await _listed(connection.crawl, now))
    return crawls


def crawls_of_summaries(data_dir: Path, known: Collection[str]) -> list[ListedCrawl]:
    """Returns the crawls that have a summary in the folder of results, but are not `known`.

    A damaged summary, such as that of a crawl that ended on a full disk, is left out with a warning.
    """
    crawls = []
    for path in sorted((data_dir / "summaries").glob("*.json")):
        if path.stem not in known:
            try:
                crawls.append(_summed_up(path))
            except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
                logger.warning("%s is not a summary of a crawl: %s", path, brief(error))
    return crawls


def _summed_up(path: Path) -> ListedCrawl:
    """Returns the crawl of a summary; raises what reading JSON of any kind may raise."""
    summary = json.loads(path.read_text())
    queued = summary["queued"] + summary["leased"]
    is_left = queued > summary.get("parked", 0)
    state = "stopped" if is_left else "finished" if summary["seen_urls"] else "empty"
    ended = _time(path.stat().st_mtime)
    pages, how = summary["pages"], summary["finish_reason"]
    checked = sum(summary.get("revisits", {}).values()) or summary.get("unchanged", 0)
    return ListedCrawl(path.stem, state, pages, checked, None, None, queued, None, ended, how)


async def _listed(crawl: Crawl, now: Overview) -> ListedCrawl:
    samples = await History(crawl.engine, crawl.keys).whole()
    run, (how, ended) = await Runs(crawl.engine, crawl.keys).latest(), await last_end_and_time(crawl)
    begun = min([sample.time for sample in samples[:1]] + ([run.began] if run else []), default=None)
    speed, checks = (round(now.speed, 2), round(now.checks, 2)) if now.is_alive else (None, None)
    if now.is_alive:
        how = ended = None
    figures = now.figures
    queued = figures.queued + figures.leased
    return ListedCrawl(
        now.crawl,
        now.state,
        figures.pages,
        figures.checked,
        speed,
        checks,
        queued,
        _time(begun),
        _time(ended),
        how,
    )


def _time(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
