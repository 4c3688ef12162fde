"""What a reader finds in a document, bounded, and its way between processes: MessagePack, never pickle."""

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

# What there is a download handler for; the filters know which of them are enabled.
_FETCHED = ("http://", "https://", "ftp://")
# Of `details`: it is a column of a table, not a store.
_MAX_STRING = 1_000
_MAX_VALUES = 500
_DEEPEST = 6
_MAX_NUMBER = 2**63
_JSON = json.JSONEncoder(ensure_ascii=False)


class Link(NamedTuple):
    """An absolute URL to fetch, and when the document says that what is there changed last."""

    url: str
    modified: datetime | None = None


class SitemapLink(Link):
    """One to what the document says to be a sitemap."""

    __slots__ = ()


@dataclass(slots=True, kw_only=True)
class Facts:
    """What a document says of itself; None where it does not.

    `language` is a BCP 47 tag's primary subtag in lower case. Times have a time zone. `text` is what a reader of the
    document sees. `details` is what only documents of this type have, as JSON.
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
_NAMES = tuple(one.name for one in fields(Facts))


def absolute(addresses: Iterable[str], base: str) -> list[str]:
    """Addresses joined to `base`, each once, in their order; those that are no http, https or ftp URL are left out."""
    found: dict[str, None] = {}
    for address in addresses:
        if (url := join(base, address)) is not None:
            found[url] = None
            if len(found) == MAX_LINKS:
                break
    return list(found)


def join(base: str, address: str) -> str | None:
    """One address joined to `base`; None when that is no http, https or ftp URL."""
    try:
        url: str = ada_url.join_url(base, address.strip())
    except ValueError:
        return None
    return url if url.startswith(_FETCHED) and len(url) <= MAX_URL else None


def collapsed(text: object, limit: int) -> str | None:
    """A text on one line of at most `limit` characters, without what no database takes; None when nothing is left."""
    if not isinstance(text, str):
        return None
    if len(text) > 4 * limit:
        text = text[: 4 * limit]
    return storable(" ".join(text.split())[:limit]).rstrip() or None


def storable(text: str) -> str:
    """A text without NUL and without halves of surrogate pairs."""
    text = text.replace("\0", "\ufffd")
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def language(tag: object) -> str | None:
    """The primary subtag of a language tag: "en" of "en-GB"."""
    primary = tag.strip().replace("_", "-").partition("-")[0].lower() if isinstance(tag, str) else ""
    return primary if 2 <= len(primary) <= 3 and primary.isascii() and primary.isalpha() else None


def pack(facts: Facts) -> bytes:
    """Facts as MessagePack, cut to their bounds."""
    plain: dict[str, Any] = {name: collapsed(getattr(facts, name), most) for name, most in _STRINGS.items()}
    plain |= {name: _aware(getattr(facts, name)) for name in _TIMES}
    plain["links"] = [(link.url, _aware(link.modified)) for link in facts.links[:MAX_LINKS]]
    plain["details"] = trimmed(facts.details)
    return bytes(msgpack.packb(plain, datetime=True, unicode_errors="replace"))


def pack_error(why: str, *, exhausted: bool = False) -> bytes:
    """Returns as MessagePack why a document has no facts; `exhausted` makes `unpack` raise ResourcesExhausted."""
    why = why[:MAX_ERROR]
    return bytes(msgpack.packb([why] if exhausted else why, unicode_errors="replace"))


def unpack(data: bytes) -> Facts:
    """Reverses `pack`; raises UnreadableDocument with the message of `pack_error`.

    Raises ValueError for anything else, because the process that sent it may have been taken over.
    """
    try:
        plain = msgpack.unpackb(data, timestamp=3)
    except Exception as error:
        raise ValueError(f"no facts: {error}") from error
    match plain:
        case str(why):
            raise UnreadableDocument(why[:MAX_ERROR])
        case [str(why)]:
            raise ResourcesExhausted(why[:MAX_ERROR])
    if not isinstance(plain, dict) or plain.keys() != set(_NAMES):
        raise ValueError("no facts")
    for name, most in _STRINGS.items():
        if not (plain[name] is None or isinstance(plain[name], str) and len(plain[name]) <= most):
            raise ValueError(f"{name} is {type(plain[name]).__name__}, or too long")
    if not all(isinstance(plain[name], datetime | None) for name in _TIMES):
        raise ValueError("a time is none")
    plain["links"] = [_link(pair) for pair in plain["links"]] if isinstance(plain["links"], list) else []
    plain["details"] = trimmed(plain["details"] if isinstance(plain["details"], dict) else {})
    return Facts(**plain)


def _link(pair: Any) -> Link:
    match pair:
        case [str(url), datetime() | None as modified] if len(url) <= MAX_URL:
            return Link(url, modified)
    raise ValueError("a link is none")


def _aware(time: object) -> datetime | None:
    """A time with its zone, UTC where it has none; None when it is no time that others can read."""
    if not isinstance(time, datetime):
        return None
    try:
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (OverflowError, ValueError):
        return None


def trimmed(details: Mapping[Any, Any]) -> dict[str, Json]:
    """Details as JSON of at most 500 values and `MAX_DETAILS` bytes of UTF-8.

    What is empty or has no room is left out, what is long is cut, dates are in ISO 8601.
    """
    made = _Room().trim(details, 0)
    return made if isinstance(made, dict) else {}


class _Room:
    """What is left for the details of one document."""

    def __init__(self) -> None:
        self._values = _MAX_VALUES
        self._bytes = MAX_DETAILS

    def trim(self, value: Any, depth: int) -> Json:
        """None: there is no room for it, or nothing in it."""
        self._values -= 1
        if isinstance(value, Mapping | list | tuple):
            if depth == _DEEPEST or not self._take(4):
                return None
            return self._pairs(value, depth) if isinstance(value, Mapping) else self._list(value, depth)
        leaf = _leaf(value)
        return leaf if leaf is not None and self._take_json(leaf) else None

    def _pairs(self, value: Mapping[Any, Any], depth: int) -> dict[str, Json]:
        made: dict[str, Json] = {}
        for key, inner in value.items():
            if self._values <= 0:
                break
            if (name := collapsed(key, 100)) and self._take_json(name):
                made[name] = self.trim(inner, depth + 1)
        return {name: inner for name, inner in made.items() if inner not in (None, [], {})}

    def _list(self, value: Sequence[Any], depth: int) -> list[Json]:
        inners = [self.trim(inner, depth + 1) for inner in value[:_MAX_VALUES] if self._values > 0]
        return [inner for inner in inners if inner is not None]

    def _take_json(self, leaf: Json) -> bool:
        return self._take(len(_JSON.encode(leaf).encode()) + 2)

    def _take(self, size: int) -> bool:
        if size > self._bytes:
            return False
        self._bytes -= size
        return True


def _leaf(value: Any) -> Json:
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if -_MAX_NUMBER <= value < _MAX_NUMBER else str(value)[:_MAX_STRING]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return collapsed(value, _MAX_STRING)
    return value.isoformat() if isinstance(value, datetime | date) else None
