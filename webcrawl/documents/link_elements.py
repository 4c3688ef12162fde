"""The elements of a page with a link, and its <meta content>. A single search of the tree serves all readers.

Also the attributes from which scripts load images, backgrounds and frames when a reader scrolls to them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias, overload

from selectolax.lexbor import LexborHTMLParser, LexborNode

Attributes: TypeAlias = dict[str, str | None]
"""The attributes of an element, by name."""
Element: TypeAlias = tuple[str, Attributes]
"""Name and attributes."""

LAZY_SOURCES = ("data-src", "data-lazy-src", "data-original")
"""The attributes that such scripts copy to `src`, which has a placeholder or is absent until then."""
LAZY_SOURCE_SETS = ("data-srcset", "data-lazy-srcset")
"""The attributes that such scripts copy to `srcset`."""

LAZY_BACKGROUNDS = ("data-bg", "data-background", "data-background-image")
"""The attributes that such scripts copy to the style of any element; they hold an address or `url()`."""

# Lexbor selects by three attributes in half the time that it needs for seven element names; so the name of <iframe> is
# compared once.
_SELECTOR = f":is([href],[src],[content],iframe:is({','.join(f'[{name}]' for name in LAZY_SOURCES)}))"
_LINK_ATTRIBUTES = {
    "a": "href",
    "area": "href",
    "link": "href",
    "base": "href",
    "frame": "src",
    "iframe": "src",
    "meta": "content",
}
# Other scripts keep a colour or the name of a theme in such an attribute.
_BACKGROUND = re.compile(r"(?i)\s*+(?:url\(|[^\s()]*/|[^\s()]+\.(?:avif|gif|jpe?g|png|svg|webp)\b)")
_FIRST_OF_A_SET = re.compile(r"[\s,]*+(\S*+)")
_LONGEST = 5_000


def _by_number(attributes: dict[str, str]) -> dict[int, tuple[str, str]]:
    """Returns names by Lexbor's numbers of elements: reading the number of an element is cheaper than its name."""
    tree = LexborHTMLParser("")
    return {tree.create_node(name).tag_id: (name, attribute) for name, attribute in attributes.items()}


_OLD_LINK = "xlink:href"
"""The attribute that an `a` of SVG may have instead of `href`."""

_LINK_ELEMENTS = _by_number(_LINK_ATTRIBUTES)

MANY_ELEMENTS = 5_000
"""The most elements whose attributes are kept in memory."""
MAX_METAS = 1_000
"""The most <meta content> elements that are read: a page of 8 MB may have 190,000, and each page is read."""
_MAX_BASES = 100
_MAX_DEPTH = 1_000
"""The most <base> elements that are looked at, and their ancestors: in SVG, 500,000 of them may be nested."""
_OUTSIDE_HTML = frozenset({"svg", "math"})
_HTML_AGAIN = frozenset({"foreignObject", "desc", "title", "mi", "mo", "mn", "ms", "mtext"})
"""Elements of SVG and MathML whose content is HTML ("integration points" in the HTML Standard)."""


class ManyElements(Sequence[Element]):
    """The elements of a page that has more than `MANY_ELEMENTS`.

    Reads the attributes from the tree each time, because the attributes of 200,000 links would take 75 MB.
    """

    __slots__ = ("_nodes",)

    def __init__(self, nodes: Sequence[LexborNode]) -> None:
        self._nodes = nodes

    def __len__(self) -> int:
        return len(self._nodes)

    @overload
    def __getitem__(self, index: int) -> Element: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Element]: ...

    def __getitem__(self, index: int | slice) -> Element | Sequence[Element]:
        if isinstance(index, slice):
            return ManyElements(self._nodes[index])
        return _element(self._nodes[index])

    def __iter__(self) -> Iterator[Element]:
        return map(_element, self._nodes)

    def taken(self) -> Iterator[Element]:
        """Yields the elements, and frees each node before the next."""
        nodes, self._nodes = list(reversed(self._nodes)), ()
        while nodes:
            yield _element(nodes.pop())


