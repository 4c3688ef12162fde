"""Rules by which a URL becomes a simpler URL that may show the same page.

    rule              from                              to
    /shop/#?session   https://a.org/shop/12?session=x   https://a.org/shop/12
    /index.html       https://a.org/b/index.html        https://a.org/b/
    /                 https://a.org/b/                  https://a.org/b
    www.              https://www.a.org/b               https://a.org/b
    http:             http://a.org/b                    https://a.org/b

A rule about a parameter applies to one `url_pattern` of paths, because the name may mean something else elsewhere, or
to all paths, as in "*?session". `scrapy host` shows these names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from webcrawl.policies.url_patterns import url_pattern

INDEX, SLASH, WWW, HTTP = "/index.html", "/", "www.", "http:"
ANYWHERE = "*"
"""The pattern that stands for all paths."""
HOST_RULES = (WWW, HTTP)

_INDEX_PAGE = re.compile(
    r"(?<=/)(?:index\.(?:html?|php|jsp|aspx?)|default\.(?:html?|aspx?))\Z", re.IGNORECASE
)
_MOST_PARAMETERS = 8
_LONGEST_NAME = 64


class Variant(NamedTuple):
    """The path and query that one rule makes; `value` is the value of the dropped parameter."""

    rule: str
    path: str
    value: str = ""


class Reduced(NamedTuple):
    """A URL to which rules were applied, and the names of these rules."""

    host: str
    path: str
    rules: Sequence[str]


def variants(path: str) -> list[Variant]:
    """Returns the variants that the rules make of a path and query."""
    bare, mark, query = path.partition("?")
    if not mark:
        return [Variant(rule, shorter) for rule in (INDEX, SLASH) if (shorter := without_ending(rule, path))]
    fields = query.split("&")
    if len(fields) > _MOST_PARAMETERS:
        return []
    pattern = url_pattern(bare)
    return [
        Variant(parameter_rule(pattern, name), without_parameters(path, {name}), value)
        for name, value in parameters(query)
    ]


def parameter_rule(pattern: str, name: str) -> str:
    """Returns the name of a rule that drops a parameter."""
    return f"{pattern}?{name}"


def parameters(query: str) -> list[tuple[str, str]]:
    """Returns the names and values of the parameters that occur once in a query."""
    pairs = [field.partition("=")[::2] for field in query.split("&") if field]
    names = [name for name, _ in pairs]
    return [pair for pair in pairs if len(pair[0]) <= _LONGEST_NAME and names.count(pair[0]) == 1]


def without_parameters(path: str, names: set[str]) -> str:
    """Returns path and query without these parameters."""
    bare, _, query = path.partition("?")
    kept = [field for field in query.split("&") if field.partition("=")[0] not in names]
    return f"{bare}?{'&'.join(kept)}" if kept else bare


def without_ending(rule: str, path: str) -> str | None:
    """Returns a path without the name of the index page, or without its final slash; None if it has neither."""
    if rule == INDEX:
        match = _INDEX_PAGE.search(path)
        return path[: match.start()] if match else None
    return path[:-1] if len(path) > 1 and path.endswith("/") else None


def simpler_host(rule: str, host: str) -> str | None:
    """Returns a host without "www.", or with https unless it has a port; None if that changes nothing."""
    scheme, mark, name = host.partition("://")
    if rule == WWW:
        return f"{scheme}{mark}{name.removeprefix(WWW)}" if name.startswith(WWW) else None
    return f"https://{name}" if scheme == "http" and ":" not in name else None


@lru_cache(maxsize=1 << 12)
def site_of(host: str) -> str:
    """Returns the site of a host; hosts that differ only by the rules for hosts share a site.

    A site is a name, or scheme, name and port.
    """
    scheme, mark, name = host.partition("://")
    name = name.removeprefix(WWW)
    return f"{scheme}{mark}{name}" if ":" in name or scheme not in ("http", "https") else name


def hosts_of(site: str) -> list[str]:
    """Returns the hosts of a site, the simplest first; reverses `site_of`."""
    scheme, mark, name = site.rpartition("://")
    schemes = [scheme] if mark else ["https", "http"]
    return [f"{scheme}://{prefix}{name}" for scheme in schemes for prefix in ("", WWW)]


def kind_of(host: str) -> int:
    """Returns the number of a host within its site: the sum of 1 for "www." and 2 for http."""
    scheme, _, name = host.partition("://")
    return int(name.startswith(WWW)) + 2 * int(scheme == "http")
