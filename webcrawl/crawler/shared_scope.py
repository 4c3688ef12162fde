"""The URLs that a crawl follows, as its workers share them: seeds, scope and URL filters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property, partial

from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object

from webcrawl.config import read
from webcrawl.crawler.connection import Connection
from webcrawl.crawler.start_outcomes import StartOutcomes
from webcrawl.errors import ConfigurationError
from webcrawl.hosts.address_guard import AddressGuard
from webcrawl.urls.canonical import hostname, normalize, port
from webcrawl.urls.filters import FilterChain, ScopeFilter, URLFilter
from webcrawl.urls.scope import Scope

_SEEDS_AT_ONCE = 1000


class SharedScope:
    """What this process knows of the crawl's seeds and scope. The engine keeps both for all workers.

    Every method that waits raises EngineUnavailable when the crawl ends while the engine is unavailable.
    """

    def __init__(self, connection: Connection, guard: AddressGuard, settings: BaseSettings) -> None:
        self.current: Scope | None = None
        """The scope, as far as it is known here; None until `set`."""
        self.starts = StartOutcomes()
        self._connection = connection
        self._guard = guard
        self._settings = settings
        self._filter_classes = filter_classes(settings)
        self.filters = self._chain()
        self._admitted: set[str] = set()
        """Hosts and ports of seeds that this process has sent to the engine."""

    @cached_property
    def resource_filters(self) -> FilterChain:
        """The filters for what pages load, which may be outside the scope."""
        return self._chain(Scope("web"))

    async def set(self, scope: Scope, *, remember: bool = True) -> None:
        """Follow links within this scope, widened by what other workers added to it.

        `remember`: add it to the crawl's scope in the engine.
        """
        retry_until_available, crawl = self._connection.retry_until_available, self._connection.crawl
        self.current = scope
        for key in await retry_until_available(lambda: crawl.sets.members("scope")):
            scope.admit_key(key)
        if remember:
            await retry_until_available(lambda: crawl.sets.add("scope", scope.keys()))
            await retry_until_available(lambda: crawl.set_scope_kind(scope.kind))
        self.filters = self._chain()

    async def widen(self, url: str) -> None:
        """Add the target of a redirected seed to the scope, for all workers."""
        if self.current is not None:
            key = self.current.add(url)
            await self._connection.retry_until_available(
                lambda: self._connection.crawl.sets.add("scope", [key])
            )

    async def update_for(self, url: str) -> None:
        """Learn from the engine whether another worker widened the scope to this normalised URL."""
        scope = self.current
        if scope is not None and not scope.allows(url):
            key = scope.key(url)
            if await self._connection.retry_until_available(
                lambda: self._connection.crawl.sets.contains("scope", key)
            ):
                scope.admit_key(key)

    async def admit_seeds(self, urls: Iterable[str]) -> None:
        """Let the address guard pass the hosts of these URLs, in all workers: the operator named them."""
        seeds = sorted({self.admit_seed(url) for url in urls} - self._admitted)
        for start in range(0, len(seeds), _SEEDS_AT_ONCE):
            batch = seeds[start : start + _SEEDS_AT_ONCE]
            await self._connection.retry_until_available(
                partial(self._connection.crawl.sets.add, "seeds", batch)
            )
            self._admitted.update(batch)

    def admit_seed(self, url: str) -> str:
        """Let the address guard pass the host of one URL, in this process alone; returns host name and port."""
        url = normalize(url)
        self._guard.allow_host(hostname(url), port(url))
        return f"{hostname(url)} {port(url)}"

    async def is_seed_host(self, name: str, number: int) -> bool:
        """Whether a seed of any worker has this host name and port. The guard lets it pass from then on."""
        seed = f"{name} {number}"
        is_seed = await self._connection.retry_until_available(
            lambda: self._connection.crawl.sets.contains("seeds", seed)
        )
        if is_seed:
            self._guard.allow_host(name, number)
        return is_seed

    def _chain(self, scope: Scope | None = None) -> FilterChain:
        config: Mapping[str, object] = {**self._settings, "SCOPE": scope or self.current or Scope("web")}
        # the scope always applies: a URL_FILTERS without it must not open the whole web
        classes: list[type[URLFilter]] = [ScopeFilter, *self._filter_classes]
        return FilterChain.from_config(config, classes)


def filter_classes(settings: BaseSettings) -> list[type[URLFilter]]:
    """The classes of URL_FILTERS in order; raises ConfigurationError for one that cannot be loaded."""
    found: list[tuple[int, type[URLFilter]]] = []
    for path, order in read(settings, "URL_FILTERS").items():
        if order is None:
            continue
        try:
            filter_class = load_object(path)
            if not issubclass(filter_class, URLFilter):
                raise TypeError("not a subclass of URLFilter")
        except (ImportError, NameError, TypeError, ValueError) as error:
            raise ConfigurationError(f"URL_FILTERS {path!r}: {error}") from error
        found.append((int(order), filter_class))
    return [filter_class for _, filter_class in sorted(found, key=lambda pair: pair[0])]
