"""What messages of the protocol are in the engine: rows of URLs, and records of what is stored with a URL.

A record is two dates, each of five bytes in network order, and a serialized URLInfo that has only the metadata. The
dates, in seconds since 1970, are that of the URL's creation and that of its next fetch; 0 means never.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from webcrawl.errors import InvalidURL, WrongField
from webcrawl.urlfrontier.messages import URLInfo, URLItem
from webcrawl.urls.canonical import normalize

DEFAULT_CRAWL = "DEFAULT"
"""The crawl of messages without a crawl ID."""
DISCOVERED = -1
"""The date of a row whose URL is stored only if it is new."""
MOST_DATE = 2**40 - 1
"""The latest date that a record holds, in the year 36812; later ones count as this."""

_CRAWL = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_MOST_KEY = 255
_MOST_URL = 8192
"""Bytes."""
_MOST_DATA = 65_536
"""Bytes of the metadata of a URL."""
_DATE_BYTES = 5
_HOST = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://(?:[^/?#@\s]*@)?(\[[0-9A-Fa-f:.]+\]|[^/?#:@\[\]\s]+)")


class Row(NamedTuple):
    """A URL to store in a queue of a crawl."""

    crawl: str
    queue: str
    url: str
    date: int
    """When it is fetched again, seconds since 1970; 0: never; DISCOVERED: store the URL only if it is new."""
    data: bytes


@dataclass(frozen=True, slots=True)
class StoredURL:
    """A URL of a queue with its record."""

    crawl: str
    queue: str
    url: str
    record: bytes

    @property
    def created(self) -> int:
        """When the URL was stored first, seconds since 1970."""
        return int.from_bytes(self.record[:_DATE_BYTES])

    def info(self) -> Any:
        """Returns the URLInfo that a client gets."""
        info = URLInfo.FromString(self.record[2 * _DATE_BYTES :])
        info.url, info.key, info.crawlID = self.url, self.queue, self.crawl
        return info

    def item(self) -> Any:
        """Returns the URLItem that a client gets; every stored URL is a known one."""
        item = URLItem(ID=self.url, creation_date=self.created)
        item.known.info.CopyFrom(self.info())
        item.known.refetchable_from_date = int.from_bytes(self.record[_DATE_BYTES : 2 * _DATE_BYTES])
        return item


def row(info: Any, date: int) -> Row | None:
    """Returns the row of a URLInfo, whose fields are taken out; None if the URL, key or crawl ID cannot be stored."""
    url, queue, crawl = info.url, info.key, info.crawlID
    if not url or len(url) > _MOST_URL or (crawl and not _CRAWL.fullmatch(crawl)):
        return None
    if not queue:
        queue = host_name(url)
    if not queue or len(queue) > _MOST_KEY:
        return None
    data = b""
    if info.metadata:
        info.ClearField("url")
        info.ClearField("key")
        info.ClearField("crawlID")
        data = info.SerializeToString()
        if len(data) > _MOST_DATA:
            return None
    return Row(crawl or DEFAULT_CRAWL, queue, url, min(date, MOST_DATE), data)


def item_row(item: Any) -> Row | None:
    """Returns the row of a URLItem; None if it has no URL that can be stored."""
    kind = item.WhichOneof("item")
    if kind == "discovered":
        return row(item.discovered.info, DISCOVERED)
    if kind == "known":
        return row(item.known.info, item.known.refetchable_from_date)
    return None


def host_name(url: str) -> str | None:
    """Returns the host name of a URL as the engine's hosts have it, without scheme and port; None without a host."""
    match = _HOST.match(url)
    if match is None:
        return None
    if match[1].isascii():
        return match[1].lower()
    try:
        match = _HOST.match(normalize(url))
    except InvalidURL:
        return None
    return match and match[1]


def crawl_id(text: str) -> str:
    """Returns the crawl that a request names; raises WrongField."""
    crawl = text.strip() or DEFAULT_CRAWL
    if not _CRAWL.fullmatch(crawl):
        raise WrongField(f"crawlID {text!r}: use 1 to 64 letters, digits, dots, dashes and underscores")
    return crawl


def queue_key(text: str, *, needed: bool = True) -> str:
    """Returns the queue that a request names; raises WrongField."""
    if needed and not text:
        raise WrongField("key: name a queue")
    if len(text) > _MOST_KEY:
        raise WrongField(f"key: {len(text)} characters, but a queue's name has at most {_MOST_KEY}")
    return text


class ContainedText:
    """Whether URLs contain a text."""

    def __init__(self, text: str, *, ignores_case: bool) -> None:
        self._text = text.casefold() if ignores_case else text
        self._ignores_case = ignores_case

    @property
    def accepts_all(self) -> bool:
        return not self._text

    def accepts(self, url: str) -> bool:
        return self._text in (url.casefold() if self._ignores_case else url)


def pairs(flat: list[bytes]) -> Iterable[tuple[str, bytes]]:
    """Yields the URLs and records of a reply: URL, record, URL, record..."""
    for url, record in zip(flat[::2], flat[1::2], strict=True):
        yield url.decode(), record
