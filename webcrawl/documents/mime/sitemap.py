"""Reads sitemaps (https://www.sitemaps.org/protocol.html): an index or a list, as XML, gzipped XML, or lines."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import BinaryIO

from lxml import etree
from w3lib.encoding import read_bom

from webcrawl.documents.content_coding import Flaw, pieces
from webcrawl.documents.document import Document
from webcrawl.documents.mime.charset import utf16_without_mark
from webcrawl.documents.mime.dates import written_date
from webcrawl.documents.mime.facts import MAX_LINKS, Facts, Link, join
from webcrawl.documents.mime.sniff import SNIFF_BYTES, start_of_sitemap
from webcrawl.documents.mime.xml import SAFE_OPTIONS, local, repaired
from webcrawl.errors import BadCoding, UnreadableDocument

MAX_BYTES = 50 * 1024 * 1024
"""The unpacked size that the protocol allows, with 50,000 URLs (`MAX_LINKS`). The rest is ignored."""

_ROOTS = ("urlset", "sitemapindex")
_ENTRIES = ("url", "sitemap")
_FIELDS = ("loc", "lastmod", "changefreq", "priority")
_EVENTS = ("start", "end")
_LINES = re.compile(rb"(?:\xef\xbb\xbf)?\s*https?://[^\s<>]+\s")
"""The start of a list of addresses that a server sends as HTML, for example."""
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
    if document.mime_type != "text/plain" and not _LINES.match(_start(document)):
        return _read_xml(document)
    with _unpacked(document) as stream:
        return _read_lines(stream, document.url)


def _start(document: Document) -> bytes:
    with _unpacked(document) as stream:
        return stream.read(SNIFF_BYTES) or b""


def _read_lines(stream: _Bounded, base: str) -> Facts:
    reader = io.BufferedReader(stream)
    start = reader.peek(SNIFF_BYTES)[: SNIFF_BYTES & ~1]
    charset = read_bom(start)[0] or utf16_without_mark(start) or "utf-8"
    lines = io.TextIOWrapper(reader, "utf-8-sig" if charset == "utf-8" else charset, "replace")
    links: dict[str, Link] = {}
    for words in map(str.split, lines):
        # what follows an address may be its date; UTF-16 keeps its mark
        address = words[0].lstrip("\ufeff") if words else ""
        if "://" in address[:10] and (url := join(base, address)) and not _add(links, Link(url)):
            return _facts("text", links, cut=True)
    return _facts("text", links, cut=stream.cut, broken=stream.broken)


def _add(links: dict[str, Link], link: Link) -> bool:
    """Adds an entry; returns False if the limit is reached."""
    if len(links) == MAX_LINKS and link.url not in links:
        return False
    links[link.url] = link
    return True


def _read_xml(document: Document) -> Facts:
    """Reads entries one by one; XML that is not well-formed is repaired, and read again from its start."""
    entries = _Entries(document.url)
    with _unpacked(document) as stream:
        reader, is_late = _from_root(stream)
        try:
            entries.read(etree.iterparse(reader, events=_EVENTS, **SAFE_OPTIONS))
        except etree.XMLSyntaxError as error:
            damage = error
        else:
            return entries.facts(cut=stream.cut, broken=stream.broken or is_late)
    again = _Entries(document.url)
    with _unpacked(document) as stream:
        # a parser may give up even then; the entries before that place are valid
        with suppress(etree.XMLSyntaxError):
            parser = etree.XMLPullParser(events=_EVENTS, recover=True, **SAFE_OPTIONS)
            for piece in repaired(_from_root(stream)[0]):
                parser.feed(piece)
                again.read(parser.read_events())
                if again.is_complete:
                    break
        best = again if len(again.links) >= len(entries.links) else entries
        if not best.links:
            raise UnreadableDocument(f"is broken: {damage}") from damage
        return best.facts(cut=stream.cut, broken=True)


def _from_root(stream: _Bounded) -> tuple[io.BufferedReader[_Bounded], bool]:
    """Returns a reader of the XML of a sitemap, and whether something else comes before it."""
    reader = io.BufferedReader(stream)
    before = start_of_sitemap(reader.peek(SNIFF_BYTES)[:SNIFF_BYTES])
    reader.read(before)
    return reader, before > 0


def _unpacked(document: Document) -> _Bounded:
    """Opens the document; the stream closes it."""
    stream = document.open()
    return _Unpacked(stream) if document.start(2) == b"\x1f\x8b" else _Bounded(stream)


class _Entries:
    """The entries of a sitemap, read from the events of a parser.

    An entry that is not closed ends where the next entry begins.
    """

    def __init__(self, base: str) -> None:
        self._base = base
        self._kind: str | None = None
        self.is_complete = False
        """Whether what follows is not read: the limit is reached, or the XML is not a sitemap."""
        self._values: dict[str, str] = {}
        self.links: dict[str, Link] = {}

    def read(self, events: Iterable[tuple[str, etree._Element]]) -> None:
        """Reads up to the end of the events, the limit, or a root of other XML. Raises XMLSyntaxError."""
        for event, element in events:
            name = local(element).lower()
            if event == "start":
                if self._kind is None and name not in _ROOTS:
                    self.is_complete = True
                    return
                self._kind = self._kind or name
                if name in _ENTRIES:
                    self._add_entry()
            elif name in _ENTRIES:
                self._add_entry()
                _forget(element)
            elif name in _FIELDS and _is_in_an_entry(element):
                # entities are not expanded: a value with one is none
                is_whole = not any(inner.tag is etree.Entity for inner in element)
                self._values.setdefault(name, "".join(element.itertext()).strip() if is_whole else "")
            if self.is_complete:
                return

    def _add_entry(self) -> None:
        values, self._values = self._values, {}
        address = values.get("loc")
        if address and (url := join(self._base, address)):
            period = _PERIODS.get(values.get("changefreq", "").lower())
            link = Link(url, w3c_time(values.get("lastmod", "")), period, _rank(values.get("priority", "")))
            self.is_complete = not _add(self.links, link)

    def facts(self, *, cut: bool, broken: bool = False) -> Facts:
        """The facts; none for XML that is not a sitemap."""
        if self._kind is None:
            return Facts()
        self._add_entry()
        return _facts(self._kind, self.links, cut=cut or self.is_complete, broken=broken)


def _is_in_an_entry(element: etree._Element) -> bool:
    """Whether an element is a field of an entry itself, not of an image or a video in it."""
    parent = element.getparent()
    return parent is not None and local(parent).lower() in _ENTRIES


def _forget(element: etree._Element) -> None:
    """Frees the memory of an element that was read, and of those before it."""
    element.clear()
    while element.getprevious() is not None:
        del element.getparent()[0]


def _rank(text: str) -> float | None:
    """Parses a priority; None if it is not from 0 to 1."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number <= 1 else None


def w3c_time(text: str) -> datetime | None:
    """Parses a W3C time ("2004", "2004-12", "2004-12-23T18:00:15+00:00") or a `written_date`; None for other texts."""
    if text.isdigit() and len(text) == 4:
        text += "-01-01"
    elif len(text) == 7:
        text += "-01"
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return written_date(text)
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
    """A stream that ends after `MAX_BYTES`. `cut`: whether there were more bytes. `broken`: whether it is damaged."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self._left = MAX_BYTES
        self.cut = self.broken = False

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._source.close()
        super().close()

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
    """An unpacked gzip stream with the same limit. It ends where the gzip file is damaged."""

    def __init__(self, source: BinaryIO) -> None:
        super().__init__(source)
        self._pieces = pieces(iter(partial(source.read, 65_536), b""), ["gzip"], self._note)
        self._piece = b""

    def _more(self, most: int) -> bytes:
        if not self._piece:
            with suppress(BadCoding):
                self._piece = next(self._pieces, b"")
        data, self._piece = self._piece[:most], self._piece[most:]
        return data

    def _note(self, flaw: Flaw) -> None:
        self.broken = True
