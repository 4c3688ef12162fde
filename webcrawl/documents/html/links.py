"""The links of a parsed HTML page, found with Lexbor and joined with ada, without Request objects.

The order of the steps keeps it cheap: one CSS query finds all elements, fragments are removed first (links to sections
of one page are one link), and only distinct addresses are joined.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from webcrawl.documents.document import Element
from webcrawl.errors import InvalidURL
from webcrawl.urls.canonical import Base

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


@dataclass(frozen=True, slots=True)
class PageLinks:
    """The links of a page.

    links      normalised URLs in document order, each once; URLs with rel=nofollow on every link are left out
    nofollow   the number of elements with rel=nofollow
    canonical  the normalised URL of rel=canonical, or None
    base       the URL to which relative links were joined: that of the first base element, or of the page
    malformed  the number of distinct addresses that are not valid URLs
    also_found whether links that a pipeline finds in the document are followed too
    addresses  the address of each element that was read, None if it is no link, empty if it is that of the base, and
    joined     the link of each address; both for readers of the same tree, and not sent between processes
    texts      the texts of links by URL, if they were asked for; see `webcrawl.documents.html.link_texts`
    """

    links: list[str]
    nofollow: int
    canonical: str | None
    base: str
    malformed: int
    also_found: bool = False
    addresses: Sequence[str | None] = field(default=(), compare=False, repr=False)
    joined: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    texts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PageResources:
    """The normalised URLs that a page or a resource loads; `hops`: how many resources lead to them from the page."""

    urls: list[str]
    hops: int = 1


@dataclass(slots=True)
class _Found:
    """The results of one pass over the elements: of each its address, and the distinct ones to join, in order."""

    of_elements: list[str | None] = field(default_factory=list)
    addresses: dict[str, None] = field(default_factory=dict)
    nofollow: int = 0
    canonical: str | None = None
    base: str | None = None


def page_links(elements: Iterable[Element], url: str) -> PageLinks:
    """Returns the links in the `Document.elements` of the page at `url` (normalised).

    Skips schemes that are not fetched, and links to the page itself by an empty address or a fragment alone; with a
    base element, these are links to the base. Template elements are not part of a page.
    """
    found = _collect(elements)
    base = _base(found.base, url)
    itself = link_of_fragments(base.url, url)
    joined: dict[str, str] = {}
    malformed = 0
    for address in found.addresses:
        try:
            link = base.resolve(address) if address else itself
        except InvalidURL:
            malformed += 1
        else:
            if link is not None:
                joined[address] = link
    links = list(dict.fromkeys(joined.values()))
    canonical = _resolve_or_none(found.canonical, base) if found.canonical else None
    return PageLinks(
        *(links, found.nofollow, canonical, base.url, malformed), addresses=found.of_elements, joined=joined
    )


def link_of_fragments(base: str, url: str) -> str | None:
    """Returns to which page the fragments of the page at `url` link, if that is another one."""
    return base if base != url else None


def frame_links(elements: Iterable[Element], url: str) -> list[str]:
    """Returns the frames of the frameset at `url`, normalised, without fragments, in document order, each once."""
    href, frames = None, dict[str, None]()
    for tag, attributes in elements:
        if tag == "frame":
            frames[attributes["src"] or ""] = None
        elif tag == "base" and href is None:
            href = attributes["href"] or ""
    base, links = _base(href, url) if frames else Base(url), dict[str, None]()
    for written in frames:
        if address := _without_fragment(written):
            link = _resolve_or_none(address, base)
            if link is not None and link != url:
                links[link] = None
    return list(links)


def refresh_address(content: str) -> str:
    """Returns the address in the content of a meta refresh as written; empty if it only reloads the page."""
    match = _REFRESH.match(content)
    if match is None:
        return ""
    return match["double"] or match["single"] or match["bare"] or ""


def _collect(elements: Iterable[Element]) -> _Found:
    found = _Found()
    add = found.of_elements.append
    seen: dict[str | None, str | None] = {}
    for tag, attributes in elements:
        relation = attributes.get("rel")
        tokens = relation.lower().split() if relation else ()
        if tag == "base":
            found.base = attributes["href"] or "" if found.base is None else found.base
            add(None)
            continue
        if tag == "a" and not tokens:
            if (written := attributes["href"]) not in seen:
                seen[written] = address = _address(tag, attributes, tokens)
                if address is not None:
                    found.addresses[address] = None
            add(seen[written])
            continue
        address = _address(tag, attributes, tokens)
        add(address)
        if address is None:
            continue
        if "nofollow" in tokens:
            found.nofollow += bool(address)
            continue
        found.addresses[address] = None
        if tag == "link" and found.canonical is None and "canonical" in tokens:
            found.canonical = address
    return found


def _address(tag: str, attributes: Mapping[str, str | None], tokens: Collection[str]) -> str | None:
    """Returns the address of an element without its fragment, else as written; None if it is no link.

    It may be empty in `a` and `area` only: others load nothing then. `tokens` are those of `rel` in lower case. A
    scheme that is known not to be fetched is no link.
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


def _base(href: str | None, url: str) -> Base:
    """Returns the base of links; ignores a base element that is broken or not a web address."""
    return Base((_resolve_or_none(href, Base(url)) if href else None) or url)


def _resolve_or_none(address: str, base: Base) -> str | None:
    try:
        return base.resolve(address)
    except InvalidURL:
        return None
