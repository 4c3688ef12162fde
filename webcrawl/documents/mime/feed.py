"""Reads RSS, Atom and RDF feeds with feedparser: metadata, entries and links."""

from __future__ import annotations

import calendar
import io
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import feedparser
from selectolax.lexbor import LexborHTMLParser

from webcrawl.documents.document import Document
from webcrawl.documents.mime.dates import written_date
from webcrawl.documents.mime.facts import Facts, Link, collapsed, join, language
from webcrawl.errors import UnreadableDocument

MAX_BYTES = 20_000_000
MAX_ENTRIES = 5_000
SHOWN_ENTRIES = 50
_ENTRY_END = re.compile(rb"</(?:[\w.-]+:)?(?:item|entry)\s*>")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Feeds need no DOCTYPE that defines entities, and entities can expand a thousandfold. The expression skips what comes
# before the DOCTYPE and the first entity in it; it does not match an article about entities.
_ENTITIES = re.compile(
    rb"""(?:[^<]|<\?.*?\?>|<!--.*?-->)*+<!DOCTYPE(?:[^>\["']|"[^"]*"|'[^']*')*+\["""
    rb"""(?:[^\]<"']|"[^"]*"|'[^']*'|<\?.*?\?>|<!--.*?-->|<!(?!ENTITY|--))*+<!ENTITY""",
    re.IGNORECASE | re.DOTALL,
)


def read(document: Document) -> Facts:
    """Returns the facts of a feed: up to 5,000 entries, 50 of them in details; links have the dates of entries."""
    if len(document) > MAX_BYTES:
        raise UnreadableDocument(f"has {len(document):,} bytes, more than any feed needs")
    if _ENTITIES.match(document.body):
        raise UnreadableDocument("defines entities, which no feed needs")
    body, left_out = _shortened(document.body)
    parsed = feedparser.parse(
        io.BytesIO(body),
        response_headers={"content-location": document.url, "content-type": _content_type(document)},
        resolve_relative_uris=False,
        sanitize_html=False,
    )
    feed, entries = parsed.feed, parsed.entries[:MAX_ENTRIES]
    version = parsed.get("version")  # missing if the document is empty
    if not version and not entries:
        raise UnreadableDocument(f"is not a feed: {parsed.get('bozo_exception', 'it has no entries')}")
    links = _links(feed, entries, document.url)
    return Facts(
        title=_plain(feed.get("title")),
        description=_plain(feed.get("subtitle")),
        language=language(feed.get("language")),
        author=_plain(feed.get("author")),
        published=_time(feed, "published"),
        modified=_time(feed, "updated") or max(filter(None, links.values()), default=None),
        text=" ".join(_text(entry) for entry in entries) or None,
        links=[Link(url, modified) for url, modified in links.items()],
        details={
            "format": version or None,
            "entries": len(parsed.entries) + left_out,
            "items": [_shown(entry, document.url) for entry in entries[:SHOWN_ENTRIES]],
            "broken": bool(parsed.bozo) or None,
        },
    )


def _shortened(body: bytes) -> tuple[bytes, int]:
    """Returns a feed without its unused entries, and the number of entries removed."""
    ends = [match.end() for match in _ENTRY_END.finditer(body)]
    if len(ends) <= MAX_ENTRIES:
        return body, 0
    return body[: ends[MAX_ENTRIES - 1]] + body[ends[-1] :], len(ends) - MAX_ENTRIES


def _content_type(document: Document) -> str:
    charset = "gb18030" if document.charset == "gbk" else document.charset or "utf-8"
    return f"{document.mime_type}; charset={charset}"


def _links(
    feed: Mapping[str, Any], entries: list[Mapping[str, Any]], base: str
) -> dict[str, datetime | None]:
    """Returns the links of a feed and its entries, without enclosures, with the times of their last changes."""
    times: dict[str, datetime | None] = {}
    for entry in entries:
        changed = _time(entry, "updated") or _time(entry, "published")
        addresses = [link.get("href") for link in entry.get("links", []) if _is_page(link)]
        for address in addresses or [entry.get("link")]:
            if address and (url := join(base, address)):
                times[url] = changed
    for link in feed.get("links", []):
        # "next" and similar relations are other pages of the feed (RFC 5005)
        if link.get("href") and _is_page(link) and (url := join(base, link["href"])):
            times.setdefault(url, None)
    return times


def _is_page(link: Mapping[str, Any]) -> bool:
    return link.get("rel", "alternate") in ("alternate", "next", "prev-archive", "next-archive", "related")


def _shown(entry: Mapping[str, Any], base: str) -> dict[str, Any]:
    return {
        "title": _plain(entry.get("title")),
        "url": join(base, entry["link"]) if entry.get("link") else None,
        "published": _time(entry, "published") or _time(entry, "updated"),
        "author": _plain(entry.get("author")),
        "enclosures": [link.get("href") for link in entry.get("links", []) if link.get("rel") == "enclosure"],
    }


def _text(entry: Mapping[str, Any]) -> str:
    contents = [content.get("value") for content in entry.get("content", [])]
    parts = [entry.get("title"), *(contents or [entry.get("summary")])]
    return " ".join(filter(None, (_plain(part, 100_000) for part in parts)))


def _plain(markup: object, limit: int = 5_000) -> str | None:
    """Returns the text of a value that may be HTML."""
    if not isinstance(markup, str) or not ("<" in markup or "&" in markup):
        return collapsed(markup, limit)
    body = LexborHTMLParser(markup[: 10 * limit]).body
    return collapsed(body.text(separator=" "), limit) if body is not None else None


def _time(values: Mapping[str, Any], name: str) -> datetime | None:
    """Returns a time as written; feedparser reads more forms, but also a number of seconds as a year."""
    text = values.get(name)
    if isinstance(text, str) and ((moment := written_date(text)) or text.strip().isdigit()):
        return moment
    parsed = values.get(f"{name}_parsed")
    try:
        return _EPOCH + timedelta(seconds=calendar.timegm(parsed)) if parsed else None
    except (OverflowError, ValueError, TypeError):
        return None
