"""Feeds, sitemaps, and XML bombs."""

from __future__ import annotations

import gzip
from collections.abc import Iterable


def rss(*items: str, channel: str = "") -> bytes:
    return (
        '<?xml version="1.0" encoding="utf-8"?><rss version="2.0"><channel>'
        f"{channel}{''.join(f'<item>{item}</item>' for item in items)}</channel></rss>"
    ).encode()


def atom(*entries: str, head: str = "") -> bytes:
    return (
        '<?xml version="1.0" encoding="utf-8"?><feed xmlns="http://www.w3.org/2005/Atom">'
        f"{head}{''.join(f'<entry>{entry}</entry>' for entry in entries)}</feed>"
    ).encode()


def urlset(*entries: tuple[str, str | None]) -> bytes:
    """A sitemap of (URL, date) entries."""
    return _sitemap("urlset", "url", entries)


def sitemap_index(*entries: tuple[str, str | None]) -> bytes:
    return _sitemap("sitemapindex", "sitemap", entries)


def _sitemap(root: str, entry: str, entries: Iterable[tuple[str, str | None]]) -> bytes:
    inner = "".join(
        f"<{entry}><loc>{address}</loc>{f'<lastmod>{date}</lastmod>' if date else ''}</{entry}>\n"
        for address, date in entries
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<{root} xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{inner}</{root}>'
    ).encode()


def entity_bomb(root: str) -> bytes:
    """A kilobyte of XML with an entity that expands to 10**10 characters."""
    entities = "".join(
        f'<!ENTITY e{depth} "{f"&e{depth - 1};" * 10 if depth else "a" * 10}">' for depth in range(10)
    )
    return f"<!DOCTYPE {root} [{entities}]><{root}>&e9;</{root}>".encode()


def gzip_bomb(megabytes: int = 80) -> bytes:
    """A gzipped sitemap start that decompresses to many megabytes of spaces and empty elements."""
    line = b" " * 1_000_000 + b"\n<a/>"
    return gzip.compress(b"<urlset>" + line * megabytes, 1, mtime=0)
