"""Prepares markup for Lexbor.

Very long tags are shortened: Lexbor compares each attribute of a tag with all before it, so 100,000 attributes take
20 s. Empty elements of XHTML get end tags: a parser of HTML reads <script/>, <title/> or <a/> as a start tag only.
"""

from __future__ import annotations

import re

MAX_ATTRIBUTES = 256
"""The number of attributes that are kept of a very long tag."""
_WINDOW = 1 << 14
_BLANK = rb"[\t\n\f\r /]"
# As the tokenizer of the HTML standard reads it; possessive, so that each byte is matched once.
_ATTRIBUTE = (
    rb"[^\t\n\f\r />][^\t\n\f\r />=]*+"
    rb"""(?:[\t\n\f\r ]*+=[\t\n\f\r ]*+(?:"[^"]*+"?+|'[^']*+'?+|[^\t\n\f\r >"'][^\t\n\f\r >]*+)?+)?+"""
)
_TAG = re.compile(
    rb"</?[a-zA-Z][^\t\n\f\r />]*+(?:" + _BLANK + rb"++(?:" + _ATTRIBUTE + rb")?+|" + _ATTRIBUTE + rb")*+>?+"
)
_START = re.compile(
    rb"</?[a-zA-Z][^\t\n\f\r />]*+(?:" + _BLANK + rb"*+" + _ATTRIBUTE + rb"){%d}" % MAX_ATTRIBUTES
)

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


def may_have_long_tag(markup: bytes) -> bool:
    """Returns whether there may be a tag of over 32 KiB, which would fill at least one window of half that size."""
    for begin in range(0, len(markup) - _WINDOW, _WINDOW):
        if markup.find(b"<", begin, begin + _WINDOW) >= 0:
            continue
        start = markup.rfind(b"<", 0, begin)
        if start >= 0 and (tag := _TAG.match(markup, start)) and tag.end() > begin:
            return True
    return False


def shortened(markup: bytes) -> bytes:
    """Returns markup whose tags have only their first `MAX_ATTRIBUTES` attributes."""
    after = _TAG.sub(_shortened, markup)
    return markup if after == markup else after


def _shortened(tag: re.Match[bytes]) -> bytes:
    if tag.end() - tag.start() <= 2 * MAX_ATTRIBUTES or not (first := _START.match(tag[0])):
        return tag[0]
    return first[0] + b">"


def expanded(markup: bytes) -> bytes:
    """Returns markup with end tags for empty elements that are not void in HTML; its encoding must extend ASCII."""
    return _EMPTY.sub(_with_end, markup) if b"/>" in markup else markup


def _with_end(match: re.Match[bytes]) -> bytes:
    name = match[1]
    if name is None or name.lower() in _VOID:
        return match[0]
    return b"<%b%b></%b>" % (name, match[2], name)
