"""Finds the addresses in an HTML page that a browser would open or load, and the anchors for fragments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple
from urllib.parse import quote, unquote

from selectolax.lexbor import LexborHTMLParser, LexborNode

from webcrawl.documents.document import Document
from webcrawl.documents.html.links import collect
from webcrawl.documents.link_elements import LAZY_SOURCES
from webcrawl.errors import InvalidURL
from webcrawl.urls.canonical import Base

Use = Literal["opened", "loaded", "named"]
"""How a browser uses an address: opens it on a click, loads it with the page, or neither (the action of a form)."""

_OPENED = {"a": "href", "area": "href"}
_LOADED = {
    "link": "href",
    "img": " ".join(("src", *LAZY_SOURCES)),
    "image": "href",
    "feImage": "href",
    "use": "href",
    "script": "src",
    "iframe": " ".join(("src", *LAZY_SOURCES)),
    "frame": "src",
    "source": "src data-src",
    "audio": "src data-src",
    "video": "src poster data-src data-poster",
    "track": "src",
    "embed": "src",
    "object": "data",
    "input": "src",
} | dict.fromkeys(("body", "table", "thead", "tbody", "tfoot", "tr", "td", "th"), "background")
_NAMED = {"form": "action", "button": "formaction", "input": "formaction"} | dict.fromkeys(
    ("blockquote", "q", "ins", "del"), "cite"
)
_TABLES: dict[Use, dict[str, str]] = {"opened": _OPENED, "loaded": _LOADED, "named": _NAMED}
_USES = {
    (tag, name): use for use, tags in _TABLES.items() for tag, names in tags.items() for name in names.split()
}
_ATTRIBUTES: dict[str, list[str]] = {}
for _tag, _name in _USES:
    _ATTRIBUTES.setdefault(_tag, []).append(_name)
_QUERY = ",".join(f"{tag}[{name}]" for tag, name in _USES)
_LOADED_RELATIONS = frozenset(
    {"stylesheet", "icon", "apple-touch-icon", "mask-icon", "manifest", "preload", "modulepreload"}
)
_OPENED_RELATIONS = frozenset({"next", "prev", "alternate", "canonical"})
# ASCII characters that need no escape in a fragment
_IN_FRAGMENTS = "".join(sign for sign in map(chr, range(0x21, 0x7F)) if sign not in '"<>`')


class Reference(NamedTuple):
    """An address in a page: a normalized URL, and the fragment as browsers encode it, or empty."""

    node: LexborNode
    attribute: str
    url: str
    fragment: str
    use: Use


def base_of(document: Document) -> Base:
    """Returns the base of the addresses in a page."""
    return collect(document.elements).joined_base(document.url, document.encode)


def references(tree: LexborHTMLParser, base: Base, *, templates: bool = False) -> list[Reference]:
    """Returns the http and https references of a page in document order, without invalid addresses.

    With `templates`, the references in template elements follow. A browser uses these only when a script inserts them,
    except in a template that is a shadow root.
    """
    collected = []
    for inert, node in nodes(tree, _QUERY, templates=templates):
        attributes = node.attributes
        for attribute in _ATTRIBUTES[node.tag or ""]:
            # a placeholder that a script replaces is not an address
            by_script = inert or attribute.startswith("data-")
            if by_script and "{" in (attributes.get(attribute) or ""):
                continue
            if reference := _reference(node, attribute, base):
                collected.append(reference)
    return collected


def nodes(
    tree: LexborHTMLParser, query: str, *, templates: bool = False
) -> Iterator[tuple[bool, LexborNode]]:
    """Yields the matches of a CSS query in a page, then in its templates.

    Each is an element, and whether it is in a template that is no shadow root.
    """
    for node in tree.css(query):
        yield False, node
    # nested templates have separate trees
    parts = [(False, part) for part in _contents(tree.root)] if templates else []
    while parts:
        inert, part = parts.pop()
        template = part.parent
        inert |= template is None or "shadowrootmode" not in template.attributes
        for node in part.css(query):
            yield inert, node
        parts += [(inert, inner) for inner in _contents(part)]


def _contents(node: LexborNode | None) -> list[LexborNode]:
    """Returns the contents of the templates under a node, the last first."""
    return node.template_fragments()[::-1] if node is not None else []


def _reference(node: LexborNode, attribute: str, base: Base) -> Reference | None:
    # SVG's older xlink:href is read, and written, as href
    address = node.attributes.get(attribute) or node.attributes.get(f"xlink:{attribute}") or ""
    before, _, fragment = address.strip().partition("#")
    use = _USES[node.tag or "", attribute]
    if node.tag == "link":
        relations = set((node.attributes.get("rel") or "").lower().split())
        if not relations & _LOADED_RELATIONS:
            use = "opened" if relations & _OPENED_RELATIONS else "named"
    if not before and not (use == "opened" and fragment):
        return None
    try:
        # a bare fragment refers to the page itself, whatever its base element is
        url = base.resolve(before)
    except InvalidURL:
        return None
    if url is None or not url.startswith(("http://", "https://")):
        return None
    return Reference(node, attribute, url, quote(fragment, safe=_IN_FRAGMENTS), use)


def without_directive(fragment: str) -> str:
    """Returns the fragment without a text directive (":~:text=...")."""
    return fragment.partition(":~:")[0]


class PageAnchors:
    """The anchors of a page, as browsers find them."""

    def __init__(self, document: Document) -> None:
        self._names: set[str] = set()
        for node in document.html.css("[id],a[name]"):
            attributes = node.attributes
            self._names |= {value for value in (attributes.get("id"), attributes.get("name")) if value}

    def __contains__(self, fragment: str) -> bool:
        """Returns whether the page has the anchor. All pages have "top" and the empty anchor."""
        decoded = unquote(fragment)
        return fragment in self._names or decoded in self._names or decoded.lower() in ("", "top")
