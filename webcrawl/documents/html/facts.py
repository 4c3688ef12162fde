"""The facts of an HTML page: its metadata, headings, visible text and main part."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import ada_url
from selectolax.lexbor import LexborHTMLParser, LexborNode

from webcrawl.documents.document import Document
from webcrawl.documents.html.linked_data import LinkedObject, cleaned, first_text, linked_objects
from webcrawl.documents.html.main_text import MainPart, main_part
from webcrawl.documents.html.markdown import markdown
from webcrawl.documents.html.text import TextShares, text_shares, visible_text
from webcrawl.documents.link_elements import Attributes
from webcrawl.documents.mime.dates import date_in_path, read_date
from webcrawl.documents.mime.facts import MAX_TEXT, trimmed
from webcrawl.urls.canonical import Base

MAX_TITLE = 1_000
MAX_DESCRIPTION = 5_000
MAX_AUTHOR = 300
MAX_URL = 8_192
MAX_KEYWORDS = 1_000
MAX_GENERATOR = 200
MAX_OPEN_GRAPH = 30
MAX_HEADINGS = 50
MAX_HEADING = 200
_MAX_TYPES = 20
_MOST_TITLES, _DEEPEST_TITLE = 100, 1_000
"""The titles of a body that are looked at, and their ancestors: thousands of both may be nested in a drawing."""

_LANGUAGE = re.compile(r"\s*([a-zA-Z]{2,3})(?=[-_,;\s]|$)")
_RESTRICTIONS = frozenset({"noindex", "nofollow", "noarchive", "none"})
_DIRECTIVES = _RESTRICTIONS | {"index", "follow", "archive", "all"}


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_PUBLISHED = _names(
    "article:published_time og:published_time citation_publication_date citation_date dc.date.issued dcterms.issued"
    " dc.date dcterms.date dcterms.created dc.date.created date pubdate publishdate publish-date publication_date"
    " sailthru.date parsely-pub-date"
)
_MODIFIED = _names(
    "article:modified_time og:updated_time dcterms.modified dc.date.modified last-modified revised"
)
_AUTHORS = _names(
    "author article:author dc.creator dcterms.creator citation_author parsely-author sailthru.author"
)
_IMAGES = _names("og:image:secure_url og:image og:image:url twitter:image twitter:image:src thumbnail")


# A plain list takes less time than `:is(...)`, and returns a node once for each selector that it matches.
_ELEMENTS = "h1,h2,h3,time,[itemprop],[itemtype],[type^='application/ld+json' i]"
_FEED_LINKS = ",".join(
    f"link[rel~=alternate i][type='application/{name}' i][href]"
    for name in ("rss+xml", "atom+xml", "feed+json")
)
# An image of one pixel counts readers.
_PICTURES = "img[src]:not([src^='data:'],[width='0'],[width='1'],[height='0'],[height='1'])"
MAX_FEEDS = 10
_HEADINGS = frozenset({"h1", "h2", "h3"})
_MICRODATA = frozenset({"author", "datePublished", "image"})


@dataclass(frozen=True, slots=True)
class HTMLFacts:
    """The facts of an HTML page; None for facts that the page does not have.

    title, description, author   white space collapsed, cut at 1,000, 5,000 and 300 characters
    language        the declared language: the primary subtag of a BCP 47 tag in lower case ("en" of "en-GB")
    canonical_url   absolute
    image_url       the picture that represents the page, absolute
    published_at    in UTC
    main_text       the main part of the text, without menus, margins and comments, with its white space, cut at
                    2,000,000 characters
    markdown        of the main part, or of the whole page without one; on request
    page_markdown   of the whole page; on request
    shares          of links and code in the main part, or in the whole page without one; on request
    details         as in `Page.details`
    """

    title: str | None
    description: str | None
    language: str | None
    canonical_url: str | None
    author: str | None
    published_at: datetime | None
    image_url: str | None
    main_text: str | None
    markdown: str | None
    page_markdown: str | None
    shares: TextShares | None
    details: dict[str, Any]
    document: Document = field(compare=False, repr=False)

    @property
    def text(self) -> str:
        """The visible text, with a line for each block; made again each time."""
        return visible_text(self.document.html)


def describe(
    document: Document,
    *,
    with_markdown: bool = False,
    with_page_markdown: bool = False,
    with_shares: bool = False,
) -> HTMLFacts:
    """Returns the facts of an HTML document; does not change its tree, which is shared."""
    tree = document.html
    metas = document.metas
    named = _contents(metas, "name") | _contents(metas, "property")
    elements = search_elements(tree)
    schema = linked_objects(elements.scripts) if elements.scripts else []
    base = page_base(document)
    description = named.get("description") or named.get("og:description")
    part = main_part(tree)
    text = (part.text[:MAX_TEXT] or None) if part else None
    image = _image_url(named, schema, elements.microdata, base)
    root = part.element if part is not None else tree.body
    related = _related(tree.head, None if image else root, base)
    return HTMLFacts(
        title=_title(tree),
        description=_collapsed(description, MAX_DESCRIPTION),
        language=_language(tree, _contents(metas, "http-equiv"), named.get("og:locale")),
        canonical_url=_canonical_url(tree, base),
        author=_author(named, schema, elements.microdata),
        published_at=_published_at(named, schema, elements, document.url),
        image_url=image,
        main_text=text,
        markdown=markdown(tree, part if text else None, base) if with_markdown else None,
        page_markdown=markdown(tree, None, base) if with_page_markdown else None,
        shares=_shares(tree, part if text else None) if with_shares else None,
        details=trimmed(
            related | _details(named, schema, elements, robots_metas(metas)) | _simplified(document)
        ),
        document=document,
    )


def _shares(tree: LexborHTMLParser, part: MainPart | None) -> TextShares | None:
    root = part.element if part is not None else tree.body
    return text_shares(root) if root is not None else None


def is_html(mime_type: str | None) -> bool:
    """Returns whether bodies of this type are parsed as HTML."""
    return mime_type in ("text/html", "application/xhtml+xml")


def robots_metas(metas: Iterable[Attributes]) -> list[tuple[str, str]]:
    """Returns what <meta> elements (`Document.metas`) tell crawlers.

    Each is (name in lower case, content): `robots`, and every other <meta name> whose content restricts a crawler.
    """
    directives: list[tuple[str, str]] = []
    for attributes in metas:
        name = (attributes.get("name") or "").strip().lower()
        content = attributes.get("content") or ""
        if name == "robots" or (name and _restricts(content.lower())):
            directives.append((name, content))
    return directives


def _restricts(content: str) -> bool:
    """Whether a list of directives, with or without commas, has a restriction; a sentence is no such list."""
    words = content.replace(",", " ").split()
    return not _RESTRICTIONS.isdisjoint(words) and (
        _DIRECTIVES.issuperset(words) or not _RESTRICTIONS.isdisjoint(map(str.strip, content.split(",")))
    )


def _details(
    named: dict[str, str], schema: list[LinkedObject], elements: PageElements, robots: list[tuple[str, str]]
) -> dict[str, Any]:
    graph = [(name[3:], cleaned(value)) for name, value in named.items() if name.startswith("og:")]
    modified = read_date(_first(named, _MODIFIED) or first_text(schema, "dateModified"))
    # small values come first, because the size is limited
    return {
        "modified": modified.isoformat() if modified else None,
        "generator": _collapsed(named.get("generator"), MAX_GENERATOR),
        "keywords": _collapsed(named.get("keywords"), MAX_KEYWORDS),
        "robots": {cleaned(name): cleaned(content) for name, content in robots[:10]},
        "microdata": elements.types,
        "headings": elements.headings,
        "open_graph": dict([pair for pair in graph if pair[1]][:MAX_OPEN_GRAPH]),
        "schema": schema,
    }


def _related(head: LexborNode | None, root: LexborNode | None, base: Base) -> dict[str, Any]:
    """Returns the feeds that a head names, and the first picture within `root`, if one is given."""
    nodes = head.css(_FEED_LINKS) if head is not None else []
    addresses = [node.attributes.get("href") or "" for node in nodes[:MAX_FEEDS]]
    feeds = dict.fromkeys(joined for address in addresses if (joined := joined_url(base, address)))
    picture = root.css_first(_PICTURES) if root is not None else None
    return {
        "feeds": list(feeds),
        "first_image": joined_url(base, picture.attributes.get("src") or "") if picture is not None else None,
    }


def _simplified(document: Document) -> dict[str, bool]:
    return {"simplified": True} if document.simplified else {}


def _author(named: dict[str, str], schema: list[LinkedObject], microdata: dict[str, str]) -> str | None:
    candidates = (*map(named.get, _AUTHORS), first_text(schema, "author", "creator"), microdata.get("author"))
    for author in candidates:
        # for Facebook it is the address of a profile, not a name
        if author and (name := _collapsed(author, MAX_AUTHOR)) and "://" not in name:
            return name
    return None


def _published_at(
    named: dict[str, str], schema: list[LinkedObject], elements: PageElements, url: str
) -> datetime | None:
    candidates = [
        first_text(schema, "datePublished", "uploadDate", "dateCreated"),
        *map(named.get, _PUBLISHED),
    ]
    candidates += [
        elements.microdata.get("datePublished"),
        *(elements.times if len(elements.times) == 1 else ()),
    ]
    for text in candidates:
        if text and (moment := read_date(text)):
            return moment
    return date_in_path(urlsplit(url).path)


def _image_url(
    named: dict[str, str], schema: list[LinkedObject], microdata: dict[str, str], base: Base
) -> str | None:
    candidates = [*map(named.get, _IMAGES), first_text(schema, "image"), microdata.get("image")]
    for address in candidates:
        if address and (joined := joined_url(base, address)):
            return joined
    return None


def _first(named: dict[str, str], names: Iterable[str]) -> str | None:
    return next(filter(None, map(named.get, names)), None)


def _title(tree: LexborHTMLParser) -> str | None:
    head = tree.head
    for node in head.css("title") if head is not None else []:
        return _collapsed(node.text(), MAX_TITLE)
    for node in tree.css("title")[:_MOST_TITLES]:  # misplaced in the body, where drawings have titles too
        if not _is_inside_svg(node):
            return _collapsed(node.text(), MAX_TITLE)
    return None


def _is_inside_svg(node: LexborNode) -> bool:
    parent = node.parent
    for _ in range(_DEEPEST_TITLE):
        if parent is None or parent.tag == "svg":
            break
        parent = parent.parent
    return parent is not None


def _contents(metas: list[Attributes], attribute: str) -> dict[str, str]:
    """Returns the content of each <meta> by the lower-cased value of an attribute; the first counts."""
    contents: dict[str, str] = {}
    for meta in metas:
        if name := meta.get(attribute):
            contents.setdefault(name.strip().lower(), meta.get("content") or "")
    return contents


def _language(tree: LexborHTMLParser, pragmas: dict[str, str], locale: str | None) -> str | None:
    root = tree.root
    attributes = root.attributes if root is not None else {}
    candidates = attributes.get("lang"), attributes.get("xml:lang"), pragmas.get("content-language"), locale
    for value in candidates:
        if value and (match := _LANGUAGE.match(value)):
            return match[1].lower()
    return None


def page_base(document: Document) -> Base:
    """Returns the base of the addresses in a page."""
    page = Base(document.url, document.encode)
    url = joined_url(page, document.base) if document.base is not None else None
    return page.moved(url) if url else page


def _canonical_url(tree: LexborHTMLParser, base: Base) -> str | None:
    """Returns the canonical URL of a <link> in the head; elsewhere it may come from a visitor's comment."""
    node = tree.head.css_first("link[rel~=canonical i][href]") if tree.head is not None else None
    return joined_url(base, node.attributes.get("href") or "") if node is not None else None


