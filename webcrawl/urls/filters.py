"""URL filters: what a crawl does not follow, one class a reason.

One contract: `apply(url)` returns the URL, a rewritten one, or None to drop it. A filter of your own is a
subclass of URLFilter with a sentence in `why`; put it into the list that `FilterChain.from_config` gets.
Filters see normalised URLs, in the chain's order, and are called for every link of every page.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, NamedTuple, Self, cast

from webcrawl.errors import ConfigurationError
from webcrawl.urls.canonical import DEFAULT_PORTS
from webcrawl.urls.scope import Scope

_LONGEST_RUN = 16
"""Segments in a run that repeats: without a bound a hostile URL costs the square of its length."""


class URLFilter(ABC):
    """One reason to drop or to rewrite a URL."""

    why: ClassVar[str]
    """A sentence for people: what the filter drops, and what for."""

    @abstractmethod
    def apply(self, url: str) -> str | None:
        """The URL to go on with, or None when it is not to be crawled."""

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        """A filter made from upper-case keys; ConfigurationError names the key whose value is wrong."""
        return cls()


class SchemeFilter(URLFilter):
    """Drops URLs of schemes that nobody fetches. Key: DOWNLOAD_HANDLERS."""

    why = "Only what DOWNLOAD_HANDLERS has a handler for can be crawled."

    def __init__(self, schemes: Iterable[str] = ("http", "https")) -> None:
        self._prefixes = tuple(f"{scheme}://" for scheme in schemes)

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        handlers = config.get("DOWNLOAD_HANDLERS") or {}
        # a settings object that is none of ours has it as a mapping too
        named = dict(cast("Mapping[str, object]", handlers))
        fetched = {"http": True, "https": True, **named}
        return cls(scheme for scheme, handler in fetched.items() if handler and scheme in DEFAULT_PORTS)

    def apply(self, url: str) -> str | None:
        return url if url.startswith(self._prefixes) else None


class LengthFilter(URLFilter):
    """Drops URLs longer than `limit` characters; 0 means no limit. Key: URLLENGTH_LIMIT."""

    why = "Very long URLs come from broken or endless link generators."

    def __init__(self, limit: int = 2083) -> None:
        self._limit = _not_negative("LengthFilter: limit", limit) or float("inf")

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        return cls(_integer(config, "URLLENGTH_LIMIT", 2083))

    def apply(self, url: str) -> str | None:
        return url if len(url) <= self._limit else None


class PatternFilter(URLFilter):
    """Drops URLs in which a `deny` expression is found, or none of `allow` if there are any.

    Keys: URL_ALLOW, URL_DENY, each a list of regular expressions, searched anywhere in the URL.
    """

    why = "The operator's own expressions say what to crawl."

    def __init__(self, allow: Iterable[str] = (), deny: Iterable[str] = ()) -> None:
        self._allow = [_expression("PatternFilter: allow", text) for text in allow]
        self._deny = [_expression("PatternFilter: deny", text) for text in deny]

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        lists = {key: _strings(config, key) for key in ("URL_ALLOW", "URL_DENY")}
        for key, texts in lists.items():
            for text in texts:
                _expression(key, text)  # Here the message can name the key.
        return cls(lists["URL_ALLOW"], lists["URL_DENY"])

    def apply(self, url: str) -> str | None:
        if any(expression.search(url) for expression in self._deny):
            return None
        if self._allow and not any(expression.search(url) for expression in self._allow):
            return None
        return url


class ExtensionFilter(URLFilter):
    """Drops URLs whose path ends in one of these extensions (in any case). Key: URL_DENY_EXTENSIONS."""

    why = "The operator does not want files of these kinds."

    def __init__(self, extensions: Iterable[str] = ()) -> None:
        self._endings = tuple("." + extension.lower().lstrip(".") for extension in extensions)
        if "." in self._endings:
            raise ConfigurationError("ExtensionFilter (URL_DENY_EXTENSIONS): an extension is empty")

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        words = [
            word
            for text in _strings(config, "URL_DENY_EXTENSIONS")
            for word in text.replace(",", " ").split()
        ]
        return cls(words)

    def apply(self, url: str) -> str | None:
        if self._endings and url.partition("?")[0].lower().endswith(self._endings):
            return None
        return url


class RepeatedSegmentsFilter(URLFilter):
    """Drops paths in which a run of segments repeats `times` times in a row; 0 means never.

    Key: URL_MAX_REPEATED_SEGMENTS.

    /a/b/a/b/a/b and /x/x/x are what relative links without end produce (Heritrix's
    PathologicalPathDecideRule).
    """

    why = "A path that repeats itself comes from a link that leads ever deeper into the same page."

    def __init__(self, times: int = 3) -> None:
        if _not_negative("RepeatedSegmentsFilter: times", times) == 1:
            raise ConfigurationError("RepeatedSegmentsFilter: times must be 0 (off) or at least 2")
        self._times = times

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        times = _integer(config, "URL_MAX_REPEATED_SEGMENTS", 3)
        if times == 1:
            raise ConfigurationError("URL_MAX_REPEATED_SEGMENTS must be 0 (off) or at least 2, not 1")
        return cls(times)

    def apply(self, url: str) -> str | None:
        times = self._times
        segments = url.partition("?")[0].split("/")[3:]
        # Without times - 1 repeated segments there is no run of them: true of nearly every URL.
        if not times or len(segments) - len(set(segments)) < times - 1:
            return url
        return None if _repeats(segments, times) else url


class QueryFilter(URLFilter):
    """Drops URLs with more than `maximum` query parameters; 0 means no limit. Key: URL_MAX_PARAMETERS."""

    why = "Queries with very many parameters are combinations of filters, not pages."

    def __init__(self, maximum: int = 20) -> None:
        self._maximum = _not_negative("QueryFilter: maximum", maximum)

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        return cls(_integer(config, "URL_MAX_PARAMETERS", 20))

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


class Verdict(NamedTuple):
    """What one filter says: `url` is None where it drops the URL, another one where it rewrites it."""

    name: str
    url: str | None
    why: str


class FilterChain:
    """Filters one after the other: each sees what the one before returned."""

    def __init__(self, filters: Iterable[URLFilter]) -> None:
        self._filters = tuple(filters)

    @classmethod
    def from_config(cls, config: Mapping[str, object], filters: Iterable[type[URLFilter]]) -> Self:
        """A chain of these classes, each made from the same configuration."""
        return cls(each.from_config(config) for each in filters)

    def apply(self, url: str) -> str | None:
        """The URL to crawl, or None as soon as a filter drops it."""
        result: str | None = url
        for each in self._filters:
            result = each.apply(url)
            if result is None:
                return None
            url = result
        return result

    def verdicts(self, url: str) -> list[Verdict]:
        """Every filter's verdict; those behind one that drops the URL are asked about it all the same."""
        verdicts = []
        for each in self._filters:
            result = each.apply(url)
            verdicts.append(Verdict(type(each).__name__, result, each.why))
            url = url if result is None else result
        return verdicts


