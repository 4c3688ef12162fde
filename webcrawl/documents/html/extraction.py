"""Extracts the fields of EXTRACT from HTML pages.

`Extraction` chooses the rules of a page in the worker; `extracted` finds the values in the process that parses the
page. The rules go there as text, so that both processes compile a selector once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from webcrawl.documents.document import Document
from webcrawl.documents.html.field_values import MOST_CHARS, MOST_ENTRIES, converted, flat, is_value
from webcrawl.documents.html.structured_data import StructuredData
from webcrawl.errors import ConfigurationError, LibraryMissing

if TYPE_CHECKING:
    from webcrawl.config.extraction import ExtractField, ExtractRule, FieldSelector

_PART = re.compile(r"(.*?)\s*::(?:(text)|attr\(\s*([\w:.-]+)\s*\))", re.DOTALL)
_NAMESPACES = {"re": "http://exslt.org/regular-expressions"}
_SHOWN = 80
_MOST_TEXT = 4_000_000
"""The characters of the texts of elements after which a selector reads no more: matches may be nested."""

Find = Callable[["_Read"], list[Any]]
"""Finds the values of a selector in a page."""


class Extracted(NamedTuple):
    """What was extracted of a page: the values by field, and of the fields without one the text that was refused."""

    values: dict[str, Any]
    refused: dict[str, str]


class Extraction:
    """The rules of EXTRACT; raises ConfigurationError, which names the rule, for a selector that cannot be parsed."""

    def __init__(self, rules: Sequence[ExtractRule]) -> None:
        from webcrawl.config.kinds import expression  # the process for HTML imports no settings

        for rule in rules:
            for field in rule.fields:
                for selector in field.selectors:
                    _check(rule, field, selector)
        self._rules = [(expression(rule.match), rule) for rule in rules]

    def rules_of(self, url: str) -> list[ExtractRule]:
        """Returns the rules for the page at a URL."""
        return [rule for pattern, rule in self._rules if pattern.search(url)]

    def wanted(self, url: str) -> str:
        """Returns what `extracted` gets for the page at a URL; "" without a rule."""
        fields = [field for rule in self.rules_of(url) for field in rule.fields]
        return json.dumps(fields) if fields else ""


def _check(rule: ExtractRule, field: ExtractField, selector: FieldSelector) -> None:
    try:
        _finder(selector.source, selector.path, field.type)
    except LibraryMissing:
        raise
    except Exception as error:  # each library has its own
        raise ConfigurationError(
            f"EXTRACT, rule {rule.name!r}, field {field.name!r}: {str(selector)!r} cannot be used: {error}"
        ) from error


def problems_of(rules: Iterable[ExtractRule], page: Extracted) -> tuple[set[str], list[str]]:
    """Returns the fields of rules that a page lacks, and a text for each of them that is not optional."""
    lacking, problems = set[str](), list[str]()
    for rule in rules:
        for field in rule.fields:
            if field.name in page.values:
                continue
            lacking.add(field.name)
            text = page.refused.get(field.name)
            why = "is missing" if text is None else f"is no {field.type}: {text!r}"
            if not field.is_optional:
                problems.append(f"{rule.name}: {field.name} {why}")
    return lacking, problems


def extracted(document: Document, wanted: str) -> Extracted:
    """Returns the values of the fields of `Extraction.wanted`."""
    page = _Read(document)
    values: dict[str, Any] = {}
    refused: dict[str, str] = {}
    for name, kind, finders in _compiled(wanted):
        for find in finders:
            if name in values:
                break
            there = flat(find(page))
            if (value := converted(there, kind)) is not None:
                values[name] = value
                refused.pop(name, None)
            elif there:
                refused.setdefault(name, " ".join(str(there[0])[:_SHOWN].split()))
    return Extracted(values, refused)


def is_extracted(page: Extracted) -> bool:
    """Returns whether what another process sent is what `extracted` returns."""
    values, refused = page
    return (
        isinstance(values, dict)
        and isinstance(refused, dict)
        and all(isinstance(name, str) and is_value(value) for name, value in values.items())
        and all(
            isinstance(name, str) and isinstance(text, str) and len(text) <= _SHOWN
            for name, text in refused.items()
        )
    )


class _Read:
    """A document, with what the selectors of several fields share."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.data = StructuredData(document)
        self._root: Any = None

    @property
    def tree(self) -> LexborHTMLParser:
        return self.document.html

    @property
    def root(self) -> Any:
        """The root element of libxml2, for XPath; None for a page without elements."""
        if self._root is None:
            from lxml import etree

            parser = etree.HTMLParser(encoding="utf-8", no_network=True, remove_comments=True)
            # the markup of Lexbor's tree: bounded, and with the elements that the standard asks for
            markup = self.tree.html or ""
            self._root = etree.fromstring(markup.encode("utf-8", "replace") or b"<html>", parser)
        return self._root


