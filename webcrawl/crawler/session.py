"""The objects that the components of one crawl share in one process.

Scrapy builds scheduler, middlewares and pipelines separately. Each calls `Session.of(crawler)` and gets the same
session. The settings are read and checked when the session is made; only `open` uses the network.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, cast
from weakref import WeakKeyDictionary, finalize

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.settings import BaseSettings

from webcrawl.config import (
    AddressConfig,
    DuplicatesConfig,
    ReaderConfig,
    RecrawlConfig,
    politeness_overrides,
    read,
    slow_requests,
)
from webcrawl.config.extraction import extract_rules
from webcrawl.config.libraries import missing
from webcrawl.config.private_files import end_privacy, keep_private
from webcrawl.crawler.components import Components
from webcrawl.crawler.joining import JoinedCrawl, join
from webcrawl.crawler.shared_scope import SharedScope
from webcrawl.crawler.signals import count_without_tasks
from webcrawl.crawler.visits import Visits
from webcrawl.documents.body_writer import BodyBudget
from webcrawl.documents.html.extraction import Extraction
from webcrawl.documents.html.outline_process import Outlines
from webcrawl.documents.mime.reader_processes import Readers
from webcrawl.documents.mime.sizes import SizeLimits
from webcrawl.engine.keys import name_of
from webcrawl.errors import ConfigurationError
from webcrawl.frontier.addresses import EngineAddressTurns
from webcrawl.frontier.host_answers import UnknownPaths
from webcrawl.hosts.address_guard import AddressGuard
from webcrawl.hosts.address_turns import AddressTurns
from webcrawl.hosts.costs import Costs
from webcrawl.hosts.dns import Resolver
from webcrawl.hosts.local_addresses import LocalAddresses, read_local_addresses
from webcrawl.hosts.networks import read_networks
from webcrawl.hosts.turns import Turns
from webcrawl.metrics.observations import Observations
from webcrawl.opened import OpenedCrawl
from webcrawl.policies.recrawl_weights import RecrawlWeights
from webcrawl.policies.revisit_dates import RevisitDates, bounds_of
from webcrawl.stores.backpressure import Backpressure
from webcrawl.stores.duplicate_index import DuplicateIndex
from webcrawl.stores.objects.store import open_store
from webcrawl.stores.sealed.sealing import Sealer
from webcrawl.stores.store_use import StoreUse
from webcrawl.worker.host_records import Dust
from webcrawl.worker.soft_404s import Soft404s

if TYPE_CHECKING:
    from webcrawl.crawler.render.render import Renderer
    from webcrawl.hosts.proxies import ProxyPool

T = TypeVar("T")

_sessions: WeakKeyDictionary[Crawler, Session] = WeakKeyDictionary()


class Session(OpenedCrawl):
    """An opened crawl, with the objects that crawling needs. `connection` can be used after `open`."""

    settings: BaseSettings

    def __init__(self, settings: BaseSettings, spider_name: str) -> None:
        super().__init__(settings, spider_name)
        self.joined = JoinedCrawl()
        """The state of the crawl when `open` joined it."""
        self.components = Components()
        self.costs = Costs()
        """The costs of hosts for this process."""
        self.turns = self._make_turns()
        self.backpressure = Backpressure()
        self.guard = AddressGuard(read(settings, "ALLOWED_NETWORKS"))
        self.resolver = Resolver(
            read(settings, "DNS_SERVERS"), timeout=read(settings, "DNS_TIMEOUT"), costs=self.costs
        )
        self.extraction = self._make_extraction()
        """The rules of EXTRACT; None without any."""
        self.structured_data = read(settings, "STRUCTURED_DATA")
        self.outlines = self._make_outlines() if read(settings, "HTML_PROCESS") else None
        self.local_addresses = self._make_local_addresses()
        self.renderer = self._make_renderer() if read(settings, "RENDER") else None
        self.proxies = self._make_proxies()
        self.scope = SharedScope(self.connection, self.guard, settings)
        self._deletes_crawl = False
        self._sealer: Sealer | None = None
        self.revisit_dates = self._make_revisit_dates()
        """Decides when pages are fetched again; None without RECRAWL."""
        # last, so that wrong settings leave the umask unchanged
        keep_private(self.stores.data_dir, self)

    @classmethod
    def of(cls, crawler: Crawler) -> Self:
        """Returns the session of a crawler, made on first use; raises ConfigurationError if a setting is wrong."""
        session = _sessions.get(crawler)
        if session is None:
            # a spider may set its name in its constructor, or be a bare class in a user's test
            name = getattr(crawler.spidercls, "name", None) or crawler.spidercls.__name__
            session = _sessions[crawler] = cls(crawler.settings, name)
            count_without_tasks(crawler)
            crawler.signals.connect(session.close, signals.engine_stopped)
            # a crawl that could not start has no such signal
            finalize(session, end_privacy)
        return cast("Self", session)

    @cached_property
    def readers(self) -> Readers:
        """The processes that read documents, whose time is charged to the hosts."""
        return Readers(ReaderConfig.from_settings(self.settings), self.costs.charge)

    @cached_property
    def observed(self) -> Observations | None:
        """The observations of this process for metrics and traces; None without METRICS_PORT and TRACES."""
        wanted = read(self.settings, "METRICS_PORT") is not None or read(self.settings, "TRACES")
        return Observations() if wanted else None

    @cached_property
    def store_use(self) -> StoreUse | None:
        """How much of STORE_QUOTA_BYTES is used; None without it. Raises StoreError."""
        stores = self.stores
        if not stores.quota:
            return None
        if not read(self.settings, "STORE_URI"):
            raise ConfigurationError("STORE_QUOTA_BYTES is the quota of STORE_URI, which is not set")
        store = open_store(stores.pages, "STORE_URI", stores.object_stores, check=False)
        return StoreUse(store, stores.quota, stores.max_share)

    @cached_property
    def sizes(self) -> SizeLimits:
        """The limits of DOCUMENT_MAXSIZE."""
        return SizeLimits(self.fetch.sizes)

    @cached_property
    def bodies(self) -> BodyBudget:
        """What the bodies of responses may take together."""
        return BodyBudget.on_disk_of(self.fetch.spool.folder)

    @cached_property
    def duplicates(self) -> DuplicateIndex:
        """The index of payloads and texts in the engine, and in sealed runs."""
        connection = self.connection
        return DuplicateIndex(connection.engine, connection.keys, connection.sealed)

    @cached_property
    def soft_404s(self) -> Soft404s:
        """The answers of hosts by which soft 404s are recognized; first used after `open`."""
        crawl, distance = self.connection.crawl, read(self.settings, "SIMHASH_DISTANCE")
        paths = UnknownPaths(crawl.engine, crawl.keys, crawl.worker)
        return Soft404s(
            paths,
            distance,
            self.connection.retry_until_available,
            older=self.joined.has_urls,
        )

    @cached_property
    def visits(self) -> Visits | None:
        """When URLs were visited last, by which a crawl with REVISIT orders them; None without REVISIT."""
        return Visits(self.stores) if read(self.settings, "REVISIT") else None

    @cached_property
    def dust(self) -> Dust:
        """The DUST rules of hosts; first used after `open`."""
        return Dust(
            lambda url: self.scope.filters.apply(url),
            self.canonicalizer.fingerprint,
            read(self.settings, "SIMHASH_DISTANCE"),
            enabled=read(self.settings, "DUST"),
        )

    def extract(self, status: int | None, url: str) -> str:
        """Returns which fields are extracted of a page with this status; see `Extraction.wanted`."""
        if self.extraction is None or status is None or status // 100 != 2:
            return ""
        return self.extraction.wanted(url)

    def need_renderer(self) -> Renderer:
        """Returns the crawl's browser, made now if RENDER is empty; raises ConfigurationError."""
        if self.proxies is not None:
            raise ConfigurationError("PROXIES is set, and rendered pages are not loaded through proxies")
        if self.renderer is None:
            self.renderer = self._make_renderer()
        return self.renderer

    async def open(self) -> None:
        """Begins or resumes the crawl; raises the errors of `joining.join`."""
        self.joined = await join(self.connection, self.config, self.turns)
        self._deletes_crawl = not self.config.persist
        if self.connection.sealed is not None:
            duplicates = DuplicatesConfig.from_settings(self.settings)
            self._sealer = Sealer(
                self.connection.engine,
                self.connection.keys,
                self.connection.sealed,
                most=duplicates.hot_pages,
                distance=duplicates.distance,
            )
            self._sealer.start()
        if addresses := self.turns.addresses:
            addresses.ask = EngineAddressTurns(
                self.connection.engine,
                self.connection.keys,
                self.connection.worker,
                addresses.config,
                self.config.lease_seconds,
                self.turns.ending,
            ).ask

    async def stored(self, store: str, url: str, work: Callable[[], Awaitable[T]]) -> T:
        """Returns the result of `work`, which stores the page of a URL; see `Backpressure.retry_until_available`.

        `store` is one of `webcrawl.metrics.observations.STORES`.
        """
        if self.observed is None:
            return await self.backpressure.retry_until_available(work, self.turns.ending)
        # a context manager would take longer than all other observations of a page
        began = time.monotonic()
        try:
            return await self.backpressure.retry_until_available(work, self.turns.ending)
        finally:
            self.observed.store(store, url, began)

    async def close(self) -> None:
        """Closes the browser, the child processes and the connection; without SCHEDULER_PERSIST, deletes the crawl."""
        try:
            if self.renderer is not None:
                await self.renderer.close()
            if self.turns.addresses is not None:
                await self.turns.addresses.close()
            await self.resolver.close()
            if self.outlines is not None:
                await self.outlines.close()
            if self.visits is not None:
                await self.visits.close()
            if self._sealer is not None:
                await self._sealer.stop()
            if self._deletes_crawl and self.connection.is_open:
                await self.connection.clear()
        finally:
            await super().close()

    def _make_proxies(self) -> ProxyPool | None:
        """Returns the pool of PROXIES, or None; raises ConfigurationError."""
        if not (words := read(self.settings, "PROXIES")):
            return None
        if self.renderer is not None:
            raise ConfigurationError(
                "PROXIES and RENDER: rendered pages are not loaded through proxies; set only one of them"
            )
        from webcrawl.hosts.proxies import ProxyPool, read_proxies

        return ProxyPool(read_proxies(words), read(self.settings, "PROXY_ROTATION"))

    def _make_local_addresses(self) -> LocalAddresses:
        """Returns the addresses of BIND_ADDRESSES, or of Scrapy's setting; raises ConfigurationError."""
        bind: Any = self.settings.get("DOWNLOAD_BIND_ADDRESS", None)
        if words := read(self.settings, "BIND_ADDRESSES"):
            if bind:
                raise ConfigurationError("BIND_ADDRESSES and DOWNLOAD_BIND_ADDRESS: set only one of them")
            return read_local_addresses(words)
        if not bind:
            return LocalAddresses()
        address, port = (bind, 0) if isinstance(bind, str) else bind
        return LocalAddresses([address], port)

    def _make_revisit_dates(self) -> RevisitDates | None:
        """Raises ConfigurationError for wrong settings, also if they have no effect."""
        config = RecrawlConfig.from_settings(self.settings)
        weights = RecrawlWeights.of_setting(config.weights)
        bounds = bounds_of(config.min_interval, config.max_age)
        return RevisitDates(bounds, weights=weights) if self.config.recrawl else None

    def _make_renderer(self) -> Renderer:
        try:
            from webcrawl.crawler.render.render import Renderer  # needs the extra "render"
        except ImportError as error:
            raise missing("RENDER", "scrapy-playwright", "render") from error
        return Renderer(self.settings, self.resolver, self.guard, self.fetch, self.local_addresses)

    def _make_extraction(self) -> Extraction | None:
        """Raises ConfigurationError for a selector that cannot be parsed, and for the name of a column."""
        if not (rules := extract_rules(read(self.settings, "EXTRACT"))):
            return None
        from webcrawl.results.exports.parts import extracted_fields  # SQLAlchemy is slow to import

        extracted_fields(rules)
        return Extraction(rules)

    def _make_outlines(self) -> Outlines:
        return Outlines(
            self.readers.limits,
            self.readers,
            text_links=read(self.settings, "TEXT_LINKS"),
            link_rows=self.stores.keeps_links,
            markdown=self.stores.makes_markdown("main"),
            page_markdown=self.stores.makes_markdown("page"),
            shares=self.stores.has_signals,
            whole_text=self.stores.makes_text("page"),
            structured=self.structured_data,
        )

    def _make_turns(self) -> Turns:
        """Returns the turns at all hosts; raises ConfigurationError."""
        settings, lease_seconds = self.settings, self.config.lease_seconds
        limits = AddressConfig.from_settings(settings)
        exceptions = read_networks("POLITENESS_ADDRESS_EXCEPT", read(settings, "POLITENESS_ADDRESS_EXCEPT"))
        return Turns(
            self.politeness,
            politeness_overrides(settings),
            total=read(settings, "CONCURRENT_REQUESTS"),
            most_slow=slow_requests(settings),
            ending=self.connection.ending,
            rules=self.rules,
            unit=name_of if self.config.unit == "name" else str,
            addresses=AddressTurns(limits, exceptions, lease_seconds) if limits.is_on else None,
        )


class SessionComponent:
    """A component of a crawl; it takes the roles of `webcrawl.crawler.components` that it subclasses."""

    needs: ClassVar[str] = ""
    """The setting without which there is no such component."""

    def __init__(self, crawler: Crawler, session: Session) -> None:
        self._crawler = crawler
        self._session = session

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Raises NotConfigured when the setting in `needs` is off, ConfigurationError when a role is taken."""
        if cls.needs and not read(crawler.settings, cls.needs):
            raise NotConfigured
        session = Session.of(crawler)
        component = cls(crawler, session)
        session.components.register(component)
        return component
