"""The crawls of an engine, each with a session of its own, which share one connection to it."""

from __future__ import annotations

from scrapy.settings import Settings

from webcrawl.crawler.session import Session
from webcrawl.engine.keys import Keys
from webcrawl.errors import ConfigurationError
from webcrawl.web.job_store import running_here
from webcrawl.web.overview import Overviews
from webcrawl.web.own_engines import OwnEngines


class Crawls:
    """Finds crawls by their CRAWL_ID. `session` is connected to the engine and to none of its crawls."""

    def __init__(self, session: Session, settings: Settings) -> None:
        self.engine_session = session
        self._settings = settings
        self._sessions: dict[str, Session] = {}
        self._own = OwnEngines(lambda: running_here(settings))
        self.overviews = Overviews(session.connection)

    @property
    def server(self) -> str:
        """Where the crawls are, in words."""
        return str(self.engine_session.connection.server)

    async def names(self) -> list[str]:
        """The CRAWL_ID of each crawl, also of iterations that run on this machine with engines of their own."""
        return [*await self.engine_session.connection.crawls(), *await self._own.names()]

    async def close(self) -> None:
        """Leaves the engines of iterations."""
        await self._own.close()

    async def session(self, crawl: str) -> Session | None:
        """The session of a crawl; None if there is no such crawl."""
        session = self._sessions.get(crawl)
        if session is None:
            try:
                Keys(crawl, 1)
            except ConfigurationError:
                return None
            session = Session(self.settings_of(crawl), crawl)
            session.connection.share(self.engine_session.connection)
        # also when it is known: it may have been deleted, and begun again with other shards
        if not await session.connection.adopt_layout():
            self._sessions.pop(crawl, None)
            return await self._own.session(crawl)
        self._sessions[crawl] = session
        return session

    def settings_of(self, crawl: str) -> Settings:
        """The settings of the dashboard, with this CRAWL_ID."""
        settings: Settings = self._settings.copy()
        if crawl:
            settings.set("CRAWL_ID", crawl, priority="cmdline")
        return settings
