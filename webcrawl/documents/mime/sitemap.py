"""Reads sitemaps (https://www.sitemaps.org/protocol.html): an index or a list, as XML, gzipped XML, or lines."""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import BinaryIO

from lxml import etree

from webcrawl.documents.document import Document
from webcrawl.documents.mime.facts import MAX_LINKS, Facts, Link, join
from webcrawl.documents.mime.xml import SAFE_OPTIONS, local
from webcrawl.errors import UnreadableDocument

MAX_BYTES = 50 * 1024 * 1024
"""The unpacked size that the protocol allows, with 50,000 URLs (`MAX_LINKS`). The rest is ignored."""

_ROOTS = ("urlset", "sitemapindex")
_ENTRIES = ("url", "sitemap")
_DAY = 86_400.0
_PERIODS = {
    "always": 0.0,
    "hourly": 3600.0,
    "daily": _DAY,
    "weekly": 7 * _DAY,
    "monthly": 30 * _DAY,
    "yearly": 365 * _DAY,
    "never": 100 * 365 * _DAY,
}
"""The values of `changefreq` -> seconds."""


def read(document: Document) -> Facts:
    """Returns links with what the sitemap says about them; no facts for other XML. Raises UnreadableDocument."""
    with document.open() as stream:
        unpacked = _Unpacked(stream) if document.start(2) == b"\x1f\x8b" else _Bounded(stream)
        if document.mime_type == "text/plain":
            return _read_lines(unpacked, document.url)
        return _read_xml(unpacked, document.url)


def _read_lines(stream: _Bounded, base: str) -> Facts:
    lines = io.TextIOWrapper(io.BufferedReader(stream), "utf-8-sig", "replace")
    links: dict[str, Link] = {}
    for line in map(str.strip, lines):
        if "://" in line[:10] and (url := join(base, line)) and not _add(links, Link(url)):
            return _facts("text", links, cut=True)
    return _facts("text", links, cut=stream.cut)


def _add(links: dict[str, Link], link: Link) -> bool:
    """Adds an entry; returns False if the limit is reached."""
    if len(links) == MAX_LINKS and link.url not in links:
        return False
    links[link.url] = link
    return True


def _read_xml(stream: _Bounded, base: str) -> Facts:
    links: dict[str, Link] = {}
    kind: str | None = None
    try:
        for event, element in _events(stream):
            name = local(element).lower()
            if event == "start":
                if kind is None and name not in _ROOTS:
                    return Facts()
                kind = kind or name
            elif name in _ENTRIES:
                link = _entry(element, base)
                if link and not _add(links, link):
                    return _facts(kind, links, cut=True)
                element.clear()
                while element.getprevious() is not None:
                    del element.getparent()[0]
    except etree.XMLSyntaxError as error:
        if not links:
            raise UnreadableDocument(f"is broken: {error}") from error
        # entries are independent, so entries before the damage are valid
        return _facts(kind, links, cut=stream.cut, broken=True)
    return _facts(kind, links, cut=stream.cut)


def _events(stream: _Bounded) -> Iterator[tuple[str, etree._Element]]:
    """Yields starts and ends of elements; fetches nothing and expands no entities."""
    events: Iterator[tuple[str, etree._Element]] = etree.iterparse(
        stream, events=("start", "end"), **SAFE_OPTIONS
    )
    return events


def _entry(element: etree._Element, base: str) -> Link | None:
    url, changed, period, rank = None, None, None, None
    for child in element:
        name, text = local(child).lower(), (child.text or "").strip()
        if name == "loc":
            url = join(base, text)
        elif name == "lastmod":
            changed = w3c_time(text)
        elif name == "changefreq":
            period = _PERIODS.get(text.lower())
        elif name == "priority":
            rank = _rank(text)
    return Link(url, changed, period, rank) if url else None


def _rank(text: str) -> float | None:
    """Parses a priority; None if it is not from 0 to 1."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number <= 1 else None


def w3c_time(text: str) -> datetime | None:
    """Parses a W3C time ("2004", "2004-12", "2004-12-23", "2004-12-23T18:00:15+00:00"); None for other texts."""
    if text.isdigit() and len(text) == 4:
        text += "-01-01"
    elif len(text) == 7:
        text += "-01"
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _facts(kind: str | None, links: dict[str, Link], *, cut: bool, broken: bool = False) -> Facts:
    return Facts(
        modified=max((link.modified for link in links.values() if link.modified), default=None),
        links=[*links.values()],
        details={
            "sitemap": kind,
            "entries": len(links),
            "cut": cut or None,
            "broken": broken or None,
        },
    )


class _Bounded(io.RawIOBase):
    """A stream that ends after `MAX_BYTES`; `cut` tells whether there was more."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self._left = MAX_BYTES
        self.cut = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if not self._left:
            self.cut = self.cut or bool(self._more(1))
            return 0
        data = self._more(min(len(buffer), self._left))
        self._left -= len(data)
        buffer[: len(data)] = data
        return len(data)

    def _more(self, most: int) -> bytes:
        return self._source.read(most)


class _Unpacked(_Bounded):
    """An unpacked gzip stream with the same limit; it ends where the gzip is damaged."""

    def __init__(self, source: BinaryIO) -> None:
        super().__init__(source)
        self._inflate = zlib.decompressobj(wbits=31)

    def _more(self, most: int) -> bytes:
        while most:
            packed = self._inflate.unconsumed_tail or self._inflate.unused_data or self._source.read(65_536)
            if self._inflate.eof:
                # zeros may follow a member
                packed = packed.lstrip(b"\0") or self._source.read(65_536).lstrip(b"\0")
                self._inflate = zlib.decompressobj(wbits=31)
            try:
                data = self._inflate.decompress(packed, most)
            except zlib.error:
                return b""
            if data or not packed:
                return data
        return b""
