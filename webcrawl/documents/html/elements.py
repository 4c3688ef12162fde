"""The elements of an HTML page from which facts are read, found in one search through its tree."""

from __future__ import annotations

from dataclasses import dataclass, field

from selectolax.lexbor import LexborHTMLParser, LexborNode

from webcrawl.documents.html.linked_data import cleaned
from webcrawl.documents.link_elements import Attributes

MAX_HEADINGS = 50
MAX_HEADING = 200
_MAX_TYPES = 20

# a node that several selectors of a plain list match would be returned once for each of them
_ELEMENTS = ":is(h1,h2,h3,time[datetime],[itemprop],[itemtype],script[type='application/ld+json'])"
_HEADINGS = frozenset({"h1", "h2", "h3"})
_MICRODATA = frozenset({"author", "datePublished", "image"})


@dataclass(slots=True)
class PageElements:
    """What the search through the tree finds.

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


def search(tree: LexborHTMLParser) -> PageElements:
    """Returns the elements of a tree."""
    found = PageElements()
    headings = 0
    for node in tree.css(_ELEMENTS):
        tag = node.tag or ""
        if tag in _HEADINGS:
            headings += 1
            text = cleaned(node.text(), MAX_HEADING) if headings <= MAX_HEADINGS else None
            if text:
                found.headings.setdefault(tag, []).append(text)
        elif tag == "script":
            found.scripts.append(node.text())
            continue
        attributes = node.attributes
        if tag == "time" and "itemprop" not in attributes:
            found.times.append(attributes.get("datetime"))
        if attributes and ("itemprop" in attributes or "itemtype" in attributes):
            _take_microdata(node, attributes, found)
    return found


def _take_microdata(node: LexborNode, attributes: Attributes, found: PageElements) -> None:
    kind = cleaned((attributes.get("itemtype") or "").strip().rstrip("/").rpartition("/")[2])
    if kind and kind not in found.types and len(found.types) < _MAX_TYPES:
        found.types.append(kind)
    for name in (attributes.get("itemprop") or "").split()[:5]:
        if name in _MICRODATA and name not in found.microdata:
            values = map(attributes.get, ("content", "datetime", "href", "src"))
            found.microdata[name] = next(filter(None, values), None) or cleaned(node.text())
