"""The facts of a document, their limits, and their form between processes: MessagePack, never pickle."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, date, datetime
from typing import Any, NamedTuple, TypeAlias

import ada_url
import msgpack

from webcrawl.errors import ResourcesExhausted, UnreadableDocument

Json: TypeAlias = "str | int | float | bool | None | list[Json] | dict[str, Json]"

MAX_TITLE = 1_000
MAX_DESCRIPTION = 5_000
MAX_TEXT = 2_000_000
MAX_LINKS = 50_000
MAX_URL = 8_192
MAX_DETAILS = 16 * 1024
MAX_ERROR = 1_000

# The schemes of the download handlers; the URL filters know which schemes are enabled.
_FETCHED = ("http://", "https://", "ftp://")
# The limits of `details`, which is a column of a table.
_MAX_STRING = 1_000
_MAX_VALUES = 500
_DEEPEST = 6
_MAX_NUMBER = 2**63
_JSON = json.JSONEncoder(ensure_ascii=False)
# A check against the abstract class takes ten times as long as those before it.
_CONTAINERS = (dict, list, tuple, Mapping)


class Link(NamedTuple):
    """An absolute URL, and what the document says about it.

    modified   the time of its last change
    period     the seconds between two changes: `changefreq` of a sitemap
    rank       from 0 to 1: `priority` of a sitemap
    """

    url: str
    modified: datetime | None = None
    period: float | None = None
    rank: float | None = None


class SitemapLink(Link):
    """A link to a sitemap."""

    __slots__ = ()


@dataclass(slots=True, kw_only=True)
class Facts:
    """The facts of a document; None for a fact that the document lacks.

    language              the primary subtag of a BCP 47 tag in lower case
    published, modified   with a time zone
    text                  the visible text
    details               values that only documents of this type have, as JSON
    """

    title: str | None = None
    description: str | None = None
    language: str | None = None
    author: str | None = None
    published: datetime | None = None
    modified: datetime | None = None
    text: str | None = None
    links: list[Link] = field(default_factory=list)
    details: dict[str, Json] = field(default_factory=dict)


_STRINGS = {
    "title": MAX_TITLE,
    "description": MAX_DESCRIPTION,
    "language": 3,
    "author": MAX_TITLE,
    "text": MAX_TEXT,
}
_TIMES = ("published", "modified")
_NAMES = tuple(column.name for column in fields(Facts))


def absolute(addresses: Iterable[str], base: str) -> list[str]:
    """Returns the http, https and ftp URLs among the addresses, joined to `base`, in order and without duplicates."""
    urls: dict[str, None] = {}
    for address in addresses:
        if (url := join(base, address)) is not None:
            urls[url] = None
            if len(urls) == MAX_LINKS:
                break
    return list(urls)


def join(base: str, address: str) -> str | None:
    """Returns an address joined to `base`, or None if the result is not an http, https or ftp URL."""
    try:
        url: str = ada_url.join_url(base, address.strip())
    except ValueError:
        return None
    return url if url.startswith(_FETCHED) and len(url) <= MAX_URL else None


def collapsed(text: object, limit: int) -> str | None:
    """Returns a text as one line that databases accept, of at most `limit` characters; None for an empty text."""
    if not isinstance(text, str):
        return None
    if len(text) <= limit and "  " not in text and text.isprintable():  # as most are
        return text.strip() or None
    if len(text) > 4 * limit:
        text = text[: 4 * limit]
    return storable(" ".join(text.split())[:limit]).rstrip() or None


def storable(text: str) -> str:
    """Returns a text without NUL and lone surrogates, which databases refuse."""
    text = text.replace("\0", "\ufffd")
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def language(tag: object) -> str | None:
    """Returns the primary subtag of a language tag: "en" for "en-GB"."""
    primary = tag.strip().replace("_", "-").partition("-")[0].lower() if isinstance(tag, str) else ""
    return primary if 2 <= len(primary) <= 3 and primary.isascii() and primary.isalpha() else None


def pack(facts: Facts) -> bytes:
    """Returns facts as MessagePack, cut to their limits."""
    plain: dict[str, Any] = {name: collapsed(getattr(facts, name), most) for name, most in _STRINGS.items()}
    plain |= {name: _aware(getattr(facts, name)) for name in _TIMES}
    plain["links"] = [_short(link) for link in facts.links[:MAX_LINKS]]
    plain["details"] = trimmed(facts.details)
    return bytes(msgpack.packb(plain, datetime=True, unicode_errors="replace"))


def pack_error(why: str, *, exhausted: bool = False) -> bytes:
    """Returns why a document has no facts, in MessagePack; if `exhausted`, `unpack` raises ResourcesExhausted."""
    why = why[:MAX_ERROR]
    return bytes(msgpack.packb([why] if exhausted else why, unicode_errors="replace"))


def raise_error(plain: object) -> None:
    """Raises the error that `pack_error` has packed, if it is one."""
    match plain:
        case str(why):
            raise UnreadableDocument(why[:MAX_ERROR])
        case [str(why)]:
            raise ResourcesExhausted(why[:MAX_ERROR])


def unpack(data: bytes | bytearray) -> Facts:
    """Reverses `pack`; raises UnreadableDocument with the message of `pack_error`.

    Raises ValueError for any other bytes, because a document may have taken over the process that sent them.
    """
    try:
        plain = msgpack.unpackb(data, timestamp=3)
    except Exception as error:
        raise ValueError(f"not facts: {error}") from error
    raise_error(plain)
    if not isinstance(plain, dict) or plain.keys() != set(_NAMES):
        raise ValueError("not facts")
    for name, most in _STRINGS.items():
        if not (plain[name] is None or isinstance(plain[name], str) and len(plain[name]) <= most):
            raise ValueError(f"{name} is {type(plain[name]).__name__}, or too long")
    if not all(isinstance(plain[name], datetime | None) for name in _TIMES):
        raise ValueError("a time is not valid")
    links = plain["links"] = plain["links"] if isinstance(plain["links"], list) else []
    for index, parts in enumerate(links):  # changed in place, because a sitemap may have 25 MB of links
        links[index] = _link(parts)
    plain["details"] = trimmed(plain["details"] if isinstance(plain["details"], dict) else {})
    return Facts(**plain)


def _short(link: Link) -> tuple[Any, ...]:
    """Returns the fields of a link, without the last two if both are None, as in most links."""
    url, modified = link.url, _aware(link.modified)
    return (url, modified) if link.period is None is link.rank else (url, modified, link.period, link.rank)


def _link(parts: Any) -> Link:
    match parts:
        case [str(url), datetime() | None as modified] if len(url) <= MAX_URL:
            return Link(url, modified)
        case [str(url), datetime() | None as modified, float() | None as period, float() | None as rank] if (
            len(url) <= MAX_URL
        ):
            return Link(url, modified, period, rank)
    raise ValueError("a link is not valid")


def _aware(time: object) -> datetime | None:
    """Returns a time in UTC, its default zone; None if it is not a time or out of range."""
    if not isinstance(time, datetime):
        return None
    try:
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (OverflowError, ValueError):
        return None


def trimmed(details: Mapping[Any, Any]) -> dict[str, Json]:
    """Returns details as JSON of at most 500 values and `MAX_DETAILS` bytes of UTF-8.

    Empty values and values beyond the limits are left out, long texts are cut, dates become ISO 8601.
    """
    made = _Budget().trim(details, 0)
    return made if isinstance(made, dict) else {}


class _Budget:
    """The numbers of values and bytes that the details of a document may still have."""

    def __init__(self) -> None:
        self._values = _MAX_VALUES
        self._bytes = MAX_DETAILS

    def trim(self, value: Any, depth: int) -> Json:
        """Returns the value as JSON; None if it is empty or exceeds the budget."""
        self._values -= 1
        if isinstance(value, str):  # as most values are
            return self._text(value, _MAX_STRING)
        if value is None:
            return None
        if isinstance(value, _CONTAINERS):
            if depth == _DEEPEST or not self._take(4):
                return None
            if isinstance(value, list | tuple):
                return self._list(value, depth)
            return self._pairs(value, depth)
        leaf = _leaf(value)
        return leaf if leaf is not None and self._take(_json_length(leaf) + 2) else None

    def _pairs(self, value: Mapping[Any, Any], depth: int) -> dict[str, Json]:
        made: dict[str, Json] = {}
        for key, inner in value.items():
            if self._values <= 0:
                break
            if isinstance(key, str) and (name := self._text(key, 100)):
                made[name] = self.trim(inner, depth + 1)
        return {name: inner for name, inner in made.items() if inner not in (None, [], {})}

    def _list(self, value: Sequence[Any], depth: int) -> list[Json]:
        inners = [self.trim(inner, depth + 1) for inner in value[:_MAX_VALUES] if self._values > 0]
        return [inner for inner in inners if inner is not None]

    def _text(self, text: str, limit: int) -> str | None:
        """Returns a text as `collapsed` does; None if it is empty or exceeds the budget."""
        if len(text) <= limit and text.isprintable() and "  " not in text:  # as most are
            line = text.strip()
            length = (
                (len(line) if line.isascii() else len(line.encode())) + 2 + line.count('"') + line.count("\\")
            )
        else:
            line = collapsed(text, limit) or ""
            length = _json_length(line)
        return line if line and self._take(length + 2) else None

    def _take(self, size: int) -> bool:
        if size > self._bytes:
            return False
        self._bytes -= size
        return True


def _json_length(leaf: Json) -> int:
    """Returns the bytes of a value as JSON."""
    if isinstance(leaf, str) and leaf.isprintable():  # as most names and texts are
        size = len(leaf) if leaf.isascii() else len(leaf.encode())
        return size + 2 + leaf.count('"') + leaf.count("\\")
    return len(_JSON.encode(leaf).encode())


def _leaf(value: Any) -> Json:
    """Returns a value other than a text or a container as JSON; None if JSON has no form of it."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if -_MAX_NUMBER <= value < _MAX_NUMBER else str(value)[:_MAX_STRING]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value.isoformat() if isinstance(value, datetime | date) else None
