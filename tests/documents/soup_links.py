"""The links of pages by BeautifulSoup, with which the links of the store are compared."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import urljoin

from bs4 import BeautifulSoup, NavigableString, Tag, XMLParsedAsHTMLWarning

from webcrawl.documents.document import Document
from webcrawl.documents.html.link_rows import ELEMENTS, unpack_rows
from webcrawl.documents.html.link_texts import MAX_LINK_TEXT
from webcrawl.documents.html.outline import link_rows_of
from webcrawl.documents.html.text import INLINE
from webcrawl.urls.canonical import normalize

PARSER = "lxml"
"""The usual parser of BeautifulSoup; its own takes some elements without end tags for parts of each other."""
_ADDRESSES = {"a": "href", "area": "href", "link": "href", "iframe": "src", "frame": "src", "meta": "content"}
_NAMES = {"area": "alt", "link": "title", "iframe": "title", "frame": "title"}
_PAGES = frozenset({"canonical", "next", "prev", "alternate"})


class SoupLink(NamedTuple):
    """A link as the store has it."""

    element: str
    target: str
    text: str
    rel: str


def links_by_soup(page: Document) -> list[SoupLink]:
    """Returns the links of a page, in its order, found in the tree of BeautifulSoup and joined by urllib."""
    with warnings.catch_warnings():
        # XHTML is read as HTML
        warnings.simplefilter("ignore", XMLParsedAsHTMLWarning)
        tree = BeautifulSoup(page.body, PARSER, from_encoding="utf-8")
    base = next(
        (urljoin(page.url, str(element["href"])) for element in tree.find_all("base", href=True)), page.url
    )
    return [link for element in tree.find_all(list(_ADDRESSES)) for link in _links(element, base, page.url)]


def links_of_the_store(page: Document) -> list[SoupLink]:
    """Returns the links of a page as a crawl stores them."""
    rows = unpack_rows(link_rows_of(page, text_links=False))
    targets, texts, rels = (column.decode().splitlines() for column in (rows.targets, rows.texts, rows.rels))
    elements = [ELEMENTS[code] for code in rows.elements]
    return list(map(SoupLink, elements, targets, texts, rels))


def differing(pages: Sequence[Document], number: int, seed: int = 1) -> tuple[int, list[str]]:
    """Returns the number of links of some random pages, and the URLs of those whose links are not equal."""
    chosen = random.Random(seed).sample(pages, min(number, len(pages)))
    stored = [(page, links_of_the_store(page)) for page in chosen]
    return sum(len(links) for _, links in stored), [
        page.url for page, links in stored if links != links_by_soup(page)
    ]


def _links(element: Tag, base: str, url: str) -> Iterator[SoupLink]:
    name, rel = element.name, [str(word).lower() for word in element.get_attribute_list("rel") if word]
    address = element.get(_ADDRESSES[name])
    if name == "a" and address is None and element.find_parent(["svg", "math"]):
        address = element.get("xlink:href")
    if name == "link" and (_PAGES.isdisjoint(rel) or "stylesheet" in rel):
        return
    if name == "meta":
        if str(element.get("http-equiv", "")).strip().lower() != "refresh" or not address:
            return
        address = str(address).partition("=")[2].strip("\"' ")
    if address is None or element.find_parent("template"):
        return
    address = str(address).partition("#")[0].strip()
    if not address and (base == url or name not in ("a", "area")):
        return
    with suppress(ValueError):
        yield SoupLink(name, normalize(urljoin(base, address)), _text(element), " ".join(rel))


def _text(element: Tag) -> str:
    if element.name == "a":
        # a link ends where the next one begins, although lxml leaves that one in it
        text = "".join(iter(_words(element).__next__, None))
        if not text.strip():
            image = element.find("img", alt=True)
            text = str(image["alt"]) if isinstance(image, Tag) else ""
    else:
        text = str(element.get(_NAMES.get(element.name, ""), ""))
    return " ".join(text.split())[:MAX_LINK_TEXT].rstrip()


def _words(element: Tag) -> Iterator[str | None]:
    """Yields the texts in an element, blanks around elements that are not inline, and None for a link."""
    for child in element.children:
        if isinstance(child, Tag) and child.name == "a":
            yield None
        elif isinstance(child, Tag):
            around = "" if child.name in INLINE else " "
            yield from (around, *_words(child), around)
        elif type(child) is NavigableString:
            yield child
