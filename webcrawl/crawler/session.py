"""The objects that the components of one crawl share in one process.

Scrapy builds scheduler, middlewares and pipelines apart from each other. Each calls `Session.of(crawler)` and gets the
same session. Settings are read and checked when it is made; `open` is the first to use the network.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Self, TypeVar, cast
from weakref import WeakKeyDictionary, finalize

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object

from webcrawl.config import (
    AddressConfig,
    EngineConfig,
    FetchConfig,
    FrontierConfig,
    ReaderConfig,
    StoreConfig,
    check,
    data_dir,
    politeness,
    politeness_overrides,
    read,
    slow_requests,
    spill_uri,
)
from webcrawl.config.private_files import end_privacy, keep_private
from webcrawl.crawler.components import Components
from webcrawl.crawler.connection import Connection
from webcrawl.crawler.shared_scope import SharedScope
from webcrawl.documents.html.outline_process import Outlines
from webcrawl.documents.mime.reader_processes import Readers
from webcrawl.documents.mime.sizes import Sizes
from webcrawl.engine.keys import name_of
from webcrawl.errors import ConfigurationError, LibraryMissing
from webcrawl.frontier.addresses import Addresses
from webcrawl.frontier.unknown_paths import UnknownPaths
from webcrawl.hosts.address_guard import AddressGuard
from webcrawl.hosts.address_turns import AddressTurns
from webcrawl.hosts.costs import Costs
from webcrawl.hosts.dns import Resolver
from webcrawl.hosts.networks import read_networks
from webcrawl.hosts.rules import RobotsAgents, Rules
from webcrawl.hosts.turns import Turns
from webcrawl.metrics.observations import Observations
from webcrawl.urls.canonical import DEFAULT_PORTS, TRACKING_PARAMETERS, Canonicalizer, add_scheme
from webcrawl.worker.backpressure import Backpressure
from webcrawl.worker.dust import Dust
from webcrawl.worker.soft_404s import Soft404s

if TYPE_CHECKING:
    from webcrawl.crawler.render.render import Renderer
    from webcrawl.hosts.proxies import ProxyPool
    from webcrawl.stores.duplicate_index import DuplicateIndex

T = TypeVar("T")

_sessions: WeakKeyDictionary[Crawler, Session] = WeakKeyDictionary()


class Session:
    """Configuration and shared objects of one crawl. `connection` can be used after `open`."""

    def __init__(self, settings: BaseSettings, spider_name: str) -> None:
        check(settings)
        self.config = FrontierConfig.from_settings(settings, spider_name)
        self.fetch = FetchConfig.from_settings(settings)
        self.stores = StoreConfig.from_settings(settings)
        self.turns = _turns(settings, self.config)
        self.backpressure = Backpressure()
        self.guard = AddressGuard(read(settings, "ALLOWED_NETWORKS"))
        self.resolver = Resolver(
            read(settings, "DNS_SERVERS"), timeout=read(settings, "DNS_TIMEOUT"), costs=self.costs
        )
        engine = EngineConfig.from_settings(settings)
        self.connection = Connection(
            engine,
            self.config,
            self.turns,
            spill_uri(settings, engine, self.stores),
            self.stores.object_stores,
        )
        ignored = read(settings, "URL_IGNORED_PARAMETERS")
        self.canonicalizer = Canonicalizer(TRACKING_PARAMETERS if ignored is None else tuple(ignored))
        self.readers = Readers(ReaderConfig.from_settings(settings), self.costs.charge)
        self.outlines = (
            Outlines(
                self.readers.limits,
                self.readers,
                text_links=read(settings, "TEXT_LINKS"),
                link_rows=self.stores.keeps_links,
                markdown=self.stores.with_markdown,
            )
            if read(settings, "HTML_PROCESS")
            else None
        )
        self._settings = settings
        self.renderer = self._make_renderer() if read(settings, "RENDER") else None
        add_schemes(settings)
        self.proxies = self._make_proxies()
        self.scope = SharedScope(self.connection, self.guard, settings)
        # last, so that wrong settings leave the umask as it was
        keep_private(data_dir(settings), self)

    @classmethod
    def of(cls, crawler: Crawler) -> Self:
        """The session of a crawler, made on first use; raises ConfigurationError when a setting is wrong."""
        session = _sessions.get(crawler)
        if session is None:
            session = _sessions[crawler] = cls(crawler.settings, crawler.spidercls.name)
            crawler.signals.connect(session.close, signals.engine_stopped)
            # a crawl that could not start has no such signal
            finalize(session, end_privacy)
        return cast("Self", session)

    @classmethod
    def with_store(cls, crawler: Crawler, is_on: Callable[[StoreConfig], object]) -> Self:
        """The session of a crawler, for a pipeline that `is_on` switches on; otherwise raises NotConfigured."""
        session = cls.of(crawler)
        if not is_on(session.stores):
            raise NotConfigured
        return session

    @cached_property
    def components(self) -> Components:
        """The roles of the crawl's components."""
        return Components()

    @cached_property
    def costs(self) -> Costs:
        """What hosts cost this process."""
        return Costs()

    @cached_property
    def observed(self) -> Observations | None:
        """What this process observes for its metrics and traces; None without METRICS_PORT and TRACES."""
        wanted = read(self._settings, "METRICS_PORT") is not None or read(self._settings, "TRACES")
        return Observations() if wanted else None

    @cached_property
    def robots_agents(self) -> RobotsAgents:
        """The user agents by which robots.txt and robots directives are read."""
        settings = self._settings
        fixed = settings.get("ROBOTSTXT_USER_AGENT")
        return RobotsAgents(fixed, read(settings, "USER_AGENT"), self.turns.rules)

    @cached_property
    def sizes(self) -> Sizes:
        """The limits of DOCUMENT_MAXSIZE."""
        return Sizes(self.fetch.sizes)

    @cached_property
    def duplicates(self) -> DuplicateIndex:
        """The index of payloads and texts in the engine."""
        # imported here because NumPy is slow to import, and most commands do without it
        from webcrawl.stores.duplicate_index import DuplicateIndex

        return DuplicateIndex(self.connection.engine, self.connection.keys)

    @cached_property
    def soft_404s(self) -> Soft404s:
        """What is known of hosts to recognize soft 404s; first used after `open`."""
        crawl, distance = self.connection.crawl, read(self._settings, "SIMHASH_DISTANCE")
        paths = UnknownPaths(crawl.engine, crawl.keys, crawl.worker)
        return Soft404s(
            paths,
            distance,
            self.connection.retry_until_available,
            older=self.connection.joined.has_urls,
        )

    @cached_property
    def dust(self) -> Dust:
        """The DUST rules of hosts; first used after `open`."""
        return Dust(
            lambda url: self.scope.filters.apply(url),
            self.canonicalizer.fingerprint,
            read(self._settings, "SIMHASH_DISTANCE"),
            enabled=read(self._settings, "DUST"),
        )

    def need_renderer(self) -> Renderer:
        """The crawl's browser, made now if RENDER is empty; raises ConfigurationError."""
        if self.proxies is not None:
            raise ConfigurationError("PROXIES is set, and rendered pages are not loaded through proxies")
        if self.renderer is None:
            self.renderer = self._make_renderer()
        return self.renderer

    async def open(self) -> None:
        """Begin the crawl or resume it; raises what `Connection.open` raises."""
        # imports NumPy, which takes a quarter of a second: better now than during the first pages
        with suppress(ImportError):  # the scheduler alone works without it
            importlib.import_module("webcrawl.documents.markup_bounds")
        await self.connection.open()
        if addresses := self.turns.addresses:
            addresses.ask = Addresses(
                self.connection.engine,
                self.connection.keys,
                self.connection.worker,
                addresses.config,
                self.config.lease_seconds,
                self.turns.ending,
            ).ask

    async def stored(self, store: str, url: str, work: Callable[[], Awaitable[T]]) -> T:
        """The result of `work`, which stores the page of a URL; see `Backpressure.retry_until_available`.

        `store` is one of `webcrawl.metrics.observations.STORES`.
        """
        if self.observed is None:
            return await self.backpressure.retry_until_available(work, self.turns.ending)
        # a context manager would take longer than all else that is observed of a page
        began = time.monotonic()
        try:
            return await self.backpressure.retry_until_available(work, self.turns.ending)
        finally:
            self.observed.store(store, url, began)

    async def close(self) -> None:
        """Close the browser, the child processes and the connection, and give the process its umask back."""
        try:
            if self.renderer is not None:
                await self.renderer.close()
            if self.turns.addresses is not None:
                await self.turns.addresses.close()
            await self.resolver.close()
            await self.readers.close()
            if self.outlines is not None:
                await self.outlines.close()
            await self.connection.close()
        finally:
            end_privacy(self)

    def _make_proxies(self) -> ProxyPool | None:
        """The pool of PROXIES, or None; raises ConfigurationError."""
        if not (words := read(self._settings, "PROXIES")):
            return None
        if self.renderer is not None:
            raise ConfigurationError(
                "PROXIES and RENDER: rendered pages are not loaded through proxies; set only one of them"
            )
        from webcrawl.hosts.proxies import ProxyPool, read_proxies

        return ProxyPool(read_proxies(words), read(self._settings, "PROXY_ROTATION"))

    def _make_renderer(self) -> Renderer:
        try:
            from webcrawl.crawler.render.render import Renderer  # needs the extra "render"
        except ImportError as error:
            raise LibraryMissing("RENDER", "scrapy-playwright", "render") from error
        return Renderer(self._settings, self.resolver, self.guard, self.fetch)


