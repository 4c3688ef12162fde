"""Makes values from the web safe for databases, JSON, spreadsheets and terminals."""

from __future__ import annotations

import builtins
import math
import re
import sys
from collections.abc import Mapping
from datetime import UTC, date, datetime, tzinfo
from typing import Any

DEEPEST = 32
"""The most nested lists and dicts; values at a deeper level become None."""

_CLASS = re.compile(r"[A-Z]\w*")
_LARGE = frozenset({str, dict, list})
_SMALLEST, _LARGEST = -(2**63), 2**64 - 1


def clean(text: str) -> str:
    """Replaces characters that databases refuse: NUL by U+FFFD, a lone surrogate by "?"."""
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Returns a number with its noun: "1 page", "2,000 pages". `plural` is by default the noun with an "s"."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def shown_time(moment: datetime, zone: tzinfo | None = None) -> str:
    """Returns a time for people, such as "2026-02-03 12:00:00 CET": in a zone, by default that of this machine."""
    return f"{moment.astimezone(zone):%Y-%m-%d %H:%M:%S %Z}"


def without_class(reason: str) -> str:
    """Returns a reason for people: without the classes of exceptions before it, such as "TimeoutError: ".

    Classes of errors in programs stay, such as "KeyError: ", because their messages alone say little.
    """
    kind, separator, message = reason.partition(": ")
    if not separator or not _CLASS.fullmatch(kind):
        return reason
    built_in = getattr(builtins, kind, None)
    is_in_program = isinstance(built_in, type) and not issubclass(built_in, OSError)
    return reason if is_in_program else without_class(message)


def plain(value: Any, depth: int = DEEPEST) -> Any:
    """Returns a value of JSON types: dicts with text keys, lists, texts, numbers, booleans, None.

    Times become ISO 8601, infinities and NaN become None, integers over 64 bits hexadecimal text, other values text.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, int):
        return int(value) if _SMALLEST <= value <= _LARGEST else hex(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {clean(str(key)): plain(inner, depth - 1) for key, inner in value.items()} if depth else None
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(inner, depth - 1) for inner in value] if depth else None
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return clean(value.decode("utf-8", "replace"))
    return clean(str(value))


def memory_bytes(value: Any) -> int:
    """Returns the approximate bytes of a JSON value in memory: its dicts, lists and texts."""
    kind = type(value)
    if kind is str:
        return sys.getsizeof(value)
    if kind is dict:
        # a row of a table may have forty values, and there may be millions of rows
        return 50 * len(value) + sum(
            [memory_bytes(inner) for inner in value.values() if type(inner) in _LARGE]
        )
    return 50 * len(value) + sum(map(memory_bytes, value)) if kind is list else 0


def size(number_of_bytes: float) -> str:
    """Returns a number of bytes with its unit, such as "1.5 MB"."""
    for unit in ("B", "kB", "MB", "GB"):
        if number_of_bytes < 1000:
            return f"{number_of_bytes:.0f} {unit}" if unit == "B" else f"{number_of_bytes:.1f} {unit}"
        number_of_bytes /= 1000
    return f"{number_of_bytes:.1f} TB"


# after white space and signs without width, which spreadsheets leave out; also as full-width signs
_FORMULA = re.compile(r"[\s\ufeff\u200b-\u200f\u2060]*[=+@\uff1d\uff0b\uff0d\uff20\u2212-]|[\t\r\n]")


def harmless(value: Any) -> Any:
    """Returns the value of a cell in a CSV file: text that a spreadsheet would run as a formula gets an apostrophe.

    Source: OWASP, CSV Injection. Numbers stay as they are.
    """
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value
