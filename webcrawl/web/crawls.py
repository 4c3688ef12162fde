"""The crawls of an engine, which share one connection to it."""

from __future__ import annotations

from contextlib import suppress

from scrapy.settings import Settings

from webcrawl.engine.client import UNAVAILABLE
from webcrawl.engine.keys import Keys
from webcrawl.errors import ConfigurationError
from webcrawl.opened import OpenedCrawl
from webcrawl.web.job_store import running_here
from webcrawl.web.overview import Overview, Overviews, overview
from webcrawl.web.own_engines import OwnEngines


class Crawls:
    """Finds crawls by their CRAWL_ID. `engine`: the connection to the engine, which belongs to no crawl."""

    def __init__(self, engine: OpenedCrawl, settings: Settings) -> None:
        self._engine = engine
        self._settings = settings
        self._opened: dict[str, OpenedCrawl] = {}
        self._own = OwnEngines(lambda: running_here(settings))
        self._overviews = Overviews(engine.connection)

    @property
    def server(self) -> str:
        """The engine of the crawls, for messages."""
        return str(self._engine.connection.server)

    async def names(self) -> list[str]:
        """Returns the CRAWL_ID of each crawl, including iterations on this machine with their own engines."""
        own = [opened.connection.keys.crawl for opened in await self._own.all()]
        return [*await self._engine.connection.crawls(), *own]

    async def overviews(self) -> list[Overview]:
        """Returns the overviews of these crawls: running crawls first, then sorted by name."""
        known = await self._overviews.all()
        for opened in await self._own.all():
            with suppress(*UNAVAILABLE):  # the crawl and its engine have just ended
                known.append(await overview(opened.connection.crawl, opened.connection.frontier))
        return sorted(known, key=lambda overview: (not overview.is_alive, overview.crawl))

    async def close(self) -> None:
        """Closes the connections to engines of iterations."""
        await self._own.close()

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
            return await self._own.opened(crawl)
        self._opened[crawl] = opened
        return opened

    def settings_of(self, crawl: str) -> Settings:
        """Returns the settings of the dashboard, with this CRAWL_ID."""
        settings: Settings = self._settings.copy()
        if crawl:
            settings.set("CRAWL_ID", crawl, priority="cmdline")
        return settings
