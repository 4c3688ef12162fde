"""What a reader finds in a document, bounded, and its way between processes: MessagePack, never pickle."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, date, datetime
from typing import Any, NamedTuple, TypeAlias

import ada_url
import msgpack

Json: TypeAlias = "str | int | float | bool | None | list[Json] | dict[str, Json]"

MAX_TITLE = 1_000
MAX_DESCRIPTION = 5_000
MAX_TEXT = 2_000_000
MAX_LINKS = 50_000
MAX_URL = 8_192

# What there is a download handler for; the filters know which of them are enabled.
_FETCHED = ("http://", "https://", "ftp://")
# Of `details`: it is a column of a table, not a store.
_LONGEST_STRING = 1_000
_MOST_VALUES = 500
_DEEPEST = 6
_LARGEST_NUMBER = 2**63


class Link(NamedTuple):
    """An absolute URL to fetch, and when the document says that what is there changed last."""

    url: str
    modified: datetime | None = None


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


def unpack(data: bytes) -> Facts:
    """The reverse; raises ValueError when that is not what `pack` writes, for who wrote it may have been taken over."""
    try:
        plain = msgpack.unpackb(data, timestamp=3)
    except Exception as error:
        raise ValueError(f"no facts: {error}") from error
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
    """Details as JSON of a bounded size: what is empty is left out, what is long is cut, dates are in ISO 8601."""
    left = [_MOST_VALUES]

    def trim(value: Any, depth: int) -> Json:
        left[0] -= 1
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return value if -_LARGEST_NUMBER <= value < _LARGEST_NUMBER else str(value)[:_LONGEST_STRING]
        if isinstance(value, float):
            return value if math.isfinite(value) else None
        if isinstance(value, str):
            return collapsed(value, _LONGEST_STRING)
        if isinstance(value, datetime | date):
            return value.isoformat()
        if depth == _DEEPEST:
            return None
        if isinstance(value, Mapping):
            pairs = ((collapsed(key, 100), inner) for key, inner in value.items() if left[0] > 0)
            made = {key: trim(inner, depth + 1) for key, inner in pairs if key}
            return {key: inner for key, inner in made.items() if inner not in (None, [], {})}
        if isinstance(value, list | tuple):
            inners = [trim(inner, depth + 1) for inner in value[:_MOST_VALUES] if left[0] > 0]
            return [inner for inner in inners if inner is not None]
        return None

    trim_all = trim(details, 0)
    return trim_all if isinstance(trim_all, dict) else {}
