"""Every address in an HTML page that a browser would open or load, with its fragment; and where fragments lead."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote

from selectolax.lexbor import LexborNode

from webcrawl.document import Document
from webcrawl.errors import InvalidURL
from webcrawl.links import page_links
from webcrawl.urls import resolve

_LINKS = {"a": ("href",), "area": ("href",)}
_LOADED = {
    "link": ("href",),
    "img": ("src",),
    "image": ("href",),
    "script": ("src",),
    "iframe": ("src",),
    "frame": ("src",),
    "source": ("src",),
    "audio": ("src",),
    "video": ("src", "poster"),
    "track": ("src",),
    "embed": ("src",),
    "object": ("data",),
    "input": ("src",),
}
_ATTRIBUTES = _LINKS | _LOADED
_QUERY = ",".join(f"{tag}[{name}]" for tag, names in _ATTRIBUTES.items() for name in names)
_ICONS_AND_STYLES = frozenset({"stylesheet", "icon", "apple-touch-icon", "mask-icon", "manifest", "preload"})


class Reference(NamedTuple):
    """An address in a page: normalised and without its fragment, which is decoded and empty where there is none."""

    node: LexborNode
    attribute: str
    url: str
    fragment: str
    is_link: bool
    """To be opened, not loaded with the page."""


def references(document: Document) -> list[Reference]:
    """Those of a page in its order; other schemes than http and https, and addresses that are none, are left out."""
    base = page_links(document.elements, document.url).base
    found = []
    for node in document.html.css(_QUERY):
        tag = node.tag or ""
        for attribute in _ATTRIBUTES[tag]:
            reference = _reference(node, attribute, base, tag in _LINKS)
            if reference is not None:
                found.append(reference)
    return found


def _reference(node: LexborNode, attribute: str, base: str, is_link: bool) -> Reference | None:
    # SVG's older name of the same is found, and set, under the new one
    address = node.attributes.get(attribute) or node.attributes.get(f"xlink:{attribute}") or ""
    before, _, fragment = address.strip().partition("#")
    if node.tag == "link":
        relations = set((node.attributes.get("rel") or "").lower().split())
        is_link = not relations & _ICONS_AND_STYLES
        if is_link and not relations & {"next", "prev", "alternate", "canonical"}:
            return None
    if not before and not (is_link and fragment):
        return None
    try:
        # a mere fragment leads into the page itself, whatever its base element says
        url = resolve(before, base)
    except InvalidURL:
        return None
    if url is None or not url.startswith(("http://", "https://")):
        return None
    return Reference(node, attribute, url, unquote(fragment), is_link)


def anchors(document: Document) -> set[str]:
    """The fragments that lead to a place in a page; "top" and the empty one do in any."""
    found = {"", "top"}
    for node in document.html.css("[id],a[name]"):
        attributes = node.attributes
        found |= {value for value in (attributes.get("id"), attributes.get("name")) if value}
    return found
