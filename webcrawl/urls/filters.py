"""URL filters: each drops or rewrites links for one reason.

`apply(url)` returns the URL, a rewritten URL, or None to drop it. To add a filter, subclass URLFilter, describe it in
`why`, and add the class to URL_FILTERS. Filters get normalized URLs, in the order of the chain, and are called for
every link of every page.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import ClassVar, NamedTuple, Self, cast

from webcrawl.config import DEFAULTS, read
from webcrawl.config.kinds import expression
from webcrawl.errors import ConfigurationError
from webcrawl.urls.canonical import DEFAULT_PORTS
from webcrawl.urls.patterns import Patterns
from webcrawl.urls.scope import Scope

_LONGEST_RUN = 16
"""The most segments in a repeated run. Without a bound, a hostile URL would cost the square of its length."""


class URLFilter(ABC):
    """Drops or rewrites URLs for one reason."""

    why: ClassVar[str]
    """What the filter drops, and why, for the output of `scrapy checkurl`."""

    @abstractmethod
    def apply(self, url: str) -> str | None:
        """Returns the URL to crawl, or None to drop it."""

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        """Creates the filter from settings; raises ConfigurationError, which names a key with a wrong value."""
        return cls()


class SchemeFilter(URLFilter):
    """Drops URLs of schemes without a handler. Key: DOWNLOAD_HANDLERS."""

    why = "Only schemes with a handler in DOWNLOAD_HANDLERS can be crawled."

    def __init__(self, schemes: Iterable[str] = ("http", "https")) -> None:
        self._prefixes = tuple(f"{scheme}://" for scheme in schemes)

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        handlers = config.get("DOWNLOAD_HANDLERS") or {}
        # Scrapy's settings hold a mapping of their own class
        named = dict(cast("Mapping[str, object]", handlers))
        fetched = {"http": True, "https": True, **named}
        return cls(scheme for scheme, handler in fetched.items() if handler and scheme in DEFAULT_PORTS)

    def apply(self, url: str) -> str | None:
        return url if url.startswith(self._prefixes) else None


class LengthFilter(URLFilter):
    """Drops URLs longer than `limit` characters; 0 means no limit. Key: URLLENGTH_LIMIT."""

    why = "Very long URLs come from broken or endless link generators."

    def __init__(self, limit: int = DEFAULTS["URLLENGTH_LIMIT"]) -> None:
        self._limit = _not_negative("LengthFilter: limit", limit) or float("inf")

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        return cls(read(config, "URLLENGTH_LIMIT"))

    def apply(self, url: str) -> str | None:
        return url if len(url) <= self._limit else None


class PatternFilter(URLFilter):
    """Drops URLs that match a `deny` expression, or, if `allow` is not empty, no `allow` expression.

    Keys: URL_ALLOW, URL_DENY, each a list of regular expressions that may match anywhere in the URL.
    """

    why = "The operator's expressions in URL_ALLOW and URL_DENY exclude it."

    def __init__(self, allow: Iterable[str] = (), deny: Iterable[str] = ()) -> None:
        self._allow = _patterns("PatternFilter: allow", tuple(allow))
        self._deny = _patterns("PatternFilter: deny", tuple(deny))

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        return cls(read(config, "URL_ALLOW"), read(config, "URL_DENY"))

    def apply(self, url: str) -> str | None:
        if self._deny.match(url) or (self._allow and not self._allow.match(url)):
            return None
        return url


class ExtensionFilter(URLFilter):
    """Drops URLs whose path ends in a listed extension, in any case. Key: URL_DENY_EXTENSIONS."""

    why = "The operator excludes files with these extensions."

    def __init__(self, extensions: Iterable[str] = ()) -> None:
        self._endings = tuple("." + extension.lower().lstrip(".") for extension in extensions)
        if "." in self._endings:
            raise ConfigurationError("ExtensionFilter (URL_DENY_EXTENSIONS): an extension is empty")

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        return cls(word for text in read(config, "URL_DENY_EXTENSIONS") for word in text.split())

    def apply(self, url: str) -> str | None:
        if self._endings and url.partition("?")[0].lower().endswith(self._endings):
            return None
        return url


class RepeatedSegmentsFilter(URLFilter):
    """Drops paths in which a run of segments occurs `times` times in a row; 0 means never.

    Key: URL_MAX_REPEATED_SEGMENTS. Endless relative links produce /a/b/a/b/a/b and /x/x/x (Heritrix's
    PathologicalPathDecideRule).
    """

    why = "Paths that repeat themselves come from relative links to the same page."

    def __init__(self, times: int = DEFAULTS["URL_MAX_REPEATED_SEGMENTS"]) -> None:
        if _not_negative("RepeatedSegmentsFilter: times", times) == 1:
            raise ConfigurationError("RepeatedSegmentsFilter: times must be 0 (off) or at least 2")
        self._times = times

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        return cls(read(config, "URL_MAX_REPEATED_SEGMENTS"))

    def apply(self, url: str) -> str | None:
        times = self._times
        segments = url.partition("?")[0].split("/")[3:]
        # Nearly every URL has fewer than times - 1 repeated segments, so it cannot have such a run.
        if not times or len(segments) - len(set(segments)) < times - 1:
            return url
        return None if _repeats(segments, times) else url


class QueryFilter(URLFilter):
    """Drops URLs with more than `maximum` query parameters; 0 means no limit. Key: URL_MAX_PARAMETERS."""

    why = "Queries with very many parameters are combinations of search filters, not pages."

    def __init__(self, maximum: int = DEFAULTS["URL_MAX_PARAMETERS"]) -> None:
        self._maximum = _not_negative("QueryFilter: maximum", maximum)

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        return cls(read(config, "URL_MAX_PARAMETERS"))

    def apply(self, url: str) -> str | None:
        query = url.partition("?")[2]
        if not query or not self._maximum:
            return url
        return url if sum(map(bool, query.split("&"))) <= self._maximum else None


class ScopeFilter(URLFilter):
    """Drops URLs outside the crawl's scope. Key: SCOPE, a Scope."""

    why = "The crawl stays within the scope of its seeds."

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        scope = config.get("SCOPE")
        if not isinstance(scope, Scope):
            raise ConfigurationError(f"SCOPE must be a Scope, not {scope!r}")
        return cls(scope)

    def apply(self, url: str) -> str | None:
        return url if self._scope.allows(url) else None


