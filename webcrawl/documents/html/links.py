"""The links of a parsed HTML page, found with Lexbor and joined with ada, without Request objects.

The order of the steps keeps it cheap: one CSS query finds all elements, fragments are removed first (links to sections
of one page are one link), and only distinct addresses are joined. The addresses are collected first and joined later,
so that the tree of a large page need not be in memory together with its links.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, NamedTuple, Self, overload

from webcrawl.documents.document import Document
from webcrawl.documents.encodings import Encode
from webcrawl.documents.link_elements import Element
from webcrawl.errors import InvalidURL
from webcrawl.urls.canonical import Base

MAX_FRAMES = 1_000
"""The frames of a page that are listed apart from its other links."""
_LINK_RELATIONS = frozenset({"canonical", "next", "prev", "alternate"})

# What WHATWG strips around a URL. ada removes tabs and line ends within it.
_C0_OR_SPACE = "".join(map(chr, range(33)))
_OTHER_SCHEME = re.compile(r"[\x00-\x20]*(?!https?:)[a-z][a-z0-9+.-]*:(?!//)", re.IGNORECASE)

# The "shared declarative refresh steps" of the HTML standard: "5; url=x", "0,URL = 'x'", ".5 x", "0;x".
_REFRESH = re.compile(
    r"""[\t\n\f\r ]* (?:\d[\d.]*|\.[\d.]*) [\t\n\f\r ]* (?:[;,]|(?<=[\t\n\f\r ])) [\t\n\f\r ]*
    (?:url[\t\n\f\r ]*=[\t\n\f\r ]*)? (?:"(?P<double>[^"]*)|'(?P<single>[^']*)|(?P<bare>.*))""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)

# Links to pages in the Link header (RFC 8288):
_HEADER_RELATIONS = frozenset({"canonical", "next", "prev", "previous", "alternate"})
_MAX_HEADER_LINKS = 100
# "<address>" and its parameters, up to the comma before the next one; quoted strings may contain commas.
_HEADER_LINK = re.compile(r"""<([^<>]*)>((?:[^",<]|"(?:[^"\\]|\\.)*")*)""")
_PARAMETER = re.compile(r""";\s*([a-z*]+)\s*(?:=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s";,]*)))?""", re.IGNORECASE)

MANY_LINKS = 5_000
"""A page with more links is sent with `ManyLinks`."""
_PART_SIZE = 500


@dataclass(frozen=True, slots=True)
class PageLinks:
    """The links of a page.

    links      normalised URLs in document order, each once; URLs with rel=nofollow on every link are left out. A list,
               or the `ManyLinks` of a page that was read in another process
    nofollow   the number of elements with rel=nofollow
    canonical  the normalised URL of rel=canonical, or None
    base       the URL to which relative links were joined: that of the first base element, or of the page
    malformed  the number of distinct addresses that are not valid URLs
    with_document_links  whether links that a pipeline finds in the document are followed too
    addresses  the address of each element: None for no link, empty for a link to the base; and
    joined     the link of each address; both for readers of the same tree, and not sent between processes
    redirects  those of `links` to which a script goes; for readers of the same tree
    texts      the texts of links by URL, if they were asked for; see `webcrawl.documents.html.link_texts`
    """

    links: Sequence[str]
    nofollow: int
    canonical: str | None
    base: str
    malformed: int
    with_document_links: bool = False
    addresses: Sequence[str | None] = field(default=(), compare=False, repr=False)
    joined: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    texts: Mapping[str, str] = field(default_factory=dict)
    redirects: Sequence[str] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class PageResources:
    """The normalised URLs that a page or a resource loads; `hops`: how many resources lead to them from the page."""

    urls: list[str]
    hops: int = 1


