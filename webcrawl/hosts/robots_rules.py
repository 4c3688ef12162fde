"""The rules of a robots.txt, read and matched in bounded time.

Reading is one pass over the lines, and a URL is compared only with rules that may match it; Protego reads 34,000 rules
in 0.4 s and compares each URL with all of them. The verdicts are Protego's, with its rules of quoting and precedence:
the longest pattern counts (RFC 9309, section 2.2.2), and of equally long patterns `allow`. But other lines between two
user-agent lines do not end a group (section 2.2.4), while Crawl-delay does so in Protego. Protego itself reads
Crawl-delay and Request-rate.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from urllib.parse import quote, urlsplit

from protego import Protego, RequestRate

MOST_CHECKS = 2_000
"""The most patterns that a URL is compared with, which takes up to 3 ms; a URL that needs more is disallowed."""
_MOST_DELAYS = 100
_FEW = 1_000
"""The most patterns with "*" that are compared one by one; with more, an index by their characters is faster."""
_GRAM = 3
_CHOICES = 8
_PATTERNS_PER_BUCKET = 8

_DISALLOW = frozenset({"disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw"})
_RULES = _DISALLOW | {"allow"}
_SITEMAP = frozenset({"sitemap", "sitemaps", "site-map"})
_DELAYS = frozenset({"crawl-delay", "crawl delay", "request-rate", "request rate"})
_FIELDS = _RULES | _SITEMAP | _DELAYS | {"user-agent"}

_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")
_PLAIN_URL = re.compile(r"https?://[^/?#]*(/(?!/)[A-Za-z0-9_.~/=-]*)")
_PLAIN_PATTERN = re.compile(r"[A-Za-z0-9_.~/=*-]+\$?")
_IN_URL = frozenset({b"2F", b"25"})
_IN_PATTERN = frozenset({b"2F", b"25", b"2A"})

_Line = tuple[str, str, str]
"""A line of a group: its field in lower case, its value, and the whole line."""


class RobotsRules:
    """Reads normalized lines, as `webcrawl.hosts.robots` makes them.

    An agent is a product token as in the lines, "webcrawl!". The rules of an agent are indexed when it is first named.
    """

    __slots__ = ("_distinct", "_groups", "_lines", "sitemaps")

    def __init__(self, text: str) -> None:
        self._lines: dict[str, Sequence[_Line]]
        self._lines, self.sitemaps = _read(text)
        self._groups: dict[str, _Group] = {}
        self._distinct: dict[tuple[str, ...], list[str]] = {}

    def can_fetch(self, url: str, agent: str) -> bool:
        """Returns whether the agent may fetch a normalized URL."""
        if "/robots.txt" in url and urlsplit(url).path == "/robots.txt":
            return True
        return self._group(agent).patterns.allow(_path(url))

    def crawl_delay(self, agent: str) -> float | None:
        """Returns the seconds of Crawl-delay, or None."""
        return self._group(agent).crawl_delay

    def request_rate(self, agent: str) -> RequestRate | None:
        """Returns Request-rate, or None."""
        return self._group(agent).request_rate

    def has_groups(self, agents: Iterable[str]) -> bool:
        """Returns whether each of the agents has a group of its own."""
        return all(agent in self._lines for agent in agents)

    def distinct(self, agents: tuple[str, ...]) -> list[str]:
        """Returns the agents that have a group of their own, without those whose group repeats an earlier one."""
        if agents not in self._distinct:
            groups: dict[tuple[_Line, ...], str] = {}
            for agent in agents:
                if agent in self._lines:
                    groups.setdefault(tuple(self._lines[agent]), agent)
            self._distinct[agents] = list(groups.values())
        return self._distinct[agents]

    def _group(self, agent: str) -> _Group:
        """Returns the rules for an agent, or the rules for all agents."""
        name = agent if agent in self._lines else "*"
        if name not in self._groups:
            self._groups[name] = _Group(self._lines.get(name, ()))
            self._lines[name] = ()
        return self._groups[name]


class _Group:
    """The rules and delays for an agent."""

    __slots__ = ("crawl_delay", "patterns", "request_rate")

    def __init__(self, lines: Sequence[_Line]) -> None:
        self.patterns = _PatternIndex(
            (value, field == "allow") for field, value, _ in lines if field in _RULES
        )
        self.crawl_delay: float | None = None
        self.request_rate: RequestRate | None = None
        if delays := [line for field, _, line in lines if field in _DELAYS]:
            protego = Protego.parse("\n".join(["User-agent: *", *delays[-_MOST_DELAYS:]]))
            self.crawl_delay, self.request_rate = protego.crawl_delay("*"), protego.request_rate("*")


class _PatternIndex:
    """Patterns by how they match: as a prefix, as the whole path, or with "*".

    Up to _FEW patterns with "*" are compared one by one, the longest first. More patterns are put into buckets by three
    characters of their longest part, each into the emptiest of its possible buckets. A path is compared with the
    buckets of its characters. Python's hash differs between processes, so nobody can choose patterns of one bucket.
    """

    __slots__ = ("_buckets", "_everywhere", "_few", "_lengths", "_mask", "_prefixes", "_starred", "_whole")

    def __init__(self, rules: Iterable[tuple[str, bool]]) -> None:
        self._prefixes: dict[str, bool] = {}
        self._whole: dict[str, bool] = {}
        self._starred: dict[str, bool] = {}
        for value, allow in rules:
            for pattern, allowed in _patterns(value, allow):
                self._add(pattern, allowed)
        self._lengths = tuple(sorted({len(prefix) for prefix in self._prefixes}, reverse=True))
        self._few: tuple[_StarredPattern, ...] = ()
        self._mask = -1
        if len(self._starred) > _FEW:
            self._fill_buckets()
        elif self._starred:
            ranked = sorted(
                ((len(pattern), allow, pattern) for pattern, allow in self._starred.items()), reverse=True
            )
            self._few = tuple((length, allow, *_parts(pattern)) for length, allow, pattern in ranked)
            self._starred = {}

    def allow(self, path: str) -> bool:
        """Returns the verdict of the longest pattern that matches; True if no pattern does."""
        best, allowed = self._best_plain(path)
        for length, allow, first, parts, last, to_the_end in self._few:
            if length < best or (length == best and (allowed or not allow)):
                break
            if path.startswith(first) and _parts_follow(path, len(first), parts, last, to_the_end):
                return allow
        return self._verdict_of_buckets(path, best, allowed) if self._starred else allowed

    def _verdict_of_buckets(self, path: str, best: int, allowed: bool) -> bool:
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

    def _fill_buckets(self) -> None:
        self._mask = (1 << (len(self._starred) // _PATTERNS_PER_BUCKET).bit_length()) - 1
        self._buckets: list[list[str]] = [[] for _ in range(self._mask + 1)]
        self._everywhere: list[str] = []
        for pattern in self._starred:
            part = max(pattern.removesuffix("$").split("*"), key=len)
            if len(part) < _GRAM:
                self._everywhere.append(pattern)
            else:
                min(self._buckets_of(part, _CHOICES), key=len).append(pattern)

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
    """Returns the normalized line that decides about a normalized URL; empty if no line does."""
    path, best, decides = _path(url), (-1, False), ""
    groups, _ = _read(text)
    for field, value, line in groups.get(agent, groups.get("*", ())):
        for pattern, allowed in _patterns(value, field == "allow") if field in _RULES else ():
            if (len(pattern), allowed) > best and _covers(pattern, path):
                best, decides = (len(pattern), allowed), line
    return decides


def _read(text: str) -> tuple[dict[str, Sequence[_Line]], list[str]]:
    """Returns the lines with rules and delays of each agent, and the sitemaps.

    Only a rule ends the user-agent lines of a group (RFC 9309, section 2.2.4). A delay before that is for the agents
    that were named since the delay before.
    """
    groups: dict[str, list[_Line]] = {}
    sitemaps: list[str] = []
    current: dict[str, list[_Line]] = {}
    delayed: dict[str, list[_Line]] = {}
    has_rules = has_delays = False
    for line in text.split("\n"):
        field, value = _directive(line)
        if field in _SITEMAP:
            if value:
                sitemaps.append(value)
        elif field == "user-agent":
            if has_rules:
                current = {}
            if has_rules or has_delays:
                delayed, has_rules, has_delays = {}, False, False
            if value:
                current[value.lower()] = delayed[value.lower()] = groups.setdefault(value.lower(), [])
        elif field in _RULES:
            has_rules = True
            if value:
                for group in current.values():
                    group.append((field, value, line))
        elif field in _DELAYS:
            has_delays = True
            if value:
                for group in (current if has_rules else delayed).values():
                    group.append((field, value, line))
    return dict(groups), sitemaps


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
    patterns = [(pattern, allow)] if pattern else []
    if "$" in value and (literal := _quoted_pattern(value.replace("$", "%24"))):
        patterns += _folder(literal, allow)
        patterns.append((literal, allow))
    return patterns + _folder(pattern, allow) if allow else patterns


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
    if plain := _PLAIN_URL.fullmatch(url):
        return plain[1]
    parts = urlsplit(url.partition("#")[0])
    path = f"{parts.path}?{parts.query}" if "?" in url else parts.path
    path = quote(_unquoted(path, _IN_URL), safe="/%=")
    return path if path.startswith("/") else f"/{path}"


def _unquoted(text: str, kept: frozenset[bytes]) -> bytes:
    """Decodes all escapes except `kept`, which are written in upper case. The bytes need not be UTF-8."""

    def decoded(escape: re.Match[bytes]) -> bytes:
        digits = escape[1].upper()
        return b"%" + digits if digits in kept else bytes.fromhex(digits.decode())

    return _ESCAPE.sub(decoded, text.encode())


_StarredPattern = tuple[int, bool, str, tuple[str, ...], str, bool]
"""The length of a pattern with "*", whether it allows, and its parts."""


def _parts(pattern: str) -> tuple[str, tuple[str, ...], str, bool]:
    """Returns the first part of a pattern with "*", the parts between, the last, and whether the last ends the path."""
    to_the_end = pattern.endswith("$")
    first, *between, last = (pattern[:-1] if to_the_end else pattern).split("*")
    return first, tuple(filter(None, between)), last, to_the_end


def _matches(pattern: str, path: str) -> bool:
    """Returns whether a pattern with "*" matches."""
    first, between, last, to_the_end = _parts(pattern)
    return path.startswith(first) and _parts_follow(path, len(first), between, last, to_the_end)


def _parts_follow(path: str, start: int, between: tuple[str, ...], last: str, to_the_end: bool) -> bool:
    """Returns whether the parts follow each other from `start`; each is searched once, from left to right."""
    for part in between:
        part_start = path.find(part, start)
        if part_start < 0:
            return False
        start = part_start + len(part)
    if to_the_end:
        return len(path) - len(last) >= start and path.endswith(last)
    return path.find(last, start) >= 0
