"""The setting RENDER: selects the pages that a browser renders, by host and by URL pattern."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Generic, TypeVar

from webcrawl.errors import ConfigurationError, InvalidURL
from webcrawl.urls.canonical import DEFAULT_PORTS, authority, hostname, is_address, normalize, port, split

T = TypeVar("T")

_ALL = "*"
_SCHEMES = ("http", "https")
_HOST = re.compile(r"(?P<name>\[[^\]]*\]|[^:\[\]@#?\\\s]+)(?::(?P<port>[0-9*]*))?")


class RenderRules:
    """Hosts ("example.org" with its subdomains, "*.example.org", "example.org:8080") and URL patterns.

    In a pattern ("https://example.org/app/*"), "*" matches any text and no other character is special. Hosts and
    patterns may contain capital letters and characters that URLs encode. Raises ConfigurationError for a rule that
    cannot match any URL.
    """

    def __init__(self, rules: Iterable[str]) -> None:
        wanted = [rule.strip() for rule in rules if rule.strip()]
        self._hosts = {_host(rule) for rule in wanted if "/" not in rule}
        patterns = [pattern for rule in wanted if "/" in rule for pattern in _patterns(rule)]
        self._patterns = re.compile("|".join(patterns)) if patterns else None

    def apply(self, url: str) -> bool:
        """Returns whether a URL should be rendered."""
        if self._patterns and self._patterns.fullmatch(url):
            return True
        name, before = hostname(url).removesuffix("."), [""]
        after = ["", f":{port(url)}"]
        while name:
            if any(f"{start}{name}{end}" in self._hosts for start in before for end in after):
                return True
            name, before = name.partition(".")[2], ["", "*."]
        return False


class RuleTable(Generic[T]):
    """Values by rule: hosts and URL patterns as in RENDER, or "*" for all pages. The first match counts.

    Raises ConfigurationError, which names `setting`, for a rule that matches no page.
    """

    def __init__(self, setting: str, values: Mapping[str, T]) -> None:
        self._rules: list[tuple[RenderRules | None, T]] = []
        for rule, value in values.items():
            try:
                self._rules.append((None if rule == _ALL else RenderRules([rule]), value))
            except ConfigurationError as error:
                raise ConfigurationError(str(error).replace("RENDER", setting, 1)) from error

    def of(self, url: str, default: T) -> T:
        """Returns the value for a normalized URL; `default` if no rule matches."""
        return next((value for rules, value in self._rules if rules is None or rules.apply(url)), default)


def _host(rule: str) -> str:
    below = "*." if rule.startswith("*.") else ""
    is_ipv6 = rule.count(":") > 1 and not rule.startswith("[")
    host_match = _HOST.fullmatch(f"[{rule}]" if is_ipv6 else rule.removeprefix("*."))
    if host_match is None or "*" in host_match[0]:
        raise _refused(rule, "it is neither a host nor a URL pattern such as 'https://example.org/app/*'.")
    name = hostname(f"http://{_name(rule, host_match['name'])}/")
    if below and is_address(name):
        raise _refused(rule, "an IP address has no subdomains.")
    return f"{below}{name}:{int(host_match['port'])}" if host_match["port"] else below + name


def _patterns(rule: str) -> Iterator[str]:
    """Yields a regular expression for each scheme that a pattern matches."""
    start, mark, rest = rule.partition("://")
    schemes = [scheme for scheme in _SCHEMES if mark and fnmatchcase(scheme, start.lower())]
    host, slash, path = rest.partition("/")
    host_match = _HOST.fullmatch(host)
    if not schemes or host_match is None:
        raise _refused(rule, "a pattern begins with a scheme and a host, such as '*://*.example.org/'.")
    if not slash and not host.endswith("*"):
        raise _refused(rule, f"it matches no page. Write {rule + '/*'!r} for all pages of the host.")
    if "#" in path:
        raise _refused(rule, "URLs are fetched without their fragment. Remove '#' and what follows it.")
    for scheme in schemes:
        name, number = _name(rule, host_match["name"]), host_match["port"]
        name += f":{number}" if number and number != str(DEFAULT_PORTS[scheme]) else ""
        rest = split(normalize(f"{scheme}://host/{path}"))[1] if slash else ""
        yield re.escape(f"{scheme}://{name}{rest}").replace(r"\*", ".*")


def _name(rule: str, name: str) -> str:
    """Returns a host in the form that URLs have; only an ASCII host may contain "*"."""
    if "*" in name and name.isascii():
        return name.lower()
    try:
        if "*" not in name:
            return authority(normalize(f"http://{name}/")).removesuffix(".")
    except InvalidURL:
        pass
    raise _refused(rule, f"{name!r} is not a host.")


def _refused(rule: str, why: str) -> ConfigurationError:
    return ConfigurationError(f"RENDER {rule!r}: {why}")