@dataclass(slots=True)
class PageAddresses:
    """The addresses in the elements of a page: of each element, and the distinct addresses to join, in order."""

    of_elements: list[str | None] = field(default_factory=list)
    addresses: dict[str, None] = field(default_factory=dict)
    nofollow: int = 0
    canonical: str | None = None
    base: str | None = None

    def joined(self, url: str, most: float = math.inf, encode: Encode | None = None) -> PageLinks:
        """Returns the links of the page at `url` (normalised), of up to `most` characters in all.

        Skips links to the page itself by an empty address or a fragment alone; with a base element, these are links to
        the base. `encode`: see `Base`.
        """
        base = self.joined_base(url, encode)
        itself = link_of_fragments(base.url, url)
        joined: dict[str, str] = {}
        malformed = 0
        for address in self.addresses:
            try:
                link = base.resolve(address) if address else itself
            except InvalidURL:
                malformed += 1
            else:
                if link is not None:
                    most -= len(link)
                    if most < 0:  # a page may have a base of 8,000 characters and thousands of short links
                        break
                    joined[address] = link
        links = list(dict.fromkeys(joined.values()))
        canonical = _resolve_or_none(self.canonical, base) if self.canonical else None
        return PageLinks(
            *(links, self.nofollow, canonical, base.url, malformed),
            addresses=self.of_elements,
            joined=joined,
        )

    def joined_base(self, url: str, encode: Encode | None = None) -> Base:
        """Returns the base of the links of the page at `url`; `encode`: see `Base`."""
        return _base(self.base, url, encode)


def link_of_fragments(base: str, url: str) -> str | None:
    """Returns the page to which the fragments of the page at `url` link, or None for the page itself."""
    return base if base != url else None


def frame_links(document: Document) -> list[str]:
    """Returns the first MAX_FRAMES frames of a frameset, normalised, without fragments, each once."""
    if not document.has_frames:
        return []
    href, frames = None, dict[str, None]()
    for tag, attributes in document.elements:
        if tag == "frame" and len(frames) < MAX_FRAMES:
            frames[attributes["src"] or ""] = None
        elif tag == "base" and href is None:
            href = attributes["href"] or ""
    base, links = _base(href, document.url, document.encode), dict[str, None]()
    for written in frames:
        if address := _without_fragment(written):
            link = _resolve_or_none(address, base)
            if link is not None and link != document.url:
                links[link] = None
    return list(links)


def refresh_address(content: str) -> str:
    """Returns the address in the content of a meta refresh as written; empty if it only reloads the page."""
    match = _REFRESH.match(content)
    if match is None:
        return ""
    return match["double"] or match["single"] or match["bare"] or ""


def collect(elements: Iterable[Element]) -> PageAddresses:
    """Returns the addresses in the `Document.elements` of a page, without schemes that are not fetched.

    Template elements are not part of a page.
    """
    page = PageAddresses()
    add = page.of_elements.append
    addresses = page.addresses
    # only addresses that differ from what is written; a dictionary of all would take as much memory again
    changed: dict[str | None, str | None] = {}
    for tag, attributes in elements:
        relation = attributes.get("rel")
        if tag == "a" and not relation:
            written = address = attributes["href"]
            if written and written[0] == "#":  # a section of the page, as of many links
                address = ""
                addresses[""] = None
            elif written not in addresses:
                if written in changed:
                    address = changed[written]
                elif (address := _address(tag, attributes, ())) != written:
                    changed[written] = address
                if address is not None:
                    addresses[address] = None
            add(address)
            continue
        tokens = relation.lower().split() if relation else ()
        if tag == "base":
            page.base = attributes["href"] or "" if page.base is None else page.base
            add(None)
            continue
        address = _address(tag, attributes, tokens)
        add(address)
        if address is None:
            continue
        if "nofollow" in tokens:
            page.nofollow += bool(address)
            continue
        addresses[address] = None
        if tag == "link" and page.canonical is None and "canonical" in tokens:
            page.canonical = address
    return page


def _address(tag: str, attributes: Mapping[str, str | None], tokens: Collection[str]) -> str | None:
    """Returns the address of an element without its fragment, else as written; None if it is no link.

    It may be empty in `a` and `area` only: other elements load nothing then. `tokens` are the words of `rel` in lower
    case. An address whose scheme is not fetched is no link.
    """
    is_anchor = tag in ("a", "area")
    address = attributes["href"] or "" if is_anchor else _other_address(tag, attributes, tokens)
    if address and ("#" in address or address[-1] <= " "):
        address = _without_fragment(address)
    if not address:
        return "" if is_anchor else None
    return None if ":" in address and _OTHER_SCHEME.match(address) else address


