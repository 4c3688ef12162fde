"""Compares pages whose URLs differ in one part, to learn which parts of URLs do not change the page."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from typing import Any

import xxhash

from webcrawl.crawler.access import tasks_of
from webcrawl.crawler.components import Reads
from webcrawl.crawler.session import SessionComponent
from webcrawl.documents.html.facts import is_html
from webcrawl.documents.page import Page
from webcrawl.errors import InvalidURL
from webcrawl.policies.page_sketches import ERROR, Sketch, links_sketch
from webcrawl.urls.canonical import normalize, split, without_fragment

_GONE = (404, 410)
_REDIRECTS = (301, 302, 303, 307, 308)
_TELLING = frozenset((200, *_GONE, *_REDIRECTS))
_MOST_LINKS, _LONGEST, _MOST_CHARS, _MOST_FIELDS = 2_000, 1_000, 200_000, 50
"""The most links, characters of each link and of all links, and URL parameters that are read: at most 10 ms a page."""
_RANDOM = re.compile(r"&[^=&\n]*=(?=[A-Za-z]*[0-9])[0-9A-Za-z]{10,}(?=[&\n])")
"""A parameter whose value is new in each link, such as a session."""


class DustPipeline(SessionComponent):
    """Sends the worker sketches of pages with status 200, and the URLs of error pages and redirects.

    Skips incomplete pages and pages without text.
    """

    reads = Reads.SIMHASH
    needs = "DUST"

    def process_item(self, item: Any) -> Any:
        if isinstance(item, Page) and item.status in _TELLING and not item.reading.is_frame:
            with suppress(InvalidURL):  # a local file
                self._add(item)
        return item

    def _add(self, page: Page) -> None:
        dust, canonical = self._session.dust, self._session.canonicalizer.canonical
        host, path = split(canonical(normalize(page.url)))
        if page.status in _REDIRECTS:
            target, target_path = split(canonical(normalize(page.final_url)))
            if target == host and not page.soft_404:
                self._reconsider(dust.add_redirect(host, path, target_path))
        elif dust.wants(host, path) and (sketch := sketch_of(page, host, path)) is not None:
            self._reconsider(dust.add(host, path, sketch))

    def _reconsider(self, hosts: Iterable[str]) -> None:
        """Applies new rules to the leased URLs of hosts."""
        tasks_of(self._crawler).worker.hosts.reconsider(*hosts)


def sketch_of(page: Page, host: str, path: str) -> Sketch | None:
    """Returns the sketch of a page at its canonical URL; None if the page cannot be compared."""
    if page.status in _GONE or page.soft_404:
        return ERROR
    moved = without_fragment(page.final_url) != without_fragment(page.url)
    if moved or not page.digest or not page.length or page.truncated not in (None, "length"):
        return None
    payload = xxhash.xxh32_intdigest(page.digest.encode()) or 1
    if not is_html(page.mime_type):
        return Sketch(payload, xxhash.xxh3_64_intdigest(page.digest.encode()))
    if page.reading.was_read:  # a copy, of which only the bytes are known
        return Sketch(payload)
    if not (text := _text_print(page)):
        return None
    return Sketch(payload, text, links_sketch(_links(page, host, path)), _facts_print(page, host))


def _text_print(page: Page) -> int:
    """Returns the SimHash of a text, or the hash of a short text; 0 without text."""
    known = page.simhash if page.simhash is not None else page.reading.text_hash
    if known is not None:
        return known
    text = page.main_text or page.text
    return xxhash.xxh3_64_intdigest(text.encode(errors="replace")) if text else 0


def _facts_print(page: Page, host: str) -> int:
    """Returns the hash of facts that distinguish pages with similar texts, such as the pictures of an album."""
    canonical = (page.canonical_url or "").removeprefix(host)
    facts = "\n".join((page.title or "", canonical, page.image_url or ""))
    return xxhash.xxh32_intdigest(facts.encode(errors="replace"))


def _links(page: Page, host: str, path: str) -> list[str]:
    """Returns the first links of a page, without the page's host and parameters, and without random parameters."""
    links: Iterable[str] = ()
    if page.reading.outline is not None:
        links = page.reading.outline.links.links
    elif page.document is not None and page.document.html is not None:
        pairs = ((attributes.get("href"), attributes.get("src")) for _, attributes in page.document.elements)
        links = (link for link in (href or src for href, src in pairs) if link)
    first = (link[:_LONGEST] for link in islice(links, _MOST_LINKS))
    text = "\n".join(["", *first, ""])[:_MOST_CHARS]
    text = text.replace(f"\n{host}/", "\n/").replace("?", "&")
    for field in path.partition("?")[2].split("&", _MOST_FIELDS)[:_MOST_FIELDS] if "?" in path else ():
        for end in "&\n":
            text = text.replace(f"&{field}{end}", end)
    return _RANDOM.sub("", text).split("\n")
