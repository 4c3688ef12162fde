"""What a site allows: robots.txt after RFC 9309, and the robots directives of a page.

The rules are matched by Protego. What it reads more generously than the RFC is put right before it parses
(`_normalised`): only CR and LF end a line, octets outside ASCII are compared percent-encoded, a user-agent line names
a whole product token, and records that nobody knows interfere with nothing.
"""

from __future__ import annotations

import re
import time
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cached_property, lru_cache
from typing import Literal, get_args
from urllib.parse import urljoin, urlsplit

import msgpack
from protego import Protego

from webcrawl.errors import StoreError

Verdict = Literal["parsed", "allow-all", "disallow-all"]

MAX_BYTES = 500 * 1024
"""How much of a robots.txt is read: what RFC 9309 section 2.5 asks for at least, and Google at most."""

TTL = 24 * 3600.0
"""Seconds a verdict may be used: RFC 9309 section 2.4 allows a day."""

TTL_UNREACHABLE = 300.0
"""Seconds until an unreachable robots.txt is asked for again: a host is not to be lost for a day to one bad minute."""

_FORMAT = 1
_TOKEN = r"[A-Za-z0-9_-]+"
# Ends every product token handed to Protego, so that its prefix match ("web" matches "webcrawl") becomes an exact one.
_END = "!"
_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(r"\r\n|\r|\n")
# Octets that RFC 9309 wants percent-encoded, and those where str.splitlines would see a line end that is none.
_ENCODED = re.compile(rb"[\x0b\x0c\x1c-\x1e\x80-\xff]")
_AGENT_LINE = re.compile(r"user[- ]?agent\s*(?::|\s|$)\s*(.*)", re.IGNORECASE)
_RULE_LINE = re.compile(
    r"(?:allow|dis?al?low|diss?all?ow|diasllow|disallaw|site-?maps?|crawl[- ]delay|request[- ]rate)(?:\s|:)",
    re.IGNORECASE,
)
_COMPATIBLE = re.compile(rf"mozilla/\S*\s*\(compatible;\s*({_TOKEN})", re.IGNORECASE)


@lru_cache(maxsize=1024)
def product_token(user_agent: str) -> str:
    """The name by which robots.txt knows a crawler, in lower case.

    "webcrawl/0.1 (+https://example.org/bot)" -> "webcrawl"; "Mozilla/5.0 (compatible; webcrawl/0.1)" -> "webcrawl".
    """
    match = _COMPATIBLE.match(user_agent) or re.match(rf"\s*({_TOKEN})", user_agent)
    return match[1].lower() if match else ""


def robots_url(host: str) -> str:
    """Where the rules of a host ("https://example.org") are."""
    return f"{host}/robots.txt"


