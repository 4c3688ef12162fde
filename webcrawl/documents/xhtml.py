"""XHTML for a parser of HTML, to which <script/>, <title/> or <a/> is a start tag that nothing ends."""

from __future__ import annotations

import re

# Elements that HTML knows to be empty.
_VOID = frozenset(
    b"area base basefont bgsound br col embed frame hr img input keygen link meta param source track wbr".split()
)
# An empty element as XML writes it, attributes quoted; past comments, CDATA and instructions, which may lack their end.
_EMPTY = re.compile(
    rb"<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|<\?.*?(?:\?>|\Z)"
    rb"""|<([A-Za-z][\w:.-]*+)((?:\s++[\w:.-]++\s*+=\s*+(?:"[^"<]*+"|'[^'<]*+'))*+)\s*+/>""",
    re.DOTALL,
)


def expanded(markup: bytes) -> bytes:
    """Markup, of an encoding that extends ASCII, whose empty elements have end tags, but for those HTML has none of."""
    return _EMPTY.sub(_with_end, markup) if b"/>" in markup else markup


def _with_end(match: re.Match[bytes]) -> bytes:
    name = match[1]
    if name is None or name.lower() in _VOID:
        return match[0]
    return b"<%b%b></%b>" % (name, match[2], name)