def _other_address(tag: str, attributes: Mapping[str, str | None], tokens: Collection[str]) -> str | None:
    """Returns the address in an element other than `a` and `area`; None if it is no page (an icon)."""
    if tag == "link":
        is_page = not _LINK_RELATIONS.isdisjoint(tokens) and "stylesheet" not in tokens
        return attributes["href"] if is_page else None
    if tag == "meta":
        refreshes = (attributes.get("http-equiv") or "").strip().lower() == "refresh"
        return refresh_address(attributes["content"] or "") if refreshes else None
    return attributes["src"]


def _without_fragment(address: str) -> str:
    """Returns an address without its fragment; empty if it is only a fragment."""
    before, mark, _ = address.partition("#")
    if before[-1:] > " ":
        return before
    # "a #b" means "a%20": without the mark the space would be stripped at the end
    return before + mark if before.strip(_C0_OR_SPACE) else ""


def _base(href: str | None, url: str, encode: Encode | None) -> Base:
    """Returns the base of links; ignores a base element that is broken or not a web address."""
    base = Base(url, encode)
    moved = _resolve_or_none(href, base) if href else None
    return base.moved(moved) if moved else base


def _resolve_or_none(address: str, base: Base) -> str | None:
    try:
        return base.resolve(address)
    except InvalidURL:
        return None


class HeaderLink(NamedTuple):
    """An address as written, and whether it is the canonical address of the page."""

    address: str
    canonical: bool


def header_links(values: Iterable[str]) -> Iterator[HeaderLink]:
    """Yields the links to pages in Link headers, without links whose context is another page (anchor)."""
    for count, match in enumerate(match for value in values for match in _HEADER_LINK.finditer(value)):
        if count == _MAX_HEADER_LINKS:
            return
        parameters: dict[str, str] = {}
        for name, quoted, bare in _PARAMETER.findall(match[2]):
            parameters.setdefault(name.lower(), quoted or bare)
        relations = parameters.get("rel", "").lower().split()
        if "anchor" in parameters or "nofollow" in relations or "stylesheet" in relations:
            continue
        if not _HEADER_RELATIONS.isdisjoint(relations):
            yield HeaderLink(match[1], "canonical" in relations)


class ManyLinks(Sequence[str]):
    """A sequence of URLs that takes a third of the memory of a list, and leaves no gaps in memory when it is freed.

    parts   the URLs, joined by line feeds, 500 in each part but the last; raises ValueError for other parts
    """

    __slots__ = ("__weakref__", "_length", "parts")

    def __init__(self, parts: list[str]) -> None:
        counts = [part.count("\n") + 1 for part in parts]
        if any(count != _PART_SIZE for count in counts[:-1]) or any(
            count > _PART_SIZE for count in counts[-1:]
        ):
            raise ValueError("not the parts of many links")
        self.parts = parts
        self._length = sum(counts)

    @classmethod
    def of(cls, links: Iterable[str]) -> Self:
        remaining, parts = iter(links), list[str]()
        while part := list(islice(remaining, _PART_SIZE)):
            parts.append("\n".join(part))
        return cls(parts)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            start, stop, step = index.indices(self._length)
            if step < 1:
                return list(self)[index]
            first = start // _PART_SIZE
            near = chain.from_iterable(
                part.split("\n") for part in self.parts[first : -(-stop // _PART_SIZE)]
            )
            return list(islice(near, start - first * _PART_SIZE, max(start, stop) - first * _PART_SIZE, step))
        part, position = divmod(range(self._length)[index], _PART_SIZE)
        return self.parts[part].split("\n")[position]

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(part.split("\n") for part in self.parts)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Sequence) and not isinstance(other, str) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<ManyLinks {self._length}>"
