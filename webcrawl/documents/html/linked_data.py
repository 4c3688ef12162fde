"""JSON-LD in the vocabulary of schema.org, reduced to common properties.

The result is small whatever the page contains: a few objects of plain values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from webcrawl.documents.values import clean

MAX_BYTES = 2**18
"""Longer scripts are data for programs, not descriptions of pages."""
MAX_OBJECTS = 10
MAX_VALUES = 5
MAX_CHARS = 300

Thing = dict[str, Any]
"""`type`, and the properties of `KEPT`: texts, numbers, or lists of these."""

KEPT = re.findall(
    r"\w+",
    """name headline alternativeHeadline description url identifier datePublished dateModified dateCreated author
    creator publisher image inLanguage articleSection keywords genre about isbn sku gtin13 brand model price
    priceCurrency availability offers aggregateRating ratingValue reviewCount startDate endDate location address
    telephone duration uploadDate contentUrl license version""",
)

# The properties that replace an object within another one.
_NAMES = ("name", "headline", "url", "@id", "price", "lowPrice", "ratingValue", "@value", "addressLocality")
_WRAPPING = re.compile(
    r"^\s*(?:<!--|//\s*<!\[CDATA\[|/\*\s*<!\[CDATA\[\s*\*/)|(?:-->|//\s*\]\]>|/\*\s*\]\]>\s*\*/)\s*$"
)


def things(scripts: Iterable[str]) -> list[Thing]:
    """Returns the objects in `application/ld+json` scripts; scripts that are not JSON have none."""
    found: list[Thing] = []
    for script in scripts:
        for one in _objects(_parsed(script)):
            if len(found) >= MAX_OBJECTS:
                return found
            if (thing := _reduced(one)) and thing not in found:
                found.append(thing)
    return found


def first_text(found: Iterable[Thing], *names: str) -> str | None:
    """Returns the first value of these properties that is a text."""
    for thing in found:
        for name in names:
            value = thing.get(name)
            value = value[0] if isinstance(value, list) and value else value
            if isinstance(value, str) and value:
                return value
    return None


def cleaned(text: str, limit: int = MAX_CHARS) -> str:
    """Collapses white space and replaces what databases refuse."""
    return clean(" ".join(text[: 4 * limit].split())[:limit].rstrip())


def _parsed(script: str) -> Any:
    if len(script) > MAX_BYTES:
        return None
    try:
        return json.loads(_WRAPPING.sub("", script), strict=False)
    except (ValueError, RecursionError):  # nested too deep, or a number too long
        return None


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """Yields the objects at the top, in lists and in @graph, in order."""
    waiting = [value]
    for _ in range(20 * MAX_OBJECTS):
        if not waiting:
            return
        one = waiting.pop(0)
        if isinstance(one, list):
            waiting = one[: 10 * MAX_OBJECTS] + waiting
        elif isinstance(one, dict):
            if "@type" in one:
                yield one
            if "@graph" in one:
                waiting.insert(0, one["@graph"])


def _reduced(one: dict[str, Any]) -> Thing | None:
    names = [kind.rpartition("/")[2] for kind in _listed(one.get("@type")) if isinstance(kind, str)]
    kinds = [kind for name in names if (kind := cleaned(name))]
    if not kinds:
        return None
    thing: Thing = {"type": kinds[0] if len(kinds) == 1 else kinds}
    for name in KEPT:
        values = [plain for value in _listed(one.get(name)) if (plain := _plain(value)) not in (None, "")]
        if values:
            thing[name] = values[0] if len(values) == 1 else values
    return thing


def _listed(value: Any) -> list[Any]:
    return value[:MAX_VALUES] if isinstance(value, list) else [value]


def _plain(value: Any) -> str | int | float | None:
    """Returns a plain value; for an object, its name or a similar property."""
    for name in _NAMES if isinstance(value, dict) else ():
        inner = value.get(name)
        if isinstance(inner, str | int | float):
            value = inner
            break
    if isinstance(value, str):
        return cleaned(value)
    number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**53
    return value if number else None