@dataclass(frozen=True)
class RobotsPolicy:
    """What one host's robots.txt says, whoever asks; immutable, and parsed when first asked.

    `rules` is the normalised text (empty unless the verdict is "parsed"), `url` where it was found.
    """

    verdict: Verdict
    rules: str = ""
    url: str = ""

    @classmethod
    def from_response(cls, status: int | None, body: bytes, *, url: str) -> RobotsPolicy:
        """The policy that follows from the answer to GET /robots.txt, redirects followed; None is no answer at all.

        RFC 9309 section 2.3.1: what cannot be had for good (4xx, redirects without end) allows everything, what
        cannot be had now (5xx, no answer) forbids everything. 429 is a "not now" that happens to be a 4xx.
        """
        if status is not None and 200 <= status < 300:
            return cls("parsed", _normalised(body), url)
        if status is not None and 300 <= status < 500 and status != 429:
            return cls("allow-all", url=url)
        return cls("disallow-all", url=url)

    @property
    def ttl(self) -> float:
        """Seconds from the answer on during which this policy may be used."""
        return TTL_UNREACHABLE if self.verdict == "disallow-all" else TTL

    def allows(self, url: str, user_agent: str) -> bool:
        """Whether this user agent (token or full header) may fetch the normalised URL; /robots.txt itself always."""
        if self.verdict == "parsed":
            return self._parsed.can_fetch(url, product_token(user_agent) + _END)
        return self.verdict == "allow-all" or urlsplit(url).path == "/robots.txt"

    def crawl_delay(self, user_agent: str) -> float | None:
        """Seconds between two requests that the site asks for: the larger of Crawl-delay and Request-rate."""
        agent = product_token(user_agent) + _END
        delays = [self._parsed.crawl_delay(agent)]
        if rate := self._parsed.request_rate(agent):
            with suppress(OverflowError):  # a number of hundreds of digits is no rate
                delays.append(rate.seconds / rate.requests)
        return max((delay for delay in delays if delay is not None), default=None)

    @cached_property
    def sitemaps(self) -> tuple[str, ...]:
        """The absolute http(s) URLs of the Sitemap lines, each once, in their order."""
        found = dict.fromkeys(_joined(self.url, sitemap) for sitemap in self._parsed.sitemaps)
        return tuple(url for url in found if url.startswith(("http://", "https://")))

    @cached_property
    def _parsed(self) -> Protego:
        return Protego.parse(self.rules)

    def to_bytes(self) -> bytes:
        """A compact form for a shared cache."""
        packed: bytes = msgpack.packb([_FORMAT, self.verdict, self.url, zlib.compress(self.rules.encode())])
        return packed

    @classmethod
    def from_bytes(cls, data: bytes) -> RobotsPolicy:
        """The policy that `to_bytes` wrote; StoreError when the data is damaged or of another version."""
        try:
            version, verdict, url, rules = msgpack.unpackb(data)
            if version != _FORMAT or verdict not in get_args(Verdict) or not isinstance(url, str):
                raise ValueError("unknown content")
            inflate = zlib.decompressobj()
            text = inflate.decompress(rules, 4 * MAX_BYTES).decode(
                "ascii"
            )  # bounded: it may come from anywhere
            if not inflate.eof:
                raise ValueError("cut short or too long")
        except (ValueError, TypeError, zlib.error, msgpack.UnpackException) as error:
            raise StoreError(f"a stored robots.txt policy is damaged: {error}") from error
        return cls(verdict, text, url)


def _normalised(body: bytes) -> str:
    """The lines of a robots.txt that mean something to us, so that Protego reads them as the RFC does; ASCII."""
    return "\n".join(filter(None, map(_normalised_line, _LINE_END.split(_decoded(body)))))


def _decoded(body: bytes) -> str:
    """At most MAX_BYTES of whole lines, without byte order mark, octets outside ASCII percent-encoded."""
    if len(body) > MAX_BYTES:
        # Half a rule may forbid or allow more than the whole one: cut at a line end.
        body = body[: max(body.rfind(b"\n", 0, MAX_BYTES), body.rfind(b"\r", 0, MAX_BYTES)) + 1]
    if body.startswith((b"\xff\xfe", b"\xfe\xff")):
        body = body.decode("utf-16", "replace").encode("utf-8", "replace")
    # A mangled mark is still a mark, as Google reads it; the first user-agent line must not be lost to it.
    body = next((body[n:] for n in (3, 2, 1) if body.startswith(_BOM[:n])), body)
    return _ENCODED.sub(lambda octet: b"%%%02X" % octet[0][0], body).decode("ascii")


def _normalised_line(line: str) -> str:
    line = line.partition("#")[0].strip()
    if agent := _AGENT_LINE.match(line):
        if agent[1].startswith("*"):
            # "*" is everybody; "*bot" is no product token, and its rules are for nobody.
            return "User-agent: *" if agent[1].split()[0] == "*" else "User-agent:"
        token = product_token(agent[1])
        return f"User-agent: {token}{_END}" if token else "User-agent:"
    return line if _RULE_LINE.match(line) else ""


def _joined(base: str, reference: str) -> str:
    try:
        return urljoin(base, reference)
    except ValueError:
        return ""  # "https://[" and the like


