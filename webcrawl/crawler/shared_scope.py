"""The rules about links that the workers of a crawl share: seeds, scope, URL filters, and levels of links."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import TypeVar

from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object

from webcrawl.config import read
from webcrawl.crawler.start_outcomes import StartOutcomes
from webcrawl.errors import ConfigurationError
from webcrawl.hosts.address_guard import AddressGuard
from webcrawl.opened import Connection
from webcrawl.policies.mined import Mined
from webcrawl.policies.mined_terms import MinedTerm
from webcrawl.policies.priorities import Prioritizer, Term
from webcrawl.urls.canonical import hostname, is_address, normalize, port
from webcrawl.urls.filters import FilterChain, ScopeFilter, URLFilter
from webcrawl.urls.scope import LinkRules, Scope

T = TypeVar("T")

_SEEDS_AT_ONCE = 1000


class SharedScope:
    """The crawl's seeds and scope, as far as this process knows them. The engine keeps both for all workers.

    Every method that waits raises EngineUnavailable if the crawl ends while the engine is unavailable.
    """

    def __init__(self, connection: Connection, guard: AddressGuard, settings: BaseSettings) -> None:
        self.current: Scope | None = None
        """The scope, as far as it is known here; None until `set`."""
        self.starts = StartOutcomes()
        self._connection = connection
        self._guard = guard
        self._settings = settings
        self._filter_classes = chain_classes(settings, "URL_FILTERS", URLFilter)
        self.link_rules = LinkRules.from_config(settings)
        self.prioritizer = Prioritizer.from_config(settings, chain_classes(settings, "PRIORITIZERS", Term))
        self.mined = Mined("")
        """The weights of `scrapy mine` that were read last."""
        self._most_hops: int = read(settings, "OFFSITE_HOPS")
        self.filters = self._chain()
        self._admitted: set[str] = set()
        """Hosts and ports of seeds that this process has sent to the engine."""
        self._settled: dict[tuple[str, int], bool] = {}
        """Host name and port of a seed that was named or met here -> whether its first addresses are known."""

    @cached_property
    def resource_filters(self) -> FilterChain:
        """The filters for resources of pages, which may be outside the scope and ALLOWED_DOMAINS."""
        return self._chain(Scope("web"), {"ALLOWED_DOMAINS": []})

    @cached_property
    def _offsite_filters(self) -> FilterChain:
        """The filters for links that OFFSITE_HOPS allows outside the scope."""
        return self._chain(Scope("web"))

    def offsite(self, url: str, hops: int) -> str | None:
        """Returns the URL to crawl for a normalized URL outside the scope, or None. `hops`: links in a row outside."""
        current = self.current
        if hops > self._most_hops or current is None or current.allows(url):
            return None
        return self._offsite_filters.apply(url)

    def use_mined(self, mined: Mined) -> None:
        """Weighs links by these weights from now on."""
        self.mined = mined
        for term in self.prioritizer.terms:
            if isinstance(term, MinedTerm):
                term.use(mined)

    async def set(self, scope: Scope, *, remember: bool = True) -> None:
        """Follows links within this scope, widened by the additions of other workers.

        `remember`: also adds it to the crawl's scope in the engine.
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
        """Adds the target of a redirected seed to the scope, for all workers."""
        if self.current is not None and (key := self.current.widen(url)):
            await self._connection.retry_until_available(
                lambda: self._connection.crawl.sets.add("scope", [key])
            )

    async def update_for(self, url: str) -> None:
        """Widens the scope to this normalized URL if another worker has done so in the engine."""
        scope = self.current
        if scope is None or scope.allows(url):
            return
        for key in scope.keys_of(url):
            if await self._connection.retry_until_available(
                partial(self._connection.crawl.sets.contains, "scope", key)
            ):
                scope.admit_key(key)
                return

    async def admit_seeds(self, urls: Iterable[str]) -> None:
        """Lets the hosts of these URLs pass the address guard in all workers, because the operator named them.

        A host that is given by name passes at the addresses of its first DNS answer; see `settle_seed`.
        """
        seeds = sorted({self.admit_seed(url) for url in urls} - self._admitted)
        for start in range(0, len(seeds), _SEEDS_AT_ONCE):
            batch = seeds[start : start + _SEEDS_AT_ONCE]
            await self._connection.retry_until_available(
                partial(self._connection.crawl.sets.add, "seeds", batch)
            )
            self._admitted.update(batch)

    def admit_seed(self, url: str) -> str:
        """Lets the host of one URL pass the address guard, in this process alone; returns host name and port."""
        url = normalize(url)
        name, number = hostname(url), port(url)
        if is_address(name):
            self._guard.allow_host(name, number)
        else:
            self._settled.setdefault((name, number), False)
        return f"{name} {number}"

    def is_unsettled_seed(self, name: str, number: int) -> bool:
        """Whether a seed of this process has this host name and port, and was not settled yet."""
        return self._settled.get((name, number)) is False

    async def settle_seed(
        self, name: str, number: int, addresses: Sequence[str], *, remember: bool = True
    ) -> bool:
        """Lets the host of a seed pass the address guard at the addresses of its first DNS answer, and at no others.

        Otherwise, the owner of a name could lead the crawl to an inner address by a later answer. `addresses` are from
        an answer, which counts as the first if no worker had an answer before and `remember` is set. Returns False if
        no seed of any worker has this host.
        """
        seed, sets = f"{name} {number}", self._connection.crawl.sets
        retry_until_available = self._connection.retry_until_available
        if (name, number) not in self._settled and not await retry_until_available(
            lambda: sets.contains("seeds", seed)
        ):
            return False
        inner = self._guard.inner(addresses)
        first = await retry_until_available(lambda: sets.first_addresses(seed, inner, remember=remember))
        self._guard.allow_host(name, number, first)
        self._settled[name, number] = True
        return True

    def _chain(self, scope: Scope | None = None, others: Mapping[str, object] | None = None) -> FilterChain:
        """Returns the filters with the settings, a scope, and other values of some settings."""
        scope = scope or self.current or Scope("web")
        config: Mapping[str, object] = {**self._settings, **(others or {}), "SCOPE": scope}
        # the scope always applies: a URL_FILTERS without it must not open the whole web
        classes: list[type[URLFilter]] = [ScopeFilter, *self._filter_classes]
        return FilterChain.from_config(config, classes)


def chain_classes(settings: BaseSettings, name: str, base: type[T]) -> list[type[T]]:
    """Returns the classes of a setting in the order of their numbers; None instead of a number leaves a class out.

    Raises ConfigurationError for a class that cannot be loaded or is no subclass of `base`.
    """
    classes: list[tuple[int, type[T]]] = []
    for path, order in read(settings, name).items():
        if order is None:
            continue
        try:
            loaded = load_object(path)
            if not (isinstance(loaded, type) and issubclass(loaded, base)):
                raise TypeError(f"not a subclass of {base.__name__}")
            classes.append((int(order), loaded))
        except (ImportError, NameError, TypeError, ValueError) as error:
            raise ConfigurationError(f"{name} {path!r}: {error}") from error
    return [chosen for _, chosen in sorted(classes, key=lambda pair: pair[0])]
