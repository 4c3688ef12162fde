"""The rules of a large robots.txt, read and matched in bounded time.

Protego reads 34,000 rules in 0.4 s and compares each URL with all of them. Here reading is one pass over the lines, and
a URL is compared only with rules that share three characters in a row with it. The verdicts are Protego's, whose rules
of quoting and precedence are kept: the longest pattern counts (RFC 9309, section 2.2.2), and of equal ones `allow`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote, urlsplit

from protego import Protego

MOST_CHECKS = 2_000
"""Patterns that a URL is compared with, which takes up to 3 ms; a URL that needs more counts as disallowed."""
_MOST_DELAYS = 100
_GRAM = 3
_CHOICES = 8
_PATTERNS_PER_BUCKET = 8

_DISALLOW = frozenset({"disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw"})
_SITEMAP = frozenset({"sitemap", "sitemaps", "site-map"})
_DELAYS = frozenset({"crawl-delay", "crawl delay", "request-rate", "request rate"})
_FIELDS = _DISALLOW | _SITEMAP | _DELAYS | {"allow", "user-agent"}

_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")
_PLAIN_PATTERN = re.compile(r"[A-Za-z0-9_.~/=*-]+\$?")
_IN_URL = frozenset({b"2F", b"25"})
_IN_PATTERN = frozenset({b"2F", b"25", b"2A"})


class LargeRobots:
    """Reads normalized lines, as `webcrawl.hosts.robots` makes them; has the part of Protego's interface that is used.

    An agent is a product token as in the lines, "webcrawl!".
    """

    def __init__(self, text: str) -> None:
        self.sitemaps: list[str] = []
        self._groups: dict[str, _Group] = {}
        current: list[_Group] = []
        has_rules = False
        for line in text.split("\n"):
            field, value = _directive(line)
            if field in _SITEMAP:
                if value:
                    self.sitemaps.append(value)
            elif field == "user-agent":
                if has_rules:
                    current, has_rules = [], False
                if value:
                    group = self._groups.setdefault(value.lower(), _Group())
                    if group not in current:
                        current.append(group)
            else:
                has_rules = has_rules or bool(field)
                for group in current if value else ():
                    group.add(field, value)

    def can_fetch(self, url: str, agent: str) -> bool:
        """Returns whether the agent may fetch a normalized URL."""
        if "/robots.txt" in url and urlsplit(url).path == "/robots.txt":
            return True
        group = self.group(agent)
        return group is None or group.rules.allow(_path(url))

    def crawl_delay(self, agent: str) -> float | None:
        """Returns the seconds of Crawl-delay, or None."""
        group = self.group(agent)
        return group.delays.crawl_delay("*") if group else None

    def request_rate(self, agent: str) -> Any:
        """Returns Protego's RequestRate, or None."""
        group = self.group(agent)
        return group.delays.request_rate("*") if group else None

    def group(self, agent: str) -> _Group | None:
        """Returns the group of lines for an agent, or that for all agents."""
        return self._groups.get(agent) or self._groups.get("*")


class _Group:
    """The lines for one agent; its rules are sorted at first use."""

    def __init__(self) -> None:
        self._rules: list[tuple[bool, str]] = []
        self._delays: list[str] = []
        self._sorted: _Rules | None = None
        self._read: Protego | None = None

    def add(self, field: str, value: str) -> None:
        if field == "allow" or field in _DISALLOW:
            self._rules.append((field == "allow", value))
        elif field in _DELAYS:
            self._delays.append(f"{field}: {value}")

    @property
    def rules(self) -> _Rules:
        if self._sorted is None:
            self._sorted, self._rules = _Rules(self._rules), []
        return self._sorted

    @property
    def delays(self) -> Protego:
        if self._read is None:
            self._read = Protego.parse("\n".join(["User-agent: *", *self._delays[-_MOST_DELAYS:]]))
        return self._read