def _repeats(segments: Sequence[str], times: int) -> bool:
    """Whether some run of segments, `period` long, occurs `times` times in a row.

    Then period * (times - 1) neighbouring segments each equal the one that is a period further on.
    """
    for period in range(1, min(len(segments) // times, _LONGEST_RUN) + 1):
        equal = 0
        for one, other in zip(segments, segments[period:], strict=False):
            equal = equal + 1 if one == other else 0
            if equal == period * (times - 1):
                return True
    return False


def _not_negative(name: str, number: int) -> int:
    if number < 0:
        raise ConfigurationError(f"{name} must not be negative, but is {number}")
    return number


def _expression(name: str, text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise ConfigurationError(f"{name}: {text!r} is no regular expression: {error}") from None


def _integer(config: Mapping[str, object], key: str, default: int) -> int:
    """An integer, also one written as text, as on a command line."""
    value = config.get(key, default)
    if isinstance(value, str) and re.fullmatch(r"\s*-?[0-9]+\s*", value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigurationError(f"{key} must be a whole number, not {value!r}")
    return _not_negative(key, value)


def _strings(config: Mapping[str, object], key: str) -> list[str]:
    """A list of strings, or a single one, as on a command line."""
    value = config.get(key) or ()
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, Iterable) or not all(isinstance(text, str) for text in texts):
        raise ConfigurationError(f"{key} must be a list of strings, not {value!r}")
    return list(texts)
