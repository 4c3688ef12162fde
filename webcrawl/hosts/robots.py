"""The policy of a robots.txt (RFC 9309), and a cache of policies.

`webcrawl.hosts.robots_rules` matches the rules as Protego does. Where that is more lenient than the RFC, the text is
normalized first: only CR and LF end a line, octets outside ASCII are compared
percent-encoded, a user-agent line names a whole product token, and unknown records are ignored.
"""

from __future__ import annotations

import re
import time
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, Self, get_args
from urllib.parse import urljoin, urlsplit

import msgpack
from cachetools import LRUCache

from webcrawl.errors import StoreError
from webcrawl.hosts.robots_rules import RobotsRules, deciding_line
from webcrawl.hosts.usage_preferences import preference_rules

Verdict = Literal["parsed", "allow-all", "disallow-all"]

MAX_BYTES = 500 * 1024
"""Bytes of a robots.txt that are read: the minimum of RFC 9309 section 2.5, and Google's maximum."""

LARGE = 32 * 1024
"""Characters above which rules are read in a thread."""

TTL = 24 * 3600.0
"""How long a policy may be used, in seconds; RFC 9309 section 2.4 allows a day."""

TTL_UNREACHABLE = 300.0
"""How long until an unreachable robots.txt is fetched again, in seconds; one bad minute must not cost a day."""

_FORMAT = 1
TOKEN = r"[A-Za-z0-9_-]+"
# Ends each product token, so that a token is compared as a whole: for Protego, "web" would match "webcrawl".
_END = "!"
_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(r"\r\n|\r|\n")
# Octets that RFC 9309 percent-encodes, and octets that str.splitlines takes for line ends.
_ENCODED = re.compile(rb"[\x0b\x0c\x1c-\x1e\x80-\xff]")
_AGENT_LINE = re.compile(r"user[- ]?agent\s*(?::|\s|$)\s*(.*)", re.IGNORECASE)
_RULE_LINE = re.compile(
    r"(?:allow|dis?al?low|diss?all?ow|diasllow|disallaw|site-?maps?|crawl[- ]delay|request[- ]rate)(?:\s|:)",
    re.IGNORECASE,
)
_COMPATIBLE = re.compile(rf"mozilla/\S*\s*\(compatible;\s*({TOKEN})", re.IGNORECASE)


@lru_cache(maxsize=1024)
def product_token(user_agent: str) -> str:
    """Returns the crawler's name in robots.txt, in lower case.

    "webcrawl/0.1 (+https://example.org/bot)" -> "webcrawl"; "Mozilla/5.0 (compatible; webcrawl/0.1)" -> "webcrawl".
    """
    match = _COMPATIBLE.match(user_agent) or re.match(rf"\s*({TOKEN})", user_agent)
    return match[1].lower() if match else ""


def robots_url(host: str) -> str:
    """Returns the URL of the robots.txt of a host ("https://example.org")."""
    return f"{host}/robots.txt"


@dataclass(frozen=True)
class RobotsPolicy:
    """The rules of one host's robots.txt for all user agents, parsed at first use.

    `rules` is the normalized text, empty unless the verdict is "parsed". `url` is where the file was, after redirects.
    """

    verdict: Verdict
    rules: str = ""
    url: str = ""

    @classmethod
    def from_response(cls, status: int | None, body: bytes, *, url: str) -> RobotsPolicy:
        """Returns the policy for the response to GET /robots.txt after redirects; status None means no response.

        RFC 9309 section 2.3.1: an unavailable robots.txt (4xx, endless redirects) allows everything, an unreachable
        one (5xx, no response) disallows everything. 429 counts as unreachable.
        """
        if status is not None and 200 <= status < 300:
            return cls("parsed", normalized_robots(body), url)
        if status is not None and 300 <= status < 500 and status != 429:
            return cls("allow-all", url=url)
        return cls("disallow-all", url=url)

    @property
    def ttl(self) -> float:
        """How long after the response this policy may be used, in seconds."""
        return TTL_UNREACHABLE if self.verdict == "disallow-all" else TTL

    def allows(self, url: str, user_agent: str) -> bool:
        """Whether a user agent (token or full header) may fetch a normalized URL; /robots.txt is always allowed."""
        if self.verdict == "parsed":
            return self._parsed.can_fetch(url, product_token(user_agent) + _END)
        return self.verdict == "allow-all" or urlsplit(url).path == "/robots.txt"

    def has_groups(self, names: Iterable[str]) -> bool:
        """Whether each of the names, as they are in `rules`, has a group of its own."""
        return self._parsed.has_groups(names)

    def groups(self, names: tuple[str, ...]) -> list[str]:
        """Returns those of the names, as they are in `rules`, that have a group of their own, each group once."""
        return self._parsed.distinct(names) if self.verdict == "parsed" else []

    def allows_group(self, url: str, name: str) -> bool:
        """Whether the rules of a group with a name as in `rules` allow a normalized URL."""
        return self._parsed.can_fetch(url, name)

    def deciding_line(self, url: str, user_agent: str) -> str:
        """Returns the line that allows or disallows a URL; empty if no line does.

        Slow: reads the text again and compares the URL with each rule, for people who ask about a URL.
        """
        if urlsplit(url).path == "/robots.txt":
            return ""
        return deciding_line(self.rules, url, product_token(user_agent) + _END)

    def crawl_delay(self, user_agent: str) -> float | None:
        """Returns the seconds between two requests: the larger of Crawl-delay and Request-rate; None without either."""
        agent = product_token(user_agent) + _END
        delays = [self._parsed.crawl_delay(agent)]
        if rate := self._parsed.request_rate(agent):
            with suppress(OverflowError):  # numbers with hundreds of digits
                delays.append(rate.seconds / rate.requests)
        return max((delay for delay in delays if delay is not None), default=None)

    @cached_property
    def sitemaps(self) -> tuple[str, ...]:
        """The absolute http(s) URLs of the Sitemap lines, each once, in order."""
        urls = dict.fromkeys(_joined(self.url, sitemap) for sitemap in self._parsed.sitemaps)
        return tuple(url for url in urls if url.startswith(("http://", "https://")))

    @property
    def is_large(self) -> bool:
        """Whether `prepare` takes so long that it should run in a thread."""
        return len(self.rules) > LARGE

    def prepare(self, user_agent: str, groups: tuple[str, ...] = ()) -> Self:
        """Reads the rules for a user agent, and the groups with these names, now; returns the policy."""
        # asks for "/", because /robots.txt is allowed without a look at the rules
        self.allows(urljoin(self.url, "/"), user_agent)
        for name in self.groups(groups):
            self.allows_group(urljoin(self.url, "/"), name)
        return self

    @cached_property
    def _parsed(self) -> RobotsRules:
        return RobotsRules(self.rules)

    def to_bytes(self) -> bytes:
        """Returns a compact form for a shared cache."""
        packed: bytes = msgpack.packb([_FORMAT, self.verdict, self.url, zlib.compress(self.rules.encode())])
        return packed

    @classmethod
    def from_bytes(cls, data: bytes) -> RobotsPolicy:
        """Reads the form that `to_bytes` returns; raises StoreError if the data is damaged or of another version."""
        try:
            version, verdict, url, rules = msgpack.unpackb(data)
            if version != _FORMAT or verdict not in get_args(Verdict) or not isinstance(url, str):
                raise ValueError("unknown content")
            inflate = zlib.decompressobj()
            # bounded, because other processes wrote the data
            text = inflate.decompress(rules, 4 * MAX_BYTES).decode("ascii")
            if not inflate.eof:
                raise ValueError("cut short or too long")
        except (ValueError, TypeError, zlib.error, msgpack.UnpackException) as error:
            raise StoreError(f"a stored robots.txt policy is damaged: {error}") from error
        return cls(verdict, text, url)


