"""A message of the live lane: which URLs are wanted, and how."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from webcrawl.config.kinds import Seconds
from webcrawl.documents.written_addresses import written_addresses
from webcrawl.errors import WrongEntry, WrongMessage, brief
from webcrawl.frontier.entry import DEFAULT_LEVEL

RELATED = frozenset({"image", "feed"})
MOST_URLS = 300
"""The most URLs of one message."""
_MOST_CHARACTERS = 64
_MOST_BYTES = 256 * 1024
_SOURCES = ("url", "urls", "text")
_FIELDS = frozenset({*_SOURCES, "id", "tag", "level", "max_age", "related", "render", "meta"})
_YES_NO = {"": False, "0": False, "1": True}
_LEVELS = range(8)
_SECONDS = Seconds()


@dataclass(frozen=True, slots=True)
class LiveRequest:
    """URLs that are wanted now; raises WrongMessage for wrong values.

    urls     from 1 to 300, not normalized; URLs that cannot be crawled are answered by an event with an error
    id       who asks, in at most 64 printable characters; given back in the events, like `tag` and `meta`
    level    the best is 0; among the URLs of the lane at one host
    max_age  seconds; a page that was stored within them is not fetched again
    related  which resources of a page are fetched after it, at the lowest level: "image", its main picture or
             else its first one, and "feed", the feeds that its head names
    render   in a browser
    """

    urls: tuple[str, ...]
    id: str = ""
    tag: str = ""
    level: int = DEFAULT_LEVEL
    max_age: float = 0.0
    related: frozenset[str] = frozenset()
    render: bool = False
    meta: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 1 <= len(self.urls) <= MOST_URLS:
            raise WrongMessage(f"a message has from 1 to {MOST_URLS} URLs, not {len(self.urls)}")
        for name, value in (("id", self.id), ("tag", self.tag)):
            if len(value) > _MOST_CHARACTERS or not value.isprintable():
                raise WrongMessage(
                    f"{name} has at most {_MOST_CHARACTERS} printable characters, not {brief(repr(value))}"
                )
        if self.level not in _LEVELS:
            raise WrongMessage(f"level is from {_LEVELS[0]} to {_LEVELS[-1]}, not {self.level}")
        if not (math.isfinite(self.max_age) and self.max_age >= 0):
            raise WrongMessage(f"max_age is a number of seconds from 0, not {self.max_age}")
        if unknown := self.related - RELATED:
            raise WrongMessage(f"related may have {', '.join(sorted(RELATED))}, not {min(unknown)!r}")

    def to_message(self) -> dict[str, str]:
        """Returns the fields of a message; fields with their defaults are left out.

        Raises WrongMessage if they are longer than `from_message` accepts.
        """
        message = {"url": self.urls[0]} if len(self.urls) == 1 else {"urls": "\n".join(self.urls)}
        optional = {
            "id": self.id,
            "tag": self.tag,
            "level": "" if self.level == DEFAULT_LEVEL else str(self.level),
            "max_age": f"{self.max_age:g}" if self.max_age else "",
            "related": ",".join(sorted(self.related)),
            "render": "1" if self.render else "",
            "meta": _written(self.meta) if self.meta else "",
        }
        message |= {name: value for name, value in optional.items() if value}
        if sum(len(value.encode(errors="replace")) for value in message.values()) > _MOST_BYTES:
            raise WrongMessage(f"a message has at most {_MOST_BYTES} bytes")
        return message

    @classmethod
    def from_message(cls, message: Mapping[bytes, bytes]) -> LiveRequest:
        """Reads the fields of a message; raises WrongMessage."""
        if sum(map(len, message.values())) > _MOST_BYTES:
            raise WrongMessage(f"a message has at most {_MOST_BYTES} bytes")
        try:
            fields = {name.decode(): value.decode() for name, value in message.items()}
        except UnicodeDecodeError as error:
            raise WrongMessage(f"a field is not UTF-8: {error}") from error
        if unknown := fields.keys() - _FIELDS:
            known = ", ".join(sorted(_FIELDS))
            raise WrongMessage(f"unknown field {brief(repr(min(unknown)))}; a message may have {known}")
        if (render := fields.get("render", "")) not in _YES_NO:
            raise WrongMessage(f"render is 0 or 1, not {brief(repr(render))}")
        return cls(
            _urls(fields),
            id=fields.get("id", ""),
            tag=fields.get("tag", ""),
            level=int(_number(fields, "level", DEFAULT_LEVEL)),
            max_age=_seconds(fields, "max_age"),
            related=frozenset(fields.get("related", "").replace(",", " ").split()),
            render=_YES_NO[render],
            meta=_meta(fields.get("meta", "")),
        )


def _urls(fields: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the URLs of a message, each once; of a text, those that are written in it."""
    sources = [name for name in _SOURCES if name in fields]
    if len(sources) != 1:
        raise WrongMessage("a message has one of the fields url, urls and text")
    value = fields[sources[0]]
    if sources[0] == "url":
        urls = [value.strip()] if value.strip() else []
    elif sources[0] == "urls":
        urls = value.split()
    else:
        urls = list(islice(written_addresses(value), MOST_URLS))
    if not urls:
        raise WrongMessage(f"{sources[0]} has no URL: {brief(repr(value))}")
    return tuple(dict.fromkeys(urls))


def _number(fields: Mapping[str, str], name: str, default: float) -> float:
    try:
        value = float(fields.get(name) or default)
    except ValueError:
        raise WrongMessage(f"{name} is a number, not {brief(repr(fields[name]))}") from None
    if name == "level" and not value.is_integer():
        raise WrongMessage(f"level is an integer, not {value}")
    return value


def _seconds(fields: Mapping[str, str], name: str) -> float:
    text = fields.get(name) or "0"
    try:
        return float(_SECONDS.parse(text))
    except (ValueError, WrongEntry):
        raise WrongMessage(f"{name} is {_SECONDS.allowed}, not {brief(repr(text))}") from None


def _written(meta: Mapping[str, Any]) -> str:
    try:
        return json.dumps(meta)
    except RecursionError as error:
        raise WrongMessage(f"meta is not JSON: {error}") from None


def _meta(text: str) -> Mapping[str, Any]:
    try:
        meta = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise WrongMessage(f"meta is not JSON: {error}") from None
    if not isinstance(meta, dict):
        raise WrongMessage(f"meta is a JSON object, not {brief(text)}")
    return meta
