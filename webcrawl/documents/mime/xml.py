"""Parses XML from the web: fetches nothing and expands no entities."""

from __future__ import annotations

from lxml import etree

from webcrawl.errors import UnreadableDocument

SAFE_OPTIONS = {
    "resolve_entities": False,
    "no_network": True,
    "load_dtd": False,
    "huge_tree": False,
    "remove_comments": True,
    "remove_pis": True,
}
"""Options of lxml's parsers: fetch nothing, expand no entities, keep libxml2's limits of depth and size."""


def parse(data: bytes) -> etree._Element:
    """Returns the root of XML without fetching or expanding anything; raises UnreadableDocument."""
    parser = etree.XMLParser(**SAFE_OPTIONS)
    try:
        root = etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise UnreadableDocument(f"is broken: {error}") from error
    if root is None:
        raise UnreadableDocument("is broken: its XML has no element")
    return root


def local(element: etree._Element) -> str:
    """Returns the name of an element without its namespace."""
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def first_texts(root: etree._Element) -> dict[str, str]:
    """Returns the text of each element below `root` by its local name in lower case; the first counts."""
    texts: dict[str, str] = {}
    for element in root.iter():
        if element.text and (text := element.text.strip()):
            texts.setdefault(local(element).lower(), text)
    return texts