class RobotsCache:
    """An LRU cache of the policies in this process that have not expired.

    It is bounded by hosts and by characters of rules, so that a few thousand enormous robots.txt do not fill the
    memory: once parsed, a character takes 12 to 32 bytes. `clock` returns seconds.
    """

    def __init__(
        self,
        max_hosts: int = 10_000,
        clock: Callable[[], float] = time.monotonic,
        max_characters: int = 4 * 1024 * 1024,
    ) -> None:
        self._max_hosts = max_hosts
        self._clock = clock
        self._policies: LRUCache[str, tuple[RobotsPolicy, float]]
        self._policies = LRUCache(max_characters, getsizeof=lambda known: len(known[0].rules))

    def __len__(self) -> int:
        return len(self._policies)

    def get(self, host: str) -> RobotsPolicy | None:
        """Returns the policy of a host ("https://example.org"), or None if it is unknown or expired."""
        known = self._policies.get(host)
        if known is None:
            return None
        policy, expires = known
        if self._clock() >= expires:
            del self._policies[host]
            return None
        return policy

    def put(self, host: str, policy: RobotsPolicy, ttl: float | None = None) -> None:
        """Keeps a policy for `ttl` seconds, by default its own TTL; a shared cache gives the remaining time."""
        self._policies.pop(host, None)
        if len(policy.rules) <= self._policies.maxsize:
            self._policies[host] = (policy, self._clock() + (policy.ttl if ttl is None else ttl))
        if len(self._policies) > self._max_hosts:
            self._policies.popitem()


def normalized_robots(body: bytes) -> str:
    """Returns the known lines of a robots.txt as ASCII, in a form that Protego matches as the RFC demands.

    Preferences about artificial intelligence are a group at the end.
    """
    text = _decoded(body)
    lines = "\n".join(filter(None, map(_normalized_line, _LINE_END.split(text))))
    return lines + preference_rules(text)


def _decoded(body: bytes) -> str:
    """Returns at most MAX_BYTES of whole lines, without byte order mark, octets outside ASCII percent-encoded."""
    if len(body) > MAX_BYTES:
        # cut at a line end, because half a rule may disallow or allow more than the whole rule
        body = body[: max(body.rfind(b"\n", 0, MAX_BYTES), body.rfind(b"\r", 0, MAX_BYTES)) + 1]
    if body.startswith((b"\xff\xfe", b"\xfe\xff")):
        body = body.decode("utf-16", "replace").encode("utf-8", "replace")
    # a damaged byte order mark must not hide the first user-agent line; Google does the same
    body = next((body[n:] for n in (3, 2, 1) if body.startswith(_BOM[:n])), body)
    return _ENCODED.sub(lambda octet: b"%%%02X" % octet[0][0], body).decode("ascii")


def _normalized_line(line: str) -> str:
    line = line.partition("#")[0].strip()
    if agent := _AGENT_LINE.match(line):
        if agent[1].startswith("*"):
            # "*" matches every crawler; "*bot" is no product token and matches none
            return "User-agent: *" if agent[1].split()[0] == "*" else "User-agent:"
        token = product_token(agent[1])
        return f"User-agent: {token}{_END}" if token else "User-agent:"
    return line if _RULE_LINE.match(line) else ""


def _joined(base: str, reference: str) -> str:
    try:
        return urljoin(base, reference)
    except ValueError:
        return ""  # "https://[" and the like
