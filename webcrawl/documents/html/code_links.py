"""Links whose texts are names in source code: what references to a library have beside their prose."""

from __future__ import annotations

import re

from selectolax.lexbor import LexborNode

# `java.util.List`, `List.of`; `isEmpty()`, `get(int)`; `TreeMap`, `toString`; `max_size`.
_NAME = re.compile(r"\w[.\w<>\[\]$:]*(?:[.:]\w|\w\(|[a-z\d][A-Z]|\w_\w)")
_HINT = re.compile(r"[.:]\w|\w\(|[a-z\d][A-Z]|\w_\w")
_MAX_NAME = 200
# A line with so many characters outside of links says what the names are; a menu of names has links only.
_LEAST_TEXT = 3
MAX_LINE = 800


def is_about_code(node: LexborNode, text: str, linked: int) -> bool:
    """Returns whether an element is a line about names in source code, such as "Package java.util", and no menu.

    `text` is its text, and `linked` the number of characters in its links.
    """
    if len(text.strip()) - linked < _LEAST_TEXT or _HINT.search(text) is None:
        return False
    named = sum(len(text) for link in node.css("a[href]") if _is_name(text := link.text().strip(), link))
    return 2 * named >= linked


def _is_name(text: str, link: LexborNode) -> bool:
    """Returns whether a link has a name in source code as its text, and leads to another page of the site.

    Else names of hosts and of companies would count.
    """
    return (
        len(text) <= _MAX_NAME
        and _NAME.match(text) is not None
        and "//" not in (link.attributes.get("href") or "")
    )
