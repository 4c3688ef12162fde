"""What the attributes of an HTML page say about its Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator

from selectolax.lexbor import LexborNode

_LANGUAGE = re.compile(r"(?:^|\s)(?:language|lang|highlight(?:-source)?)-([\w+#.-]{1,30})(?:\s|$)")
_NO_LANGUAGES = frozenset({"default", "none", "text", "source", "plaintext"})


def language_of(node: LexborNode) -> str:
    """Returns the language that a class of <pre>, of the <code> in it, or of an element around it names, or ""."""
    for one in _candidates(node):
        match = _LANGUAGE.search((one.attributes.get("class") or "")[:200])
        if match and match[1] not in _NO_LANGUAGES:
            return match[1].lower()
    return ""


def _candidates(node: LexborNode) -> Iterator[LexborNode]:
    yield node
    if (child := node.first_child) is not None and child.tag == "code":
        yield child
    for _ in range(2):
        if node.parent is None:
            return
        node = node.parent
        yield node


def number_of(written: str | None, least: int, most: int) -> int:
    """Returns the number that an attribute has, within bounds; `least` if it has none."""
    number = whole_number(written, most)
    return least if number is None else max(least, number)


def whole_number(written: str | None, most: int) -> int | None:
    """Returns the number that an attribute has, or `most` if that is less; None if it has none."""
    text = (written or "").strip()
    is_number = text.isascii() and text.isdecimal() and len(text) < 9
    return min(int(text), most) if is_number else None
