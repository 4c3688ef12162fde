"""What the components of one crawl share in one process: engine, frontier, resolver, address guard, filters.

Scrapy builds scheduler, middlewares and pipelines apart from each other; each asks `Session.of(crawler)` for the same
session. Settings are read, and found wrong, when it is made; the network is touched only by `open`.
"""

from __future__ import annotations

import importlib
import logging
import os
import socket
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast
from weakref import WeakKeyDictionary

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object

from webcrawl.config import (
    EngineConfig,
    FetchConfig,
    FrontierConfig,
    ReaderConfig,
    StoreConfig,
    number,
    politeness,
    politeness_overrides,
    spill_uri,
    whole,
)
from webcrawl.documents.html.outline_process import Outlines
from webcrawl.documents.mime.reader_processes import Readers
from webcrawl.documents.mime.sizes import Sizes
from webcrawl.engine.client import UNAVAILABLE, Engine
from webcrawl.engine.keys import Keys
from webcrawl.errors import ConfigurationError, EngineUnavailable
from webcrawl.frontier import Crawl, Frontier, HostLimits
from webcrawl.frontier.bloom import BloomSeen
from webcrawl.frontier.tails import Tails
from webcrawl.hosts.address_guard import AddressGuard
from webcrawl.hosts.dns import Resolver
from webcrawl.hosts.turns import Turns
from webcrawl.urls.canonical import (
    DEFAULT_PORTS,
    TRACKING_PARAMETERS,
    Canonicalizer,
    add_scheme,
    hostname,
    normalize,
    port,
)
from webcrawl.urls.filters import FilterChain, ScopeFilter, URLFilter
from webcrawl.urls.scope import Scope
from webcrawl.worker.backpressure import Backpressure

if TYPE_CHECKING:
    from webcrawl.crawler.render.render import Renderer
    from webcrawl.stores.duplicate_index import DuplicateIndex

logger = logging.getLogger(__name__)

T = TypeVar("T")

_sessions: WeakKeyDictionary[Crawler, Session] = WeakKeyDictionary()

_SEEDS_AT_ONCE = 1000

_WORKER_SECONDS = 12.0
"""A worker not heard of for so long counts as dead, and others serve its shards; it beats every two seconds."""