class _Rules:
    """Patterns by the way in which they match: as a prefix, as the whole path, and with "*".

    A pattern with "*" is in one of the buckets of three characters of its longest part, the emptiest. Python's hash of
    them differs from process to process, so that nobody can choose patterns of one bucket.
    """

    def __init__(self, rules: Iterable[tuple[bool, str]]) -> None:
        self._prefixes: dict[str, bool] = {}
        self._whole: dict[str, bool] = {}
        self._starred: dict[str, bool] = {}
        for allow, value in rules:
            for pattern, allowed in _patterns(value, allow):
                self._add(pattern, allowed)
        self._lengths = sorted({len(prefix) for prefix in self._prefixes}, reverse=True)
        self._mask = (1 << (len(self._starred) // _PATTERNS_PER_BUCKET).bit_length()) - 1
        self._buckets: list[list[str]] = [[] for _ in range(self._mask + 1)]
        self._everywhere: list[str] = []
        for pattern in self._starred:
            part = max(pattern.removesuffix("$").split("*"), key=len)
            if len(part) < _GRAM:
                self._everywhere.append(pattern)
            else:
                min(self._buckets_of(part, _CHOICES), key=len).append(pattern)

    def allow(self, path: str) -> bool:
        """Returns the verdict of the longest pattern that matches; True if none does."""
        best, allowed = self._best_plain(path)
        if not self._starred:
            return allowed
        numbers = {hash(path[start : start + _GRAM]) & self._mask for start in range(len(path) - _GRAM + 1)}
        checks = 0
        for patterns in (self._everywhere, *map(self._buckets.__getitem__, numbers)):
            for pattern in patterns:
                length = len(pattern)
                if length < best or (length == best and (allowed or not self._starred[pattern])):
                    continue
                checks += 1
                if checks > MOST_CHECKS:
                    return False
                if _matches(pattern, path):
                    best, allowed = length, self._starred[pattern]
        return allowed

    def _buckets_of(self, part: str, most: int) -> list[list[str]]:
        starts = range(len(part) - _GRAM + 1)[:: max(1, (len(part) - _GRAM) // most)]
        return [self._buckets[hash(part[start : start + _GRAM]) & self._mask] for start in starts]

    def _add(self, pattern: str, allow: bool) -> None:
        if "*" in pattern:
            table = self._starred
        elif pattern.endswith("$"):
            table, pattern = self._whole, pattern[:-1]
        else:
            table = self._prefixes
        table[pattern] = allow or table.get(pattern, False)

    def _best_plain(self, path: str) -> tuple[int, bool]:
        if path in self._whole:
            return len(path) + 1, self._whole[path]
        for length in self._lengths:
            if length <= len(path) and (prefix := path[:length]) in self._prefixes:
                return length, self._prefixes[prefix]
        return -1, True


def deciding_line(text: str, url: str, agent: str) -> str:
    """Returns the line of normalized ones that decides about a normalized URL; empty if none does."""
    path, best, decides = _path(url), (-1, False), ""
    for line in _lines_for(text, agent):
        field, value = _directive(line)
        for pattern, allowed in _patterns(value, field == "allow"):
            if (len(pattern), allowed) > best and _covers(pattern, path):
                best, decides = (len(pattern), allowed), line
    return decides


def _lines_for(text: str, agent: str) -> list[str]:
    """Returns the lines with rules of an agent, or those for all agents."""
    groups: dict[str, list[str]] = {}
    current: set[str] = set()
    has_rules = False
    for line in text.split("\n"):
        field, value = _directive(line)
        if field == "user-agent":
            current, has_rules = set() if has_rules else current, False
            if value:
                current.add(value.lower())
                groups.setdefault(value.lower(), [])
        elif field not in _SITEMAP:
            has_rules = has_rules or bool(field)
            if value and (field == "allow" or field in _DISALLOW):
                for name in current & {agent, "*"}:
                    groups[name].append(line)
    return groups.get(agent, groups.get("*", []))


def _covers(pattern: str, path: str) -> bool:
    if "*" in pattern:
        return _matches(pattern, path)
    return path == pattern[:-1] if pattern.endswith("$") else path.startswith(pattern)


def _directive(line: str) -> tuple[str, str]:
    """Returns the field of a line in lower case and its value; ("", "") if it has no known field.

    Like Protego, it also reads "Disallow /path", without a colon.
    """
    name, colon, value = line.partition(":")
    field = name.strip().lower()
    if field in _FIELDS:
        if colon:
            return field, value.strip()
    elif colon and (not value or value[0].isspace()):
        return field, ""
    words = line.split()
    for count in (1, 2):
        field = " ".join(words[:count]).lower()
        if field in _FIELDS:
            return field, " ".join(words[count:])
    return name, ""


def _patterns(value: str, allow: bool) -> list[tuple[str, bool]]:
    """Returns the patterns of a rule. As in Protego, "$" may also stand for itself, and /index.html for its folder."""
    pattern = _quoted_pattern(value)
    found = [(pattern, allow)] if pattern else []
    if "$" in value and (literal := _quoted_pattern(value.replace("$", "%24"))):
        found += _folder(literal, allow)
        found.append((literal, allow))
    return found + _folder(pattern, allow)


def _folder(pattern: str, allow: bool) -> list[tuple[str, bool]]:
    return (
        [(pattern.removesuffix("index.html") + "$", True)]
        if allow and pattern.endswith("/index.html")
        else []
    )


def _quoted_pattern(pattern: str) -> str:
    if _PLAIN_PATTERN.fullmatch(pattern):
        return pattern
    if pattern.startswith(("https://", "http://")):
        pattern = f"/{pattern}"
    anchor = "$" if pattern.endswith("$") else ""
    return quote(_unquoted(pattern.removesuffix("$"), _IN_PATTERN), safe="/%*=") + anchor


def _path(url: str) -> str:
    """Returns path and query of a URL, quoted like patterns."""
    parts = urlsplit(url.partition("#")[0])
    path = f"{parts.path}?{parts.query}" if "?" in url else parts.path
    path = quote(_unquoted(path, _IN_URL), safe="/%=")
    return path if path.startswith("/") else f"/{path}"


def _unquoted(text: str, kept: frozenset[bytes]) -> str:
    """Decodes all escapes but those of `kept`, which are written in upper case."""

    def decoded(escape: re.Match[bytes]) -> bytes:
        digits = escape[1].upper()
        return b"%" + digits if digits in kept else bytes.fromhex(digits.decode())

    return _ESCAPE.sub(decoded, text.encode()).decode("utf-8", "replace") if "%" in text else text


def _matches(pattern: str, path: str) -> bool:
    """Returns whether a pattern with "*" matches; each part is searched once, from left to right."""
    to_the_end = pattern.endswith("$")
    first, *parts, last = (pattern[:-1] if to_the_end else pattern).split("*")
    if not path.startswith(first):
        return False
    place = len(first)
    for part in parts:
        found = path.find(part, place)
        if found < 0:
            return False
        place = found + len(part)
    if to_the_end:
        return len(path) - len(last) >= place and path.endswith(last)
    return path.find(last, place) >= 0
