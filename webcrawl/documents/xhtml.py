"""Prepares XHTML for an HTML parser, which reads <script/>, <title/> or <a/> as a start tag without an end."""

from __future__ import annotations

import re

# The void elements of HTML.
_VOID = frozenset(
    b"area base basefont bgsound br col embed frame hr img input keygen link meta param source track wbr".split()
)
# An empty-element tag of XML with quoted attributes. Skips comments, CDATA and instructions, which may lack an end.
_EMPTY = re.compile(
    rb"<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|<\?.*?(?:\?>|\Z)"
    rb"""|<([A-Za-z][\w:.-]*+)((?:\s++[\w:.-]++\s*+=\s*+(?:"[^"<]*+"|'[^'<]*+'))*+)\s*+/>""",
    re.DOTALL,
)


def expanded(markup: bytes) -> bytes:
    """Returns markup with end tags for empty elements that are not void in HTML; its encoding must extend ASCII."""
    return _EMPTY.sub(_with_end, markup) if b"/>" in markup else markup


def _with_end(match: re.Match[bytes]) -> bytes:
    name = match[1]
    if name is None or name.lower() in _VOID:
        return match[0]
    return b"<%b%b></%b>" % (name, match[2], name)
