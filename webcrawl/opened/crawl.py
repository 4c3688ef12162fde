"""A crawl as commands, the dashboard and jobs see it: to be looked at and steered, not to be crawled."""

from __future__ import annotations

import logging
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

from webcrawl.config import (
    EngineConfig,
    FetchConfig,
    FrontierConfig,
    ReaderConfig,
    StoreConfig,
    check,
    politeness,
    politeness_overrides,
    read,
    spill_uri,
)
from webcrawl.config.libraries import object_of_setting
from webcrawl.config.private_files import end_privacy, keep_private
from webcrawl.config.start import SettingsMapping
from webcrawl.errors import InvalidURL, StoreError
from webcrawl.opened.connection import Connection
from webcrawl.urls.canonical import (
    DEFAULT_PORTS,
    TRACKING_PARAMETERS,
    Canonicalizer,
    add_scheme,
    normalize,
    split,
)
from webcrawl.urls.seeds import with_scheme

if TYPE_CHECKING:
    from webcrawl.documents.mime.reader_processes import Readers
    from webcrawl.hosts.rules import HostRules, RobotsAgents
    from webcrawl.stores.due_pages import DuePages
    from webcrawl.stores.metadata import Metadata

logger = logging.getLogger(__name__)

DEFAULT_CRAWL = "broad"
"""The crawl that a command looks at if nothing names another."""
_MOST_NAMED = 20


class OpenedCrawl:
    """The settings of a crawl, and its connection to the engine, which is unused until `connection.connect`.

    As a context manager, it keeps new files private, and closes what it opened. Properties make what is slow to import.
    """

    def __init__(self, settings: SettingsMapping, default_id: str = DEFAULT_CRAWL) -> None:
        """`default_id`: the name of the crawl without CRAWL_ID. Raises ConfigurationError when a setting is wrong."""
        check(settings)
        self.settings = settings
        self.config = FrontierConfig.from_settings(settings, default_id)
        self.fetch = FetchConfig.from_settings(settings)
        self.stores = StoreConfig.from_settings(settings)
        self.politeness = politeness(settings)
        engine = EngineConfig.from_settings(settings)
        self.connection = Connection(
            engine,
            self.config,
            spill_uri(settings, engine, self.stores),
            self.stores.object_stores,
            started_together=self.politeness.concurrency,
        )
        ignored = read(settings, "URL_IGNORED_PARAMETERS")
        self.canonicalizer = Canonicalizer(TRACKING_PARAMETERS if ignored is None else tuple(ignored))
        add_schemes(settings)

    async def __aenter__(self) -> Self:
        keep_private(self.stores.data_dir, self)
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    @cached_property
    def rules(self) -> HostRules | None:
        """POLITENESS_RULES, if there are any."""
        from webcrawl.hosts.rules import HostRules

        rules = read(self.settings, "POLITENESS_RULES")
        return (
            HostRules.from_setting(rules, self.politeness, politeness_overrides(self.settings))
            if rules
            else None
        )

    @cached_property
    def robots_agents(self) -> RobotsAgents:
        """The user agents by which robots.txt and robots directives are read."""
        from webcrawl.hosts.rules import RobotsAgents

        fixed = self.settings.get("ROBOTSTXT_USER_AGENT", None)
        return RobotsAgents(fixed, read(self.settings, "USER_AGENT"), self.rules)

    @cached_property
    def readers(self) -> Readers:
        """The processes that read documents; `close` ends them."""
        from webcrawl.documents.mime.reader_processes import Readers

        return Readers(ReaderConfig.from_settings(self.settings))

    @property
    def has_engine(self) -> bool:
        """Whether `connection.connect` would reach an engine that a crawl has used, and not begin an empty one."""
        return not self.connection.server.is_embedded or (self.stores.data_dir / "engine").exists()

    async def check_exists(self) -> None:
        """Use the crawl's own number of shards; raises StoreError when the engine has no such crawl."""
        connection = self.connection
        if not await connection.adopt_layout():
            crawls = await connection.crawls()
            if len(crawls) > 1 and not read(self.settings, "CRAWL_ID"):
                raise StoreError(
                    f"{connection.server} has several crawls: choose with --crawl; "
                    f"existing crawls: {', '.join(crawls[:_MOST_NAMED])}"
                )
            others = f"; existing crawls: {', '.join(crawls[:_MOST_NAMED])}" if crawls else ""
            raise StoreError(f"there is no crawl {connection.keys.crawl!r} in {connection.server}{others}")

    async def check_complete(self) -> None:
        """Do what `check_exists` does; raises StoreError too unless all URLs of the crawl can be read."""
        await self.check_exists()
        connection = self.connection
        if await connection.crawl.has_clients():
            raise StoreError(
                f"the URLs of crawl {connection.keys.crawl!r} are in queues of clients: ask scrapy urlfrontier for them"
            )
        if await connection.crawl.restoring():
            raise StoreError(
                f"crawl {connection.keys.crawl!r} is not completely restored: run scrapy restore again"
            )
        await connection.tails.check()

    def metadata(self) -> Metadata:
        """The metadata database; raises StoreError when it does not exist."""
        metadata = self.metadata_if_any()
        if metadata is None:
            raise StoreError(
                f"nothing was stored yet: there is no {self.stores.metadata.partition(':///')[2]}"
            )
        return metadata

    def metadata_if_any(self) -> Metadata | None:
        """The metadata database, or None when its file does not exist; raises StoreError."""
        from sqlalchemy.engine import make_url

        from webcrawl.stores.metadata import Metadata

        url = make_url(self.stores.metadata)
        if url.get_backend_name() == "sqlite" and not (url.database and Path(url.database).exists()):
            return None
        stores = self.stores
        return Metadata.to_read(stores.metadata, history=stores.history, partitions=stores.partitions)

    async def due_pages(self) -> DuePages | None:
        """The plan of a crawl with RECRAWL, to be closed; None for another crawl, and without the metadata database."""
        connection = self.connection
        if not await connection.engine.client.exists(connection.keys.own("recrawl")):
            return None
        from webcrawl.stores.due_pages import DuePages

        if (metadata := self.metadata_if_any()) is None:
            logger.warning("The plan of the crawl is left out: there is no %s", self.stores.metadata)
            return None
        metadata.close()
        return DuePages(self.stores.metadata, connection.keys.crawl)

    async def close(self) -> None:
        """End the reader processes and the connection, and give the process its umask back."""
        try:
            if "readers" in vars(self):
                await self.readers.close()
            await self.connection.close()
        finally:
            end_privacy(self)


def add_schemes(settings: SettingsMapping) -> None:
    """Accept URLs of every scheme for which DOWNLOAD_HANDLERS names a `download.protocol.Protocol`.

    Raises ConfigurationError for a handler that cannot be imported.
    """
    for scheme, handler in read(settings, "DOWNLOAD_HANDLERS").items():
        if handler and scheme not in DEFAULT_PORTS:
            if isinstance(handler, str):
                handler = object_of_setting(f"DOWNLOAD_HANDLERS {scheme!r}", handler)
            if (default_port := getattr(handler, "default_port", None)) is not None:
                add_scheme(scheme, int(default_port))


def host_named(text: str) -> str:
    """The host key of a URL such as https://example.org, or of a bare name; raises StoreError for anything else."""
    try:
        return split(normalize(with_scheme(text)))[0]
    except InvalidURL as error:
        raise StoreError(f"{text!r} is not a host such as https://example.org: {error}") from error