def _element(node: LexborNode) -> Element:
    tag, attribute = _LINK_ELEMENTS[node.tag_id]
    attributes = node.attributes
    if attribute == "src" and (address := frame_address(attributes)):
        attributes["src"] = address
    if attribute not in attributes:
        attributes[attribute] = attributes.get(_OLD_LINK)
    return tag, attributes


def _is_html(node: LexborNode) -> bool:
    """Returns whether an element belongs to HTML; in SVG and MathML, its name has no meaning."""
    parent = node.parent
    for _ in range(_MAX_DEPTH):
        if parent is None or parent.tag in _HTML_AGAIN:
            return True
        if parent.tag in _OUTSIDE_HTML:
            return False
        parent = parent.parent
    return False


class LinkElements(NamedTuple):
    """The elements of `Document.elements`, the attributes of its <meta content>, and whether it has a <frame>.

    base   the address of the first <base>, wherever it is in the page; None without one
    """

    elements: Sequence[Element]
    metas: list[Attributes]
    has_frames: bool
    base: str | None


def search(tree: LexborHTMLParser, nodes: list[LexborNode] | None = None) -> LinkElements:
    """Searches a tree for elements with links; appends their nodes to `nodes`."""
    selected = tree.css(_SELECTOR)
    page_elements: list[Element] = []
    metas: list[Attributes] = []
    are_many, has_frames = len(selected) > MANY_ELEMENTS, False
    if are_many and nodes is None:
        nodes = []
    bases, base = 0, None
    for node in selected:
        known = _LINK_ELEMENTS.get(node.tag_id)
        if known is not None:
            attributes = node.attributes
            tag, attribute = known
            if tag == "a" and attribute in attributes and not are_many:  # as most
                page_elements.append((tag, attributes))
                if nodes is not None:
                    nodes.append(node)
                continue
            if attribute == "src":
                has_frames |= tag == "frame"
                if address := frame_address(attributes):
                    attributes["src"] = address
            if attribute not in attributes:
                # in SVG and MathML, Lexbor selects by this attribute too
                if tag != "a" or _OLD_LINK not in attributes:
                    continue
                attributes[attribute] = attributes[_OLD_LINK]
            if tag == "meta":
                if len(metas) == MAX_METAS:
                    continue
                metas.append(attributes)
            if tag == "base":
                if (bases := bases + 1) > _MAX_BASES or not _is_html(node):
                    continue
                base = attributes[attribute] or "" if base is None else base
            if not are_many:
                page_elements.append((tag, attributes))
            if nodes is not None:
                nodes.append(node)
    all_elements = page_elements if nodes is None or not are_many else ManyElements(nodes)
    return LinkElements(all_elements, metas, has_frames, base)


def image_addresses(attributes: Mapping[str, str | None]) -> Iterator[str]:
    """Yields the addresses of an image as written, the best first; a browser shows the first that it can load.

    Of a set of sources, yields the first. Skips patterns of addresses, such as "i_{width}.jpg".
    """
    for name in (*LAZY_SOURCES, "src", *LAZY_SOURCE_SETS, "srcset"):
        address = attributes.get(name)
        if address and not ("{" in address and name.startswith("data-")):
            if name.endswith("srcset"):
                match = _FIRST_OF_A_SET.match(address, 0, _LONGEST)
                address = match[1].rstrip(",") if match else ""
            yield address


def frame_address(attributes: Mapping[str, str | None]) -> str | None:
    """Returns the address that a script copies to the `src` of a frame as written, or None."""
    return next(
        (address for name in LAZY_SOURCES if (address := attributes.get(name)) and "{" not in address), None
    )


def is_background(value: str) -> bool:
    """Returns whether the value of one of `LAZY_BACKGROUNDS` is an address, not a colour or a pattern of addresses."""
    return "{" not in value and _BACKGROUND.match(value) is not None
