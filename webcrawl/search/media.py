"""Reads the texts about images, audio and video on the pages that show them: alternative texts, captions, links."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from selectolax.lexbor import LexborNode

from webcrawl.documents.document import Document
from webcrawl.documents.html.facts import is_html
from webcrawl.documents.html.links import collect
from webcrawl.documents.html.timed_parse import BlockingTimedParser
from webcrawl.documents.link_elements import image_addresses
from webcrawl.errors import InvalidURL, StoreError, StoreUnavailable
from webcrawl.search.entry import IndexedPage
from webcrawl.stores.bodies import Bodies
from webcrawl.stores.locations import Row, location_of_body
from webcrawl.stores.metadata import Metadata
from webcrawl.urls.canonical import Base

_SHOWN = "img, video[src], audio[src], source[src], a[href]"
_LONGEST = 1_000
"""The most characters of a text: longer texts are not captions."""


class MediaTexts:
    """Reads from the archive the pages on which the crawl first found media. `unread` counts damaged pages."""

    def __init__(self, metadata: Metadata, bodies: Bodies) -> None:
        self._metadata, self._bodies = metadata, bodies
        self._parser = BlockingTimedParser()
        self.unread = 0

    def of(self, entries: Sequence[IndexedPage]) -> list[str]:
        """Returns for each entry the lines of the texts about it on its page, and then the title of the page."""
        rows = self._metadata.get_many([entry.url for entry in entries])
        by_page: defaultdict[str, list[str]] = defaultdict(list)
        for url, row in rows.items():
            if row["referrer"]:
                by_page[row["referrer"]].append(url)
        pages = self._metadata.get_many(list(by_page))
        lines: dict[str, list[str]] = {}
        for page, urls in by_page.items():
            shown_on = pages.get(page)
            if shown_on is None or not is_html(shown_on["mime_type"] or ""):
                continue
            texts = self._texts_on(shown_on, urls)
            for url in urls:
                title = shown_on["title"] or ""
                lines[url] = list(dict.fromkeys(filter(None, [*texts[url], title])))
        return ["\n".join(lines.get(entry.url, ())) for entry in entries]

    def _texts_on(self, row: Row, urls: Sequence[str]) -> dict[str, list[str]]:
        """Returns the texts on a page about media, by the URLs of the media."""
        texts: dict[str, list[str]] = {url: [] for url in urls}
        document = self._document(row)
        if document is None:
            return texts
        base = collect(document.elements).joined_base(row["final_url"], document.encode)
        for node in document.html.css(_SHOWN):
            for url in _addresses(node, base) & texts.keys():
                texts[url] += _said(node)
        return texts

    def _document(self, row: Row) -> Document | None:
        """Returns the parsed archived page; None if it is not archived, or damaged."""
        try:
            location = location_of_body(row, self._metadata, self._bodies)
            if location is None:
                return None
            body = self._bodies.read(location)[1]
        except StoreUnavailable:
            raise
        except StoreError:
            self.unread += 1
            return None
        document = Document(body, row["mime_type"] or "", row["charset"], row["url"])
        self._parser.parse(document)
        return document


def _addresses(node: LexborNode, base: Base) -> set[str]:
    """Returns the valid URLs of an element."""
    attributes = node.attributes
    written = image_addresses(attributes) if node.tag == "img" else map(attributes.get, ("src", "href"))
    return set(filter(None, (_url(address.strip(), base) for address in written if address)))


def _url(address: str, base: Base) -> str | None:
    try:
        return base.resolve(address) if address else None
    except InvalidURL:
        return None


def _said(node: LexborNode) -> Iterator[str]:
    """Yields the texts of an element and of the figure around it."""
    for name in ("alt", "title", "aria-label"):
        yield _line(node.attributes.get(name) or "")
    if node.tag == "a":
        yield _line(node.text())
    around = node.parent
    for _ in range(3):
        if around is None:
            return
        if around.tag == "figure":
            yield from (_line(caption.text()) for caption in around.css("figcaption"))
            return
        around = around.parent


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else ""