class RobotsCache:
    """The policies of the hosts met last, in this process; one that is past its time is as good as unknown.

    Bounded by hosts and by characters of rules, so that a few thousand enormous robots.txt do not fill a worker: once
    parsed, a character takes 12 to 32 bytes of memory. `clock` gives seconds.
    """

    def __init__(
        self,
        max_hosts: int = 10_000,
        clock: Callable[[], float] = time.monotonic,
        max_characters: int = 4 * 1024 * 1024,
    ) -> None:
        self._max_hosts = max_hosts
        self._max_characters = max_characters
        self._clock = clock
        self._characters = 0
        self._policies: OrderedDict[str, tuple[RobotsPolicy, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._policies)

    def get(self, host: str) -> RobotsPolicy | None:
        """The policy of a host ("https://example.org"), if it is known and still good."""
        entry = self._policies.get(host)
        if entry is None:
            return None
        policy, expires = entry
        if self._clock() >= expires:
            self._remove(host)
            return None
        self._policies.move_to_end(host)
        return policy

    def put(self, host: str, policy: RobotsPolicy, ttl: float | None = None) -> None:
        """Keep a policy for its own `ttl`, or for what a shared cache says is left of it (seconds)."""
        self._remove(host)
        self._policies[host] = (policy, self._clock() + (policy.ttl if ttl is None else ttl))
        self._characters += len(policy.rules)
        while len(self._policies) > self._max_hosts or self._characters > self._max_characters:
            self._remove(next(iter(self._policies)))

    def _remove(self, host: str) -> None:
        entry = self._policies.pop(host, None)
        if entry is not None:
            self._characters -= len(entry[0].rules)


@dataclass(frozen=True, slots=True)
class Directives:
    """What a page says about itself: do not index it, do not follow its links, do not keep a copy."""

    noindex: bool = False
    nofollow: bool = False
    noarchive: bool = False


def directives(
    x_robots_tag: Iterable[str],
    meta: Iterable[tuple[str, str]],
    user_agent: str,
    *,
    now: datetime | None = None,
) -> Directives:
    """The directives of X-Robots-Tag header values and of <meta name content> pairs that concern this user agent.

    As search engines do, what is said to everybody and what is said to this agent add up. `unavailable_after` in the
    past (of `now`, by default the time of the call) is noindex.
    """
    token = product_token(user_agent)
    said: set[str] = set()
    for value in x_robots_tag:
        said.update(_said_to(token, value, "robots", now))
    for name, content in meta:
        said.update(_said_to(token, content, name.strip().lower(), now))
    return Directives(
        noindex=not said.isdisjoint({"noindex", "none"}),
        nofollow=not said.isdisjoint({"nofollow", "none"}),
        noarchive=not said.isdisjoint({"noarchive", "nocache"}),
    )


# One directive of a list, perhaps with the name of who is meant. A date may hold a comma that separates nothing
# ("Wed, 25 Jun 2025 15:00:00 GMT"), and some directives take a value after a colon and so look like a name.
_DIRECTIVE = re.compile(
    rf"\s*(?:(?!unavailable_after|max-)(?P<agent>{_TOKEN})\s*:)?\s*"
    r"(?:unavailable_after\s*:(?P<date>\s*(?:[a-z]{3,9},)?[^,]*)|(?P<word>[^,]*))(?:,|$)",
    re.IGNORECASE,
)


def _said_to(token: str, text: str, audience: str, now: datetime | None) -> Iterator[str]:
    """The directives of one list that are for everybody or for `token`; "name:" changes who is meant from there on."""
    for match in _DIRECTIVE.finditer(text):
        audience = (match["agent"] or audience).lower()
        if audience not in ("robots", token):
            continue
        if match["date"] is None:
            yield match["word"].strip().lower()
        elif _is_past(match["date"], now):
            yield "noindex"


def _is_past(date: str, now: datetime | None) -> bool:
    """Whether an RFC 822, RFC 850 or ISO 8601 date has passed; one that cannot be read has not."""
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = read(date.strip())
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
        return moment.replace(tzinfo=moment.tzinfo or UTC) <= (now or datetime.now(UTC))
    return False
