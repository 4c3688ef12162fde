"""The structured data of a page: JSON-LD, microdata, RDFa and Open Graph, in one form.

Items are objects as in JSON-LD, whatever their syntax, without the vocabularies in the names of types and properties.
Results are bounded, whatever the page contains.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

from webcrawl.documents.document import Document
from webcrawl.documents.html.facts import joined_url, page_base
from webcrawl.documents.html.item_graph import (
    MICRODATA,
    MOST_TEXT,
    RDFA,
    ItemGraph,
    ItemSyntax,
    property_name,
    type_name,
)
from webcrawl.documents.html.linked_data import parsed_scripts
from webcrawl.documents.values import clean

MOST_ITEMS = 200
"""The most items of a syntax at the top."""
MOST_SCRIPTS = 50
MOST_CHARS = 200_000
"""The most characters of the structured data of a page, with their names and punctuation; later items are left out."""
_MOST_METAS, _MOST_CONTENTS = 200, 100
_MOST_VALUES = 20_000
"""The most values of an item."""
_DEEPEST = 10
_PREFIXED = re.compile(r"[a-z][\w.-]*:\S+", re.IGNORECASE)


class StructuredData:
    """The structured data of an HTML document; each syntax is read when it is first used."""

    def __init__(self, document: Document) -> None:
        self._document = document

    @cached_property
    def json_ld(self) -> list[dict[str, Any]]:
        """The objects of JSON-LD scripts: those at the top, in lists and in @graph. Scripts with errors have none."""
        scripts = self._document.html.css("script[type^='application/ld+json' i]")[:MOST_SCRIPTS]
        parsed = parsed_scripts(script.text() for script in scripts)
        return _bounded(item for value in parsed for item in _objects(value))

    @cached_property
    def microdata(self) -> list[dict[str, Any]]:
        """The items of microdata that are no property of another one."""
        return self._items(MICRODATA)

    @cached_property
    def rdfa(self) -> list[dict[str, Any]]:
        """The items of RDFa Lite that are no property of another one."""
        return self._items(RDFA)

    @cached_property
    def metas(self) -> dict[str, str | list[str]]:
        """The contents of <meta> elements by `property` or `name`; a list if there are several."""
        contents: dict[str, list[str]] = {}
        for attributes in self._document.metas:
            name = (attributes.get("property") or attributes.get("name") or "").strip().lower()[:100]
            content = " ".join((attributes.get("content") or "")[: 4 * MOST_TEXT].split())[:MOST_TEXT]
            if name and content and (name in contents or len(contents) < _MOST_METAS):
                contents.setdefault(name, []).append(content)
        return {name: many[0] if len(many) == 1 else many[:_MOST_CONTENTS] for name, many in contents.items()}

    @property
    def open_graph(self) -> dict[str, str | list[str]]:
        """The `metas` whose name has a prefix: og:title, article:author, product:price:amount, twitter:card."""
        return {name: content for name, content in self.metas.items() if _PREFIXED.fullmatch(name)}

    def as_dict(self) -> dict[str, Any]:
        """Returns all that is there: `json_ld`, `microdata`, `rdfa` and `open_graph`, at most MOST_CHARS in all.

        `is_cut` is true if something was left out.
        """
        sources = {"json_ld": self.json_ld, "microdata": self.microdata, "rdfa": self.rdfa}
        left, kept, is_cut = MOST_CHARS, dict[str, Any](), False
        graph = self.open_graph
        if graph and (size := size_of(graph)) <= left:
            kept["open_graph"], left = graph, left - size
        for name, items in sources.items():
            fitting = []
            for item in items:
                if (size := size_of(item)) > left:
                    is_cut = True
                    break
                fitting.append(item)
                left -= size
            if fitting:
                kept[name] = fitting
        return kept | ({"is_cut": True} if is_cut else {})

    def _items(self, syntax: ItemSyntax) -> list[dict[str, Any]]:
        document = self._document
        if document.html.css_first(f"[{syntax.scope}]") is None:
            return []
        base = page_base(document)
        items = ItemGraph(document.html, syntax, lambda address: joined_url(base, address)).items()
        return _bounded(item for item in items if len(item) > ("@type" in item))


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """Yields the objects at the top, in lists and in @graph, in order."""
    waiting = [value]
    for _ in range(20 * MOST_ITEMS):
        if not waiting:
            return
        inner = waiting.pop()
        if isinstance(inner, list):
            waiting += reversed(inner[: 5 * MOST_ITEMS])
        elif isinstance(inner, dict):
            if inner.keys() - {"@context", "@graph", "@id"}:
                yield {name: part for name, part in inner.items() if name not in ("@context", "@graph")}
            if "@graph" in inner:
                waiting.append(inner["@graph"])


def _bounded(items: Iterable[Any]) -> list[dict[str, Any]]:
    """Returns the first MOST_ITEMS items that differ, with short texts and few levels."""
    kept: list[dict[str, Any]] = []
    left = [_MOST_VALUES]
    for item in items:
        if len(kept) >= MOST_ITEMS or left[0] <= 0:
            break
        plain = _plain(item, _DEEPEST, left)
        if plain and plain not in kept[-20:]:
            kept.append(plain)
    return kept


def _plain(value: Any, depth: int, left: list[int]) -> Any:
    """Returns a value with short texts and names; None beyond the depth, or when `left` values are used up."""
    left[0] -= 1
    if left[0] < 0:
        return None
    if isinstance(value, str):
        return clean(value[:MOST_TEXT])
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float):
        return value if abs(value) < 2**53 else None
    if depth == 0:
        return None
    if isinstance(value, list):
        parts = (_plain(part, depth - 1, left) for part in value[:1_000])
        return [part for part in parts if part is not None]
    if set(value) == {"@value"} or ("@value" in value and set(value) <= {"@value", "@type", "@language"}):
        return _plain(value["@value"], depth - 1, left)
    named = {_named(name): _plain(_typed(name, part), depth - 1, left) for name, part in value.items()}
    return {name: part for name, part in named.items() if name and part not in (None, "", [], {})}


def _named(name: str) -> str:
    return clean(property_name(name))


def _typed(name: str, value: Any) -> Any:
    if name != "@type":
        return value
    types = [
        type_name(kind) for kind in (value if isinstance(value, list) else [value]) if isinstance(kind, str)
    ]
    return types[0] if len(types) == 1 else types[:20]


def size_of(value: Any) -> int:
    """Returns about how many characters a value takes as JSON."""
    if isinstance(value, str):
        return len(value) + 4
    if isinstance(value, dict):
        return 4 + sum(len(name) + 6 + size_of(part) for name, part in value.items())
    return 4 + sum(map(size_of, value)) if isinstance(value, list) else 12


def is_structured(value: Any) -> bool:
    """Returns whether a value from another process may be what `StructuredData.as_dict` returns."""
    try:
        return isinstance(value, dict) and size_of(value) <= 2 * MOST_CHARS
    except (RecursionError, TypeError):
        return False
