"""Prepares markup for Lexbor.

Very long tags are shortened: Lexbor compares each attribute of a tag with all before it, so 100,000 attributes take
20 s. Empty elements of XHTML get end tags: a parser of HTML reads <script/>, <title/> or <a/> as a start tag only.
A <noscript> that would end the head is moved to its end: Lexbor parses as browsers without scripts do.
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
# A DOCTYPE with declarations, and what comes before it.
_SUBSET = re.compile(
    rb"""((?:[^<]|<\?.*?\?>|<!--.*?-->)*+<!DOCTYPE(?:[^>\["']|"[^"]*"|'[^']*')*+)"""
    rb"""\[(?:[^\]<"']|"[^"]*"|'[^']*'|<\?.*?\?>|<!--.*?-->|<!(?!--))*+\]\s*>""",
    re.IGNORECASE | re.DOTALL,
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
    """Returns markup with end tags for empty elements that are not void in HTML; its encoding must extend ASCII.

    Leaves out the declarations in a DOCTYPE, whose end would be text.
    """
    if doctype := _SUBSET.match(markup):
        markup = doctype[1] + b">" + markup[doctype.end() :]
    return _EMPTY.sub(_with_end, markup) if b"/>" in markup else markup


def _with_end(match: re.Match[bytes]) -> bytes:
    name = match[1]
    if name is None or name.lower() in _VOID:
        return match[0]
    return b"<%b%b></%b>" % (name, match[2], name)


# What shows that the head may end at a <noscript>, and what ends the head in any case.
_NOSCRIPT_OR_END = re.compile(rb"<(?:noscript|NOSCRIPT|(/head|body))\b")
# The markup of a head, up to its end: `moved` may be a <noscript>, and any other start tag begins the body.
_IN_HEAD = re.compile(
    rb"<!--(?:-?>|.*?(?:--!?>|\Z))"
    rb"|<(script|style|title|template)(?=[\s/>]).*?(?:</\1\s*>|\Z)"
    rb"|(?P<moved><noscript(?=[\s/>])[^>]*>(?P<content>.*?)</noscript\s*>)"
    rb"|</?(?:html|meta|link|base|basefont|bgsound|noframes)(?=[\s/>])[^>]*>?|<head(?=[\s/>])[^>]*>?"
    rb"|(?P<end></head\s*>|<body(?=[\s/>])[^>]*>|(?=<[a-z]))",
    re.IGNORECASE | re.DOTALL,
)
# What a <noscript> may contain in a head ("in head noscript" in the HTML Standard); anything else ends the head.
_MAY_BE_IN_HEAD = re.compile(
    rb"(?:\s++|<!--.*?-->|<(?:link|meta|basefont|bgsound)(?=[\s/>])[^>]*>"
    rb"|<(style|noframes)(?=[\s/>]).*?</\1\s*>)*+",
    re.IGNORECASE | re.DOTALL,
)
_IMAGE = re.compile(rb"<img(?=[\s/>])[^>]*>", re.IGNORECASE)


def with_whole_head(markup: bytes) -> bytes:
    """Returns markup in which each <noscript> that would end the head comes after the head; usually the same object.

    With scripts, its content is text that nobody sees. Without, an image or a text in it begins the body, so what
    follows in the head would no longer count: canonical link, feeds, base. Its images count readers, and are left out.
    """
    first = _NOSCRIPT_OR_END.search(markup)
    if first is None or first[1]:
        return markup
    kept, moved, at = list[bytes](), list[bytes](), 0
    for part in _IN_HEAD.finditer(markup):
        if part["moved"] is not None and not _MAY_BE_IN_HEAD.fullmatch(part["content"]):
            kept.append(markup[at : part.start()])
            moved.append(_IMAGE.sub(b"", part["moved"]))
            at = part.end()
        elif part["end"] is not None:
            begin = [] if part["end"] else [b"<body>"]
            rest = markup[part.end() :]
            return b"".join([*kept, markup[at : part.end()], *begin, *moved, rest]) if moved else markup
    return b"".join([*kept, markup[at:], b"<body>", *moved]) if moved else markup
