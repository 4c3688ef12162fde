"""The scope of a crawl: the seeds' hosts, their registered domains, or the whole web."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Literal, Self, get_args

from webcrawl.errors import ConfigurationError
from webcrawl.urls.canonical import authority, is_address, normalize, registered_domain

ScopeKind = Literal["host", "domain", "web"]


@lru_cache(maxsize=1 << 14)
def _domain_key(netloc: str) -> str:
    name = netloc.partition(":")[0]
    # An address or intranet name has no registered domain, so each of its ports is a site of its own.
    if netloc.startswith("[") or is_address(name) or "." not in name.removesuffix("."):
        return netloc
    return registered_domain(name)


class Scope:
    """The URLs that belong to a crawl, as a set of keys that workers can share.

    kind     key of a URL                                                a URL belongs if
    host     host name, with port unless it is the scheme's default      its key is a seed's
    domain   registered domain; as for host if there is none             its key is a seed's
    web      none                                                        always

    Seeds are normalised; InvalidURL names an invalid one. `allows` expects a normalised URL.
    """

    def __init__(self, kind: ScopeKind, seeds: Iterable[str] = ()) -> None:
        if kind not in get_args(ScopeKind):
            raise ConfigurationError(f"scope {kind!r}: must be one of {', '.join(get_args(ScopeKind))}")
        self.kind: ScopeKind = kind
        self._keys: set[str] = set()
        for seed in seeds:
            self.add(seed)

    @classmethod
    def from_keys(cls, kind: ScopeKind, keys: Iterable[str]) -> Self:
        """A scope with the `keys()` of another worker."""
        scope = cls(kind)
        scope._keys.update(keys)
        return scope

    def key(self, url: str) -> str:
        """The key of a normalised URL; empty if every URL is in scope."""
        if self.kind == "web":
            return ""
        netloc = authority(url)
        return netloc if self.kind == "host" else _domain_key(netloc)

    def allows(self, url: str) -> bool:
        """Whether a normalised URL belongs to the crawl."""
        return self.kind == "web" or self.key(url) in self._keys

    def add(self, url: str) -> str:
        """Adds a seed, or the target of a redirected seed, and returns its key."""
        key = self.key(normalize(url))
        self.admit_key(key)
        return key

    def admit_key(self, key: str) -> None:
        """Adds a key of another worker."""
        if key:
            self._keys.add(key)

    def keys(self) -> frozenset[str]:
        """All keys, for other workers; empty for the whole web."""
        return frozenset(self._keys)