class Session:
    """See the module. `open` must have run before `engine`, `frontier` and `crawl` are used."""

    engine: Engine
    frontier: Frontier
    crawl: Crawl
    tails: Tails

    def __init__(self, settings: BaseSettings, spider_name: str) -> None:
        self.config = FrontierConfig.from_settings(settings, spider_name)
        self.engine_config = EngineConfig.from_settings(settings)
        self.fetch = FetchConfig.from_settings(settings)
        self.stores = StoreConfig.from_settings(settings)
        self.sizes = Sizes(self.fetch.sizes)
        self._spill_uri = spill_uri(settings, self.engine_config, self.stores)
        self.keys = Keys(self.config.crawl_id, self.config.shards)
        self.turns = Turns(
            politeness(settings),
            politeness_overrides(settings),
            total=whole(settings, "CONCURRENT_REQUESTS", least=0),
        )
        self.backpressure = Backpressure()
        self.guard = AddressGuard(settings.getlist("ALLOWED_NETWORKS"))
        self.resolver = Resolver(
            settings.getlist("DNS_SERVERS"),
            timeout=number(settings, "DNS_TIMEOUT", least=0.1),
            max_names=whole(settings, "DNSCACHE_SIZE", least=1),
        )
        ignored = settings.get("URL_IGNORED_PARAMETERS")
        self.canonicalizer = Canonicalizer(TRACKING_PARAMETERS if ignored is None else tuple(ignored))
        self.readers = Readers(ReaderConfig.from_settings(settings))
        self.outlines = Outlines(self.readers.limits) if settings.getbool("HTML_PROCESS", True) else None
        self.renderer: Renderer | None = None
        if settings.getlist("RENDER"):
            self.renderer = _renderer(settings, self)
        self.scope: Scope | None = None
        self._admitted: set[str] = set()
        """Seeds' hosts and ports that the crawl has heard of from here."""
        self.worker = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:6]}"
        self.has_urls = False
        """The crawl had URLs before this process came."""
        self.resumed = False
        """It had been left by all workers before this process came."""
        self.was_finished = False
        """It had nothing left to do."""
        self.was_paused = False
        """An operator had paused it."""
        self.forgets = False
        """The crawl is forgotten when the session closes, after its summary has been written."""
        self.judge: Callable[[Request, Exception], Request | None] | None = None
        """A middleware's, which says what becomes of every request; without one all count as done."""
        self.paced = False
        """A middleware takes the hosts' turns; without one the scheduler does."""
        self.another_turn: Callable[[Request], Awaitable[None]] | None = None
        """What it has a request wait for that goes out once more."""
        self.allows: Callable[[str], Awaitable[bool]] | None = None
        """Where robots.txt is obeyed: whether it lets a page load this."""
        self.trees_are_wanted = False
        """A pipeline reads the trees of HTML pages, beyond what `Outline` tells of them."""
        self.facts_are_wanted = self.hashes_are_wanted = False
        """A pipeline takes the facts of an `Outline`, or its SimHash."""
        self.bloom: BloomSeen | None = None
        learn_schemes(settings)
        self._filter_classes = filter_classes(settings)
        self._settings = settings
        self.filters = self._chain()
        self._embedded: Any = None
        self.is_open = False

    @classmethod
    def of(cls, crawler: Crawler) -> Self:
        """The session of a crawler, made at first use; raises ConfigurationError when a setting is wrong."""
        session = _sessions.get(crawler)
        if session is None:
            session = _sessions[crawler] = cls(crawler.settings, crawler.spidercls.name)
            crawler.signals.connect(session.close, signals.engine_stopped)
        return cast("Self", session)

    def need_renderer(self) -> Renderer:
        """The crawl's browser, also where RENDER names nothing; raises ConfigurationError."""
        if self.renderer is None:
            self.renderer = _renderer(self._settings, self)
        return self.renderer

    async def connect(self, *, to_crawl: bool = False) -> None:
        """Start or reach the engine; raises EngineUnavailable, EngineError.

        `to_crawl`: keep other processes from starting until `open` has cleared up after dead ones.
        """
        config = self.engine_config
        url = config.url or self._start_embedded(to_crawl)
        self.engine = Engine(url, config.parameters, embedded=not config.url)
        await self.engine.check()
        self.frontier = Frontier(
            self.engine,
            self.keys,
            self.worker,
            lease_seconds=self.config.lease_seconds,
            max_attempts=self.config.max_attempts,
            low_share=self.config.low_share,
            started_together=self.turns.config.concurrency,
            host_limits=HostLimits(self.config.host_max_pages or None, self.config.host_max_bytes or None),
            weight=self.config.weight,
        )
        self.crawl = Crawl(
            self.engine, self.keys, self.worker, min(self.config.lease_seconds, _WORKER_SECONDS)
        )
        self.tails = Tails(self.engine, self.keys, self.crawl, self._spill_uri)
        if self.config.bloom:
            self.bloom = BloomSeen(config.data_dir / "seen" / f"{self.keys.crawl}.bloom")
        self.is_open = True

    async def adopt(self) -> bool:
        """Work on the crawl as it was begun, whatever FRONTIER_SHARDS says here; False when it never was.

        For commands that look at a crawl: with another number they would look for a host in the wrong place.
        """
        shards = await self.crawl.shards()
        if shards is None:
            return False
        if shards != self.keys.shards:
            self.keys = replace(self.keys, shards=shards)
            self.frontier = replace(self.frontier, keys=self.keys)
            self.crawl = replace(self.crawl, keys=self.keys)
            self.tails = Tails(self.engine, self.keys, self.crawl, self._spill_uri)
        return True

    @property
    def engine_place(self) -> str:
        """Where the engine is, for a person."""
        config = self.engine_config
        return "the server of REDIS_URL" if config.url else f"DATA_DIR {str(config.data_dir)!r}"

    async def open(self) -> None:
        """Connect, and begin the crawl or go on with it; raises ConfigurationError when it was begun otherwise."""
        # with NumPy it takes a quarter of a second: not in the midst of the first pages
        importlib.import_module("webcrawl.documents.markup_bounds")
        await self.connect(to_crawl=True)
        try:
            await self.engine.retry_until_available(self._begin)
        except UNAVAILABLE as error:
            raise EngineUnavailable(f"the engine went away while the crawl began: {error}") from error

    async def _begin(self) -> None:
        if self.config.flush_on_start:
            await self.clear()
        await self.crawl.begin()
        await self.begin_tails()
        if await self.crawl.limits_changed(self.frontier.host_limits):
            await self.frontier.review()
        if self._embedded is not None and self._embedded.first:
            # nobody else can work, or hold a lease, in an engine that nobody else uses
            await self.crawl.forget_workers()
            await self.frontier.reap(everything=True, delay=self.turns.config.delay)
            self._embedded.admit_others()
        counts = await self.frontier.counts()
        self.has_urls = counts.added > 0
        self.resumed = self.has_urls and not await self.crawl.workers()
        self.was_finished = self.resumed and not counts.open
        self.was_paused = await self.crawl.paused()

    async def clear(self) -> None:
        """Forget the crawl, with whatever number of shards it was begun."""
        begun, tails = await self.crawl.shards(), await self.crawl.tails()
        await replace(self.frontier, keys=replace(self.keys, shards=begun or self.keys.shards)).clear()
        await self.tails.clear(tails)
        if self.bloom is not None:
            self.bloom.clear()
        # last: until all is gone, nobody may begin with another number
        await self.crawl.forget()

    async def begin_tails(self) -> None:
        """From now on queues have the length and order that are configured; see Tails.check for what it raises."""
        await self.tails.check()
        if self._spill_uri is None and self.config.hot_urls:
            logger.info("FRONTIER_SPILL_URI is not set: the engine keeps queues of any length in memory")
        await self.crawl.configure(self.config.hot_urls if self._spill_uri else 0, self.config.order)

    async def retry_until_available(self, work: Callable[[], Awaitable[T]]) -> T:
        """The result of `work` at the engine, which is waited for as long as the crawl goes on.

        Raises EngineUnavailable when the crawl ends and it is still away: what was to be done has to be done again.
        """
        return await self.engine.retry_until_available(work, self.turns.ending)

    async def stored(self, work: Callable[[], Awaitable[T]]) -> T:
        """The result of `work`, which stores something and is waited for while there is no room; see Backpressure."""
        return await self.backpressure.retry_until_available(work, self.turns.ending)

    async def is_named(self, name: str, number: int) -> bool:
        """Whether any worker's operator named this host and port: then the guard lets it through from now on."""
        named = await self.retry_until_available(lambda: self.crawl.knows("seeds", f"{name} {number}"))
        if named:
            self.guard.allow_host(name, number)
        return named

    async def learn_scope(self, url: str) -> None:
        """Admit this normalised URL, and all with the same key, when another worker opened the scope for it."""
        scope = self.scope
        if scope is not None and not scope.allows(url):
            key = scope.key(url)
            if await self.retry_until_available(lambda: self.crawl.knows("scope", key)):
                scope.admit_key(key)

    async def close(self) -> None:
        """Give up the engine; the last process to do so ends an embedded one."""
        if self.renderer is not None:
            await self.renderer.close()
        await self.resolver.close()
        await self.readers.close()
        if self.outlines is not None:
            await self.outlines.close()
        if self.is_open:
            self.is_open = False
            if self.forgets:
                await self.clear()
            await self.engine.close()
        if self._embedded is not None:
            self._embedded.stop()

    async def admit_seeds(self, urls: Iterable[str]) -> None:
        """The operator named these URLs: their hosts may be wherever they are, for all workers of the crawl."""
        seeds = sorted({self.allow_seed(url) for url in urls} - self._admitted)
        for batch in (
            seeds[start : start + _SEEDS_AT_ONCE] for start in range(0, len(seeds), _SEEDS_AT_ONCE)
        ):
            await self.retry_until_available(partial(self.crawl.remember, "seeds", batch))
            self._admitted.update(batch)

    def allow_seed(self, url: str) -> str:
        """`admit_seeds` for one, and for this process alone."""
        url = normalize(url)
        self.guard.allow_host(hostname(url), port(url))
        return f"{hostname(url)} {port(url)}"

    async def set_scope(self, scope: Scope, *, remember: bool = True) -> None:
        """From now on links are followed within this scope, widened by what other workers opened."""
        self.scope = scope
        for key in await self.retry_until_available(lambda: self.crawl.recall("scope")):
            scope.admit_key(key)
        if remember:
            await self.retry_until_available(lambda: self.crawl.remember("scope", scope.keys()))
            await self.retry_until_available(lambda: self.crawl.set_scope_kind(scope.kind))
        self.filters = self._chain()

    async def widen_scope(self, url: str) -> None:
        """A seed was redirected to this URL: the crawl goes on there."""
        if self.scope is not None:
            key = self.scope.add(url)
            await self.retry_until_available(lambda: self.crawl.remember("scope", [key]))

    @cached_property
    def duplicates(self) -> DuplicateIndex:
        """Which page came first."""
        from webcrawl.stores.duplicate_index import (
            DuplicateIndex,  # brings NumPy, which most commands do not need
        )

        return DuplicateIndex(self.engine, self.keys)

    def _start_embedded(self, to_crawl: bool) -> str:
        try:
            from webcrawl.engine.embedded import EmbeddedEngine
        except ImportError as error:
            raise EngineUnavailable(
                "no embedded engine on this platform; set REDIS_URL to a Valkey or Redis >= 7 server"
            ) from error
        self._embedded = EmbeddedEngine(self.engine_config.data_dir)
        return str(self._embedded.start(clears_up=to_crawl))

    def _chain(self) -> FilterChain:
        config: Mapping[str, object] = {**self._settings, "SCOPE": self.scope or Scope("web")}
        # the scope is no choice among filters: a list without it must not open the whole web
        classes: list[type[URLFilter]] = [ScopeFilter, *self._filter_classes]
        return FilterChain.from_config(config, classes)


