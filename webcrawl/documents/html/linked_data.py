"""JSON-LD in the vocabulary of schema.org, reduced to common properties.

The result is small whatever the page contains: a few objects of plain values.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from webcrawl.documents.values import clean

MAX_BYTES = 2**18
"""Longer scripts are data for programs, not descriptions of pages."""
MAX_ALL_BYTES = 2**20
"""The most characters of all scripts of a page that are read."""
MAX_OBJECTS = 10
MAX_VALUES = 5
MAX_CHARS = 300

LinkedObject = dict[str, Any]
"""`type`, and the properties of `KEPT`: texts, numbers, or lists of these."""

KEPT = re.findall(
    r"\w+",
    """name headline alternativeHeadline description url identifier datePublished dateModified dateCreated author
    creator publisher image inLanguage articleSection keywords genre about isbn sku gtin13 brand model price
    priceCurrency availability offers aggregateRating ratingValue reviewCount startDate endDate location address
    telephone duration uploadDate contentUrl license version""",
)

# The properties whose value replaces an object within another object.
_NAMES = ("name", "headline", "url", "@id", "price", "lowPrice", "ratingValue", "@value", "addressLocality")
_WRAPPING = re.compile(
    r"^\s*(?:<!--|//\s*<!\[CDATA\[|/\*\s*<!\[CDATA\[\s*\*/)|(?:-->|//\s*\]\]>|/\*\s*\]\]>\s*\*/)\s*$"
)
# A string, whose escapes may be those of JavaScript, or a comment. What is not closed goes on to the end of the text:
# otherwise each quote and each start of a comment in it would be looked at again up to the end.
_STRING = r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)'
_STRING_OR_COMMENT = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_STRING_OR_COMMA = re.compile(rf"{_STRING}|,(?=\s*[\]}}])", re.DOTALL)
_WRONG_ESCAPE = re.compile(r'\\(?:(?=[^"\\/bfnrtu])|u(?![0-9a-fA-F]{4}))|(\\.)', re.DOTALL)
_BETWEEN = re.compile(r"[\s,;]*")
_DECODER = json.JSONDecoder(strict=False)


def linked_objects(scripts: Iterable[str]) -> list[LinkedObject]:
    """Returns the objects in `application/ld+json` scripts; scripts that are not JSON have none."""
    objects: list[LinkedObject] = []
    all_written = [written for value in parsed_scripts(scripts) for written in _objects(value)]
    names = {
        identifier: name
        for written in all_written
        if isinstance(identifier := written.get("@id"), str) and isinstance(name := written.get("name"), str)
    }
    for written in all_written:
        if len(objects) >= MAX_OBJECTS:
            return objects
        if (linked_object := _reduced(written, names)) and linked_object not in objects:
            objects.append(linked_object)
    return objects


def first_text(objects: Iterable[LinkedObject], *names: str) -> str | None:
    """Returns the first value of these properties that is a text."""
    for linked_object in objects:
        for name in names:
            value = linked_object.get(name)
            value = value[0] if isinstance(value, list) and value else value
            if isinstance(value, str) and value:
                return value
    return None


def cleaned(text: str, limit: int = MAX_CHARS) -> str:
    """Collapses white space and replaces what databases refuse."""
    return clean(" ".join(text[: 4 * limit].split())[:limit].rstrip())


def parsed_scripts(scripts: Iterable[str]) -> Iterator[Any]:
    """Yields the value of each JSON-LD script, see `parsed_script`, until MAX_ALL_BYTES are read."""
    left = MAX_ALL_BYTES
    for script in scripts:
        if len(script) <= MAX_BYTES and (left := left - len(script)) < 0:
            return
        yield parsed_script(script)


def parsed_script(script: str) -> Any:
    """Returns the value of a JSON-LD script, a list of several values; None if it is too long or no JSON.

    Removes what JavaScript allows and JSON does not: comments, commas before brackets, escapes of other characters.
    """
    if len(script) > MAX_BYTES:
        return None
    text = _WRAPPING.sub("", script.lstrip("\ufeff"))
    for read in (_DECODER.decode, _repaired):
        try:
            return read(text)
        except (ValueError, RecursionError):  # nested too deep, or a number too long
            continue
    return None


def _repaired(text: str) -> Any:
    """Returns the values of JSON with the mistakes that people make; raises ValueError and RecursionError."""
    if '"' not in text:
        text = html.unescape(text)
    text = _STRING_OR_COMMENT.sub(lambda match: _mended(match[0]), text)
    text = _STRING_OR_COMMA.sub(lambda match: "" if match[0] == "," else match[0], text)
    values, at = [], _BETWEEN.match(text).end()  # type: ignore[union-attr]
    while at < len(text):
        value, end = _DECODER.raw_decode(text, at)
        values.append(value)
        at = _BETWEEN.match(text, end).end()  # type: ignore[union-attr]
    return values[0] if len(values) == 1 else values


def _mended(part: str) -> str:
    """Returns a string with escapes of JSON, and nothing for a comment."""
    if part[0] != '"':
        return ""
    return _WRONG_ESCAPE.sub(lambda match: match[1] or "", part) if "\\" in part else part


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """Yields the objects at the top, in lists and in @graph, in order."""
    waiting = [value]
    for _ in range(20 * MAX_OBJECTS):
        if not waiting:
            return
        inner = waiting.pop(0)
        if isinstance(inner, list):
            waiting = inner[: 10 * MAX_OBJECTS] + waiting
        elif isinstance(inner, dict):
            if "@type" in inner:
                yield inner
            if "@graph" in inner:
                waiting.insert(0, inner["@graph"])


def _reduced(written: dict[str, Any], names: dict[str, str]) -> LinkedObject | None:
    types = [kind.rpartition("/")[2] for kind in _listed(written.get("@type")) if isinstance(kind, str)]
    kinds = [kind for name in types if (kind := cleaned(name))]
    if not kinds:
        return None
    linked_object: LinkedObject = {"type": kinds[0] if len(kinds) == 1 else kinds}
    for name in KEPT:
        values = [
            plain for value in _listed(written.get(name)) if (plain := _plain(value, names)) not in (None, "")
        ]
        if values:
            linked_object[name] = values[0] if len(values) == 1 else values
    return linked_object


def _listed(value: Any) -> list[Any]:
    return value[:MAX_VALUES] if isinstance(value, list) else [value]


def _plain(value: Any, names: dict[str, str]) -> str | int | float | None:
    """Returns a plain value; for an object, its name or a similar property, or that of the object it refers to."""
    if isinstance(value, dict) and value.keys() == {"@id"} and isinstance(value["@id"], str):
        value = names.get(value["@id"], value["@id"])
    for name in _NAMES if isinstance(value, dict) else ():
        inner = value.get(name)
        if isinstance(inner, str | int | float):
            value = inner
            break
    if isinstance(value, str):
        return cleaned(value)
    number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**53
    return value if number else None
