"""Values of extracted fields: from texts of people and values of programs to the types of EXTRACT."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from webcrawl.documents.mime.dates import written_date
from webcrawl.documents.values import clean

MOST_CHARS = 10_000
"""The most characters of a text."""
MOST_ENTRIES = 1_000
"""The most entries of a list."""
_NAMES = ("@value", "name", "headline", "url", "@id", "value", "ratingValue", "price", "text")
"""The properties whose value replaces an object of structured data."""
_NUMBER = re.compile(r"[-+\u2212]?\d+(?:[.,'\u2019\s\u00a0\u202f]\d+)*(?:[eE][-+]?\d+)?")
_PLAIN_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_LONGEST_NUMBER = 40
_SPACES = re.compile(r"['\u2019\s\u00a0\u202f]")
_WORDS = {
    **dict.fromkeys(("true", "yes", "1", "on"), True),
    **dict.fromkeys(("false", "no", "0", "off"), False),
}
_WHOLE = 2**63


def flat(values: Iterable[Any]) -> list[Any]:
    """Returns the plain values: lists are joined, and an object becomes its name or a similar property."""
    plain: list[Any] = []
    waiting = list(values)[::-1]
    while waiting and len(plain) < MOST_ENTRIES:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += reversed(value[:MOST_ENTRIES])
        elif isinstance(value, Mapping):
            waiting += [value[name] for name in _NAMES if name in value][:1]
        elif value is not None and not (isinstance(value, float) and not math.isfinite(value)):
            plain.append(value)
    return plain


def converted(values: list[Any], kind: str) -> Any:
    """Returns the first value that is of a type of EXTRACT, for a list all texts; None if there is none."""
    if kind == "list":
        return [text for value in values[:MOST_ENTRIES] if (text := _text(value))] or None
    convert = _CONVERSIONS[kind]
    return next((result for value in values if (result := convert(value)) is not None), None)


def is_value(value: Any) -> bool:
    """Returns whether a value from another process has a type of `converted`."""
    if isinstance(value, list):
        return len(value) <= MOST_ENTRIES and all(isinstance(entry, str) for entry in value)
    return isinstance(value, str | int | float | bool | datetime)


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        value = str(value).lower()
    elif isinstance(value, float):
        value = int(value) if value.is_integer() else value
    return clean(" ".join(str(value)[: 4 * MOST_CHARS].split())[:MOST_CHARS]) or None


def _float(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value) if math.isfinite(value) else None
    text = str(value)[:200].strip()
    match = _PLAIN_NUMBER.fullmatch(text) or _NUMBER.search(text)
    if match is None or len(match[0]) > _LONGEST_NUMBER:
        return None
    number = float(_with_point(match[0]))
    return number if math.isfinite(number) else None


def _with_point(number: str) -> str:
    """Returns a number as Python writes it.

    With both "," and ".", the last of them is the decimal point. A single "," before other than three digits is one,
    too: "12,50", but not "1,250". A "." that is repeated separates thousands.
    """
    number = _SPACES.sub("", number.replace("\u2212", "-"))
    comma, point = number.rfind(","), number.rfind(".")
    if comma >= 0 and point >= 0:
        thousands = "," if point > comma else "."
        return number.replace(thousands, "").replace(",", ".")
    if comma >= 0:
        is_decimal = number.count(",") == 1 and len(number) - comma - 1 != 3
        return number.replace(",", "." if is_decimal else "")
    return number.replace(".", "") if number.count(".") > 1 else number


def _int(value: Any) -> int | None:
    number = value if isinstance(value, int) and not isinstance(value, bool) else _float(value)
    if number is None or number != int(number) or not -_WHOLE <= number < _WHOLE:
        return None
    return int(number)


def _date(value: Any) -> datetime | None:
    return written_date(value) if isinstance(value, str) else None


def _bool(value: Any) -> bool | None:
    return value if isinstance(value, bool) else _WORDS.get(str(value).strip().lower())


_CONVERSIONS: Mapping[str, Callable[[Any], Any]] = {
    "str": _text,
    "int": _int,
    "float": _float,
    "date": _date,
    "bool": _bool,
}