def joined_url(base: Base, href: str) -> str | None:
    """Returns the URL of an address in a page; None if it is invalid, too long, or not of the web."""
    try:
        joined: str = ada_url.join_url(base.url, base.encoded(href.strip()))
    except ValueError:
        return None
    return joined if joined.startswith(("http://", "https://")) and len(joined) <= MAX_URL else None


def _collapsed(text: str | None, limit: int) -> str | None:
    return cleaned(text, limit) or None if text else None


@dataclass(slots=True)
class PageElements:
    """The elements of a page that have facts, from one search through its tree.

    headings    the texts of h1 to h3, by tag
    scripts     the texts of JSON-LD scripts
    times       the `datetime` of <time> elements
    microdata   the first value of each property in `_MICRODATA`
    types       the names of itemtypes
    """

    headings: dict[str, list[str]] = field(default_factory=dict)
    scripts: list[str] = field(default_factory=list)
    times: list[str | None] = field(default_factory=list)
    microdata: dict[str, str] = field(default_factory=dict)
    types: list[str] = field(default_factory=list)


def search_elements(tree: LexborHTMLParser) -> PageElements:
    """Returns the elements of a tree."""
    elements = PageElements()
    headings = 0
    for node in {node.mem_id: node for node in tree.css(_ELEMENTS)}.values():
        tag = node.tag or ""
        if tag in _HEADINGS:
            headings += 1
            text = cleaned(node.text(), MAX_HEADING) if headings <= MAX_HEADINGS else None
            if text:
                elements.headings.setdefault(tag, []).append(text)
        elif tag == "script":
            elements.scripts.append(node.text())
            continue
        attributes = node.attributes
        if tag == "time" and "datetime" in attributes and "itemprop" not in attributes:
            elements.times.append(attributes["datetime"])
        if attributes and ("itemprop" in attributes or "itemtype" in attributes):
            _take_microdata(node, attributes, elements)
    return elements


def _take_microdata(node: LexborNode, attributes: Attributes, elements: PageElements) -> None:
    kind = cleaned((attributes.get("itemtype") or "").strip().rstrip("/").rpartition("/")[2])
    if kind and kind not in elements.types and len(elements.types) < _MAX_TYPES:
        elements.types.append(kind)
    for name in (attributes.get("itemprop") or "").split()[:5]:
        if name in _MICRODATA and name not in elements.microdata:
            named = ("content",) if name == "author" else ("content", "datetime", "href", "src")
            value = next(filter(None, map(attributes.get, named)), None)
            elements.microdata[name] = value or cleaned(_name_in(node) if name == "author" else node.text())


def _name_in(author: LexborNode) -> str:
    """The name in the microdata, hCard or h-card of a person or organization; all text without them."""
    name = author.css_first("[itemprop~=name],.fn,.p-name")
    return (name.attributes.get("content") or name.text() if name is not None else "") or author.text()
