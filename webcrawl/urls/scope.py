"""The scope of a crawl: the seeds' folders, hosts or registered domains, or the whole web; and LINK_RULES within it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Literal, Self, get_args

from webcrawl.config import read
from webcrawl.config.kinds import expression
from webcrawl.config.rules import LinkRule
from webcrawl.errors import ConfigurationError
from webcrawl.urls.canonical import authority, is_address, normalize, registered_domain
from webcrawl.urls.patterns import Patterns

ScopeKind = Literal["path", "host", "domain", "web"]

_MOST_FOLDERS = 32
"""The most folders of a URL that are compared with seeds. A hostile path may have thousands."""
_CACHED = 1 << 10


@lru_cache(maxsize=1 << 14)
def _domain_key(netloc: str) -> str:
    name = netloc.partition(":")[0]
    # An address or an intranet name has no registered domain, so each of its ports is a site of its own.
    if netloc.startswith("[") or is_address(name) or "." not in name.removesuffix("."):
        return netloc
    return registered_domain(name)


class Scope:
    """The URLs that belong to a crawl, as a set of keys that workers can share.

    kind     key of a URL                                                a URL belongs if
    path     host name, port as for host, and path up to its last "/"    its key begins with the key of a seed
    host     host name, with port unless it is the scheme's default      its key is the key of a seed
    domain   registered domain; as for host without such a domain        its key is the key of a seed
    web      none                                                        always

    Seeds are normalized; InvalidURL names an invalid seed. `allows` expects a normalized URL.
    """

    def __init__(self, kind: ScopeKind, seeds: Iterable[str] = ()) -> None:
        if kind not in get_args(ScopeKind):
            raise ConfigurationError(f"scope {kind!r}: must be one of {', '.join(get_args(ScopeKind))}")
        self.kind: ScopeKind = kind
        self._keys: set[str] = set()
        self._deepest = 0
        """The number of folders in the longest key."""
        for seed in seeds:
            self.add(seed)

    @classmethod
    def from_keys(cls, kind: ScopeKind, keys: Iterable[str]) -> Self:
        """Returns a scope with the `keys()` of another worker."""
        scope = cls(kind)
        for key in keys:
            scope.admit_key(key)
        return scope

    def key(self, url: str) -> str:
        """Returns the key of a normalized URL; empty if every URL is in scope."""
        if self.kind == "web":
            return ""
        if self.kind == "path":
            return _folders(url, _MOST_FOLDERS)[-1]
        netloc = authority(url)
        return netloc if self.kind == "host" else _domain_key(netloc)

    def keys_of(self, url: str) -> list[str]:
        """Returns the keys by which a normalized URL may be in scope: one must be a seed's. Empty for the whole web."""
        if self.kind == "path":
            return _folders(url, _MOST_FOLDERS)
        return [key] if (key := self.key(url)) else []

    def allows(self, url: str) -> bool:
        """Whether a normalized URL belongs to the crawl."""
        if self.kind == "path":
            return any(folder in self._keys for folder in _folders(url, self._deepest))
        return self.kind == "web" or self.key(url) in self._keys

    def add(self, url: str) -> str:
        """Adds a seed, and returns its key."""
        key = self.key(normalize(url))
        self.admit_key(key)
        return key

    def widen(self, url: str) -> str:
        """Adds the target of a redirected seed, and returns its key; empty if the target is a folder above a seed."""
        key = self.key(normalize(url))
        if self.kind == "path" and any(seed_key.startswith(key) for seed_key in self._keys):
            return ""
        self.admit_key(key)
        return key

    def admit_key(self, key: str) -> None:
        """Adds a key of another worker."""
        if key:
            self._keys.add(key)
            self._deepest = max(self._deepest, key.count("/"))

    def keys(self) -> frozenset[str]:
        """Returns all keys, for other workers; empty for the whole web."""
        return frozenset(self._keys)


def _folders(url: str, most: int) -> list[str]:
    """Returns the host and the first folders of a normalized URL: ["a.org/", "a.org/b/"] for http://a.org/b/c?d."""
    after_slash = url.index("://") + 3
    start, end = after_slash, url.find("?", after_slash)
    folders: list[str] = []
    while len(folders) < most and (
        after_slash := url.find("/", after_slash, end if end >= 0 else len(url)) + 1
    ):
        folders.append(url[start:after_slash])
    return folders


class LinkRules:
    """Pairs of expressions: on a page whose URL matches the first, only links that match the second are followed.

    If several rules match a page, a link must match the second expression of one rule. On other pages, all links are
    followed.
    """

    def __init__(self, rules: Sequence[LinkRule]) -> None:
        self._rules = tuple(rules)
        self._pages = Patterns(expression(rule.page) for rule in self._rules)
        self._links = lru_cache(maxsize=_CACHED)(self._links_of)

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        """Reads LINK_RULES."""
        return cls(read(config, "LINK_RULES"))

    def on(self, page: str) -> Patterns | None:
        """Returns the expressions for links on a page; a link must match one. None if all links are followed."""
        if not self._rules:
            return None
        indices = self._pages.matching(page)
        return self._links(tuple(indices)) if indices else None

    def matching(self, page: str) -> list[LinkRule]:
        """Returns the rules that match a page."""
        return [self._rules[index] for index in self._pages.matching(page)]

    def _links_of(self, indices: tuple[int, ...]) -> Patterns:
        texts = (self._rules[index].links for index in indices)
        return Patterns(expression(text) for text in texts if text is not None)