def add_schemes(settings: BaseSettings) -> None:
    """Accept URLs of every scheme for which DOWNLOAD_HANDLERS names a `download.protocol.Protocol`.

    Raises ConfigurationError for a handler that cannot be imported.
    """
    for scheme, handler in read(settings, "DOWNLOAD_HANDLERS").items():
        if handler and scheme not in DEFAULT_PORTS:
            try:
                default_port = getattr(load_object(handler), "default_port", None)
            except (ImportError, NameError, TypeError, ValueError) as error:
                raise ConfigurationError(f"DOWNLOAD_HANDLERS {scheme!r}: {error}") from error
            if default_port is not None:
                add_scheme(scheme, int(default_port))


def _turns(settings: BaseSettings, config: FrontierConfig) -> Turns:
    """The turns at all hosts; raises ConfigurationError."""
    common, overrides = politeness(settings), politeness_overrides(settings)
    rules = read(settings, "POLITENESS_RULES")
    addresses = AddressConfig.from_settings(settings)
    exceptions = read_networks("POLITENESS_ADDRESS_EXCEPT", read(settings, "POLITENESS_ADDRESS_EXCEPT"))
    return Turns(
        common,
        overrides,
        total=read(settings, "CONCURRENT_REQUESTS"),
        most_slow=slow_requests(settings),
        rules=Rules.from_setting(rules, common, overrides) if rules else None,
        unit=name_of if config.unit == "name" else str,
        addresses=AddressTurns(addresses, exceptions, config.lease_seconds) if addresses.is_on else None,
    )