@lru_cache(maxsize=200)
def _compiled(wanted: str) -> list[tuple[str, str, list[Find]]]:
    fields = json.loads(wanted)
    return [
        (name, kind, [_finder(source, path, kind) for source, path in selectors])
        for name, kind, selectors, _ in fields
    ]


@lru_cache(maxsize=2_000)
def _finder(source: str, path: str, kind: str) -> Find:
    """Returns the function of a selector; raises exceptions of the libraries, and ValueError."""
    match source:
        case "css":
            return _css(path, kind)
        case "xpath":
            return _xpath(path)
        case "og" | "meta":
            name = f"og:{path}".lower() if source == "og" else path.lower()
            return lambda page: [page.data.metas.get(name)]
    parts = path.split(".")
    if not all(parts):
        raise ValueError("a part of the path is empty")
    attribute = {"jsonld": "json_ld"}.get(source, source)
    return lambda page: _in_items(getattr(page.data, attribute), parts)


def _css(path: str, kind: str) -> Find:
    match = _PART.fullmatch(path)
    selector, own_text, attribute = match.groups() if match else (path, None, None)
    try:
        LexborHTMLParser("<p>").css(selector)
    except SelectolaxError:
        raise ValueError("it is no selector of CSS, or has a part that Lexbor does not know") from None
    if match is None and kind == "bool":  # whether there is such an element
        return lambda page: [page.tree.css_first(selector) is not None]
    if attribute is not None:
        return lambda page: [node.attributes.get(attribute) for node in _matches(page, selector)]
    return lambda page: _texts(_matches(page, selector), deep=own_text is None)


def _matches(page: _Read, selector: str) -> list[LexborNode]:
    return page.tree.css(selector)[:MOST_ENTRIES]


def _texts(nodes: Iterable[LexborNode], *, deep: bool) -> list[str]:
    texts, left = [], _MOST_TEXT
    for node in nodes:
        if left <= 0:
            break
        text = node.text(deep=deep)
        left -= len(text)
        if shown := " ".join(text[: 4 * MOST_CHARS].split()):
            texts.append(shown)
    return texts


def _xpath(path: str) -> Find:
    from lxml import etree

    compiled = etree.XPath(path, namespaces=_NAMESPACES, smart_strings=False)
    # a function that does not exist is noticed only now
    compiled(etree.fromstring(b"<html><p>a</p></html>"))

    def find(page: _Read) -> list[Any]:
        result = compiled(page.root)
        values = result[:MOST_ENTRIES] if isinstance(result, list) else [result]
        texts, left = list[Any](), _MOST_TEXT
        for value in values:
            text = value if isinstance(value, str | float | bool) else "".join(value.itertext())
            left -= len(text) if isinstance(text, str) else 0
            if text != "":
                texts.append(text)
            if left <= 0:
                break
        return texts

    return find


def _in_items(items: Sequence[Mapping[str, Any]], parts: Sequence[str]) -> list[Any]:
    """Returns the values at a path in the first item that has it; a first part with a capital letter is a type."""
    kind, names = (parts[0], parts[1:]) if parts[0][:1].isupper() else ("", parts)
    for item in items:
        types = item.get("@type")
        if kind and kind not in (types if isinstance(types, list) else [types]):
            continue
        values: list[Any] = [item]
        for name in names:
            inner = (part for value in values for part in (value if isinstance(value, list) else [value]))
            values = [part[name] for part in inner if isinstance(part, Mapping) and name in part]
        if values:
            return values
    return []
