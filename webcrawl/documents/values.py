"""Values from the web in a form that every database, JSON reader and table takes."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

DEEPEST = 32
"""Lists and dicts within each other; what lies deeper is left out."""

# C0 but for the tab, DEL, C1, ends of lines, and what turns the direction of text.
_MOVES = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_LARGE = frozenset({str, dict, list})
_SMALLEST, _LARGEST = -(2**63), 2**64 - 1


def clean(text: str) -> str:
    """A text without what databases refuse: NUL becomes U+FFFD, a lone surrogate "?"."""
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def shown(line: str) -> str:
    """A line of what strangers wrote, for a terminal: nothing in it moves the cursor; JSON stays what it is."""
    return _MOVES.sub(lambda sign: f"\\u{ord(sign[0]):04x}", line)


def plain(value: Any, depth: int = DEEPEST) -> Any:
    """The same as JSON knows it: dicts with text as keys, lists, texts, numbers, booleans, None.

    Times become ISO 8601, numbers that JSON does not have None, whole numbers beyond 64 bits and all else their text.
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
        return {clean(str(key)): plain(one, depth - 1) for key, one in value.items()} if depth else None
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(one, depth - 1) for one in value] if depth else None
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return clean(value.decode("utf-8", "replace"))
    return clean(str(value))


def weight(value: Any) -> int:
    """About how many bytes a plain value takes in memory: dicts and lists are counted, and the texts in them."""
    kind = type(value)
    if kind is str:
        return sys.getsizeof(value)
    if kind is dict:
        # a row of a table may have forty values, and there may be millions of rows
        return 50 * len(value) + sum([weight(one) for one in value.values() if type(one) in _LARGE])
    return 50 * len(value) + sum(map(weight, value)) if kind is list else 0
