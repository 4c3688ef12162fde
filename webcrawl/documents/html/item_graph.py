"""The items that the attributes of a page describe: microdata (HTML Standard) and RDFa Lite 1.1 (W3C).

An item is an object in the form of JSON-LD: `@type`, `@id`, and its properties. Both syntaxes have elements that begin
an item and elements that are a property of the nearest item around them. One search finds all of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from selectolax.lexbor import LexborHTMLParser, LexborNode

from webcrawl.documents.link_elements import Attributes

MOST_NODES = 5_000
"""The most elements with items or properties that are read."""
_MOST_STEPS = 200_000
"""The most ancestors that are looked at: 5,000 elements may be nested in each other."""
_MOST_CHARS = 2_000_000
"""The characters of the texts of properties after which no further text is read: properties may be nested."""
_MOST_REFERRED = 20_000
"""The most properties that `itemref` adds: each of 5,000 items may name the same 5,000 elements."""
_DEEPEST = 8
MOST_TEXT = 5_000
"""The most characters of a value."""

Join = Callable[[str], "str | None"]
"""Joins an address in a page to the URL of the page."""
_ADDRESSES = {
    **dict.fromkeys(("a", "area", "link"), "href"),
    **dict.fromkeys(("audio", "embed", "iframe", "img", "source", "track", "video"), "src"),
    "object": "data",
}
_VALUES = {"data": "value", "meter": "value", "time": "datetime"}


@dataclass(frozen=True, slots=True)
class ItemSyntax:
    """The attributes of a syntax. `resource` is the attribute with an address that any element may have, or ""."""

    scope: str
    type: str
    prop: str
    id: str
    reference: str = ""
    resource: str = ""

    @property
    def selector(self) -> str:
        """Selects the elements that begin an item or are a property."""
        return f"[{self.scope}],[{self.prop}]"


MICRODATA = ItemSyntax("itemscope", "itemtype", "itemprop", "itemid", reference="itemref")
RDFA = ItemSyntax("typeof", "typeof", "property", "resource", resource="resource")


class ItemGraph:
    """The items of a page in one syntax; work and results are bounded whatever the page contains."""

    def __init__(self, tree: LexborHTMLParser, syntax: ItemSyntax, join: Join) -> None:
        self._tree, self._syntax, self._join = tree, syntax, join
        self._chars, self._steps, self._referred = _MOST_CHARS, _MOST_STEPS, _MOST_REFERRED
        self._nodes: dict[int, tuple[LexborNode, Attributes]] = {}
        for node in tree.css(syntax.selector):
            if len(self._nodes) >= MOST_NODES:
                break
            self._nodes.setdefault(node.mem_id, (node, node.attributes))
        self._owners = {number: self._owner(node) for number, (node, _) in self._nodes.items()}
        self._properties: defaultdict[int | None, list[int]] = defaultdict(list)
        for number, (_, attributes) in self._nodes.items():
            if syntax.prop in attributes:
                self._properties[self._owners[number]].append(number)
        self._positions = {number: position for position, number in enumerate(self._nodes)}
        self._ids: dict[str, LexborNode] | None = None
        self._inside: defaultdict[int, list[int]] | None = None
        self._references = {
            number: self._referred_by(names)
            for number, (_, attributes) in self._nodes.items()
            if syntax.reference and (names := attributes.get(syntax.reference)) and self._begins(attributes)
        }

    def items(self) -> list[dict[str, Any]]:
        """Returns the items that are no property of another item, in document order.

        In RDFa, a property of no item is one of the page. In microdata it is an error, but usual for authors.
        """
        named = set[int]().union(*self._references.values())
        tops = (
            number
            for number, (_, attributes) in self._nodes.items()
            if self._begins(attributes)
            and (
                self._syntax.prop not in attributes or (self._owners[number] is None and number not in named)
            )
        )
        return [self._item(number, frozenset()) for number in tops]

    def _begins(self, attributes: Attributes) -> bool:
        return self._syntax.scope in attributes

    def _owner(self, node: LexborNode) -> int | None:
        """Returns the number of the nearest item around an element; None without one."""
        parent = node.parent
        while parent is not None and self._steps > 0:
            self._steps -= 1
            known = self._nodes.get(parent.mem_id)
            if known is not None and self._begins(known[1]):
                return parent.mem_id
            parent = parent.parent
        return None

    def _item(self, number: int, around: frozenset[int]) -> dict[str, Any]:
        """Returns an item. `around`: the items that contain it, which it may name by `itemref`."""
        attributes = self._nodes[number][1]
        types = [
            name for word in (attributes.get(self._syntax.type) or "").split() if (name := type_name(word))
        ]
        item: dict[str, Any] = {}
        if types:
            item["@type"] = types[0] if len(types) == 1 else types
        if address := attributes.get(self._syntax.id):
            item["@id"] = self._address(address)
        values: defaultdict[str, list[Any]] = defaultdict(list)
        within = around | {number}
        for property_number in self._properties_of(number):
            node, named = self._nodes[property_number]
            value = self._value(node, named, property_number, within)
            if value is not None and value != "":
                for name in (named.get(self._syntax.prop) or "").split()[:5]:
                    values[property_name(name)].append(value)
        return item | {name: many[0] if len(many) == 1 else many for name, many in values.items() if name}

    def _properties_of(self, number: int) -> list[int]:
        own = self._properties.get(number, [])
        if number not in self._references:
            return own
        # in the order of the document, and each once
        return sorted({*own, *self._references[number]} - {number}, key=self._positions.__getitem__)

    def _referred_by(self, references: str) -> set[int]:
        """Returns the properties in the elements with these IDs that belong to no item within these elements."""
        referred: set[int] = set()
        for name in references.split()[:100]:
            node = self._by_id().get(name)
            if node is None or self._referred <= 0:
                continue
            inside = self._properties_inside().get(node.mem_id, [])
            self._referred -= len(inside)
            outside = self._owners[node.mem_id] if node.mem_id in self._owners else self._owner(node)
            referred.update(each for each in inside if self._owners[each] == outside)
        return referred

    def _properties_inside(self) -> defaultdict[int, list[int]]:
        """Returns the properties in each element with an ID, itself included, by the number of the element.

        Looks from the properties outwards, once: thousands of items may name elements with all of a page in them.
        """
        if self._inside is None:
            self._inside = defaultdict(list)
            named, steps = {node.mem_id for node in self._by_id().values()}, _MOST_STEPS
            for number, (node, attributes) in self._nodes.items():
                if self._syntax.prop not in attributes:
                    continue
                around: LexborNode | None = node
                while around is not None and (steps := steps - 1) > 0:
                    if around.mem_id in named:
                        self._inside[around.mem_id].append(number)
                    around = around.parent
        return self._inside

    def _by_id(self) -> dict[str, LexborNode]:
        if self._ids is None:
            self._ids = {}
            for node in self._tree.css("[id]")[: 4 * MOST_NODES]:
                self._ids.setdefault(node.attributes.get("id") or "", node)
        return self._ids

    def _value(self, node: LexborNode, attributes: Attributes, number: int, within: frozenset[int]) -> Any:
        """Returns the value of a property; for microdata, see "Values" in section 5.2.4 of the HTML Standard."""
        if self._begins(attributes):
            if number in within or len(within) > _DEEPEST:  # a cycle, an error in the HTML Standard
                return None
            return self._item(number, within)
        if self._syntax.resource:
            return self._rdfa_value(node, attributes)
        tag = node.tag or ""
        if attribute := _ADDRESSES.get(tag):
            return self._address(attributes[attribute] or "") if attribute in attributes else None
        if (attribute := _VALUES.get(tag)) and (attribute in attributes or tag != "time"):
            return (attributes.get(attribute) or "")[:MOST_TEXT]
        # the standard has it for <meta> alone, examples of schema.org for other elements too
        content = attributes.get("content")
        return (content or "")[:MOST_TEXT] if content or tag == "meta" else self._text(node)

    def _rdfa_value(self, node: LexborNode, attributes: Attributes) -> Any:
        if (content := attributes.get("content")) is not None:
            return content[:MOST_TEXT]
        tag = node.tag or ""
        address = attributes.get(self._syntax.resource) or attributes.get(_ADDRESSES.get(tag, ""))
        if address:
            return self._address(address)
        return attributes.get(_VALUES.get(tag, "")) or self._text(node)

    def _address(self, address: str) -> str:
        return self._join(address) or address[:MOST_TEXT]

    def _text(self, node: LexborNode) -> str | None:
        if self._chars <= 0:
            return None
        text = node.text()
        self._chars -= len(text)
        return " ".join(text[: 4 * MOST_TEXT].split())[:MOST_TEXT]


def type_name(address: str) -> str:
    """Returns the last part of a type: "Product" for "https://schema.org/Product" and "schema:Product"."""
    return address.rstrip("/#").replace("#", "/").rpartition("/")[2].rpartition(":")[2][:100]


def property_name(name: str) -> str:
    """Returns a property of schema.org without its vocabulary; other properties keep a short prefix ("dc:title")."""
    if "://" in name:
        return name.rstrip("/#").replace("#", "/").rpartition("/")[2][:100]
    return name.removeprefix("schema:")[:100]
