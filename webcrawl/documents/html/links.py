"""The links of a parsed HTML page, found with Lexbor and joined with ada, without a Request for any.

The order of work is what makes it cheap: one CSS query for all elements, fragments cut off before anything
else (a page's index of its own sections is one link), and only distinct addresses are joined.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from webcrawl.documents.document import Element
from webcrawl.errors import InvalidURL
from webcrawl.urls.canonical import Base

_LINK_RELATIONS = frozenset({"canonical", "next", "prev", "alternate"})

# What WHATWG strips around a URL. Tabs and line ends inside of one are removed by ada.
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
    """Where a page leads to.

    links      normalised URLs in document order, each once; without those marked rel=nofollow everywhere
    nofollow   elements left out because of rel=nofollow
    canonical  the page's own opinion of its address, normalised; None where it has none
    base       what relative links were joined to: the first base element's, or the page's URL
    malformed  distinct addresses that no browser could open either
    also_found whether links that a pipeline finds in the document are to be followed too
    """

    links: list[str]
    nofollow: int
    canonical: str | None
    base: str
    malformed: int
    also_found: bool = False


@dataclass(slots=True)
class _Found:
    """What one pass over the elements collects: addresses as written, the distinct ones in document order."""

    addresses: dict[str, None] = field(default_factory=dict)
    nofollow: int = 0
    canonical: str | None = None
    base: str | None = None


def page_links(elements: Iterable[Element], url: str) -> PageLinks:
    """The links of a page that came from `url` (normalised), from its `Document.elements`.

    Links of schemes that nobody fetches and mere fragments are passed over; those in a template element are no part
    of the page.
    """
    found = _collect(elements)
    base = _joining(found.base, url)
    joined: dict[str, None] = {}
    malformed = 0
    for address in found.addresses:
        try:
            link = base.resolve(address)
        except InvalidURL:
            malformed += 1
        else:
            if link is not None:
                joined[link] = None
    canonical = _resolve_or_none(found.canonical, base) if found.canonical else None
    return PageLinks(list(joined), found.nofollow, canonical, base.url, malformed)


def frame_links(elements: Iterable[Element], url: str) -> list[str]:
    """The frames of a frameset that came from `url`, normalised and without fragment, in document order, each once."""
    found = list(elements)
    base = _joining(next((said["href"] or "" for tag, said in found if tag == "base"), None), url)
    links: dict[str, None] = {}
    for tag, attributes in found:
        if tag == "frame" and (address := _without_fragment(attributes["src"] or "")):
            link = _resolve_or_none(address, base)
            if link is not None and link != url:
                links[link] = None
    return list(links)


def refresh_address(content: str) -> str:
    """The address in the content of a meta refresh as written; empty where it only reloads the page."""
    match = _REFRESH.match(content)
    if match is None:
        return ""
    return match["double"] or match["single"] or match["bare"] or ""


def _collect(elements: Iterable[Element]) -> _Found:
    found = _Found()
    met: set[str | None] = set()
    for tag, attributes in elements:
        relation = attributes.get("rel")
        tokens = relation.lower().split() if relation else ()
        if tag == "a":
            address = attributes["href"]
            if not tokens:
                if address in met:
                    continue
                met.add(address)
        elif tag == "base":
            found.base = attributes["href"] or "" if found.base is None else found.base
            continue
        else:
            address = _other_address(tag, attributes, tokens)
        if address and ("#" in address or address[-1] <= " "):
            address = _without_fragment(address)
        if not address or (":" in address and _OTHER_SCHEME.match(address)):
            continue
        if "nofollow" in tokens:
            found.nofollow += 1
            continue
        found.addresses[address] = None
        if tag == "link" and found.canonical is None and "canonical" in tokens:
            found.canonical = address
    return found


def _other_address(tag: str, attributes: Mapping[str, str | None], tokens: Collection[str]) -> str | None:
    """The address in an element other than a; None where it leads to no page (a style sheet, an icon)."""
    if tag == "link":
        leads_on = not _LINK_RELATIONS.isdisjoint(tokens) and "stylesheet" not in tokens
        return attributes["href"] if leads_on else None
    if tag == "meta":
        refreshes = (attributes.get("http-equiv") or "").strip().lower() == "refresh"
        return refresh_address(attributes["content"] or "") if refreshes else None
    return attributes["href" if tag == "area" else "src"]


def _without_fragment(address: str) -> str:
    """The address up to its fragment; empty where nothing but a fragment is left."""
    before, mark, _ = address.partition("#")
    if before[-1:] > " ":
        return before
    # "a #b" means "a%20": without the mark the space would be at the end, where it is stripped.
    return before + mark if before.strip(_C0_OR_SPACE) else ""


def _joining(href: str | None, url: str) -> Base:
    """What links are joined to: a base element that is broken, or no web address, is as good as none."""
    return Base((_resolve_or_none(href, Base(url)) if href else None) or url)


def _resolve_or_none(address: str, base: Base) -> str | None:
    try:
        return base.resolve(address)
    except InvalidURL:
        return None