class FilterVerdict(NamedTuple):
    """The result of one filter: `url` is the URL, perhaps rewritten; None if the filter drops it."""

    name: str
    url: str | None
    why: str


class FilterChain:
    """Applies filters in order; each filter gets the result of the previous filter."""

    def __init__(self, filters: Iterable[URLFilter]) -> None:
        self._filters = tuple(filters)

    @classmethod
    def from_config(cls, config: Mapping[str, object], filters: Iterable[type[URLFilter]]) -> Self:
        """Creates a chain of filter classes from a configuration."""
        return cls(each.from_config(config) for each in filters)

    def apply(self, url: str) -> str | None:
        """Returns the URL to crawl, or None as soon as a filter drops it."""
        result: str | None = url
        for each in self._filters:
            result = each.apply(url)
            if result is None:
                return None
            url = result
        return result

    def verdicts(self, url: str) -> list[FilterVerdict]:
        """Returns the verdict of each filter, even of filters after the first that drops the URL."""
        verdicts = []
        for each in self._filters:
            result = each.apply(url)
            verdicts.append(FilterVerdict(type(each).__name__, result, each.why))
            url = url if result is None else result
        return verdicts


def _repeats(segments: Sequence[str], times: int) -> bool:
    """Whether a run of `period` segments, for any period, occurs `times` times in a row.

    If so, period * (times - 1) consecutive segments each equal the segment one period later.
    """
    for period in range(1, min(len(segments) // times, _LONGEST_RUN) + 1):
        equal = 0
        for segment, later in zip(segments, segments[period:], strict=False):
            equal = equal + 1 if segment == later else 0
            if equal == period * (times - 1):
                return True
    return False


def _not_negative(name: str, number: int) -> int:
    if number < 0:
        raise ConfigurationError(f"{name} must not be negative, but is {number}")
    return number


@lru_cache(maxsize=8)
def _patterns(name: str, texts: tuple[str, ...]) -> Patterns:
    """Returns the compiled expressions of a list, cached because a crawl makes several chains of filters."""
    return Patterns(_expression(name, text) for text in texts)


def _expression(name: str, text: str) -> re.Pattern[str]:
    try:
        return expression(text)
    except re.error as error:
        raise ConfigurationError(f"{name}: {text!r} is not a regular expression: {error}") from None