def _renderer(settings: BaseSettings, session: Session) -> Renderer:
    try:
        from webcrawl.crawler.render.render import Renderer  # brings scrapy-playwright, which is an extra
    except ImportError as error:
        raise ConfigurationError(
            "rendering needs scrapy-playwright: pip install 'webcrawl[render]'"
        ) from error
    return Renderer(settings, session.resolver, session.guard, session.fetch)


def learn_schemes(settings: BaseSettings) -> None:
    """Let URLs be crawled of every scheme that DOWNLOAD_HANDLERS has a
    `webcrawl.crawler.download.protocol.Protocol` for."""
    for scheme, handler in settings.getdict("DOWNLOAD_HANDLERS").items():
        if handler and scheme not in DEFAULT_PORTS:
            try:
                default_port = getattr(load_object(handler), "default_port", None)
            except (ImportError, NameError, TypeError, ValueError) as error:
                raise ConfigurationError(f"DOWNLOAD_HANDLERS {scheme!r}: {error}") from error
            if default_port is not None:
                add_scheme(scheme, int(default_port))


def filter_classes(settings: BaseSettings) -> list[type[URLFilter]]:
    """The classes of URL_FILTERS in order; raises ConfigurationError for what is none."""
    found: list[tuple[int, type[URLFilter]]] = []
    for path, order in settings.getdict("URL_FILTERS").items():
        if order is None:
            continue
        try:
            filter_class = load_object(path)
            if not issubclass(filter_class, URLFilter):
                raise TypeError("it is no URLFilter")
        except (ImportError, NameError, TypeError, ValueError) as error:
            raise ConfigurationError(f"URL_FILTERS {path!r}: {error}") from error
        found.append((int(order), filter_class))
    return [filter_class for _, filter_class in sorted(found, key=lambda pair: pair[0])]
