"""Tags with more attributes than any page needs: Lexbor compares each with all before it, 100,000 take it 20 s."""

from __future__ import annotations

import re

MOST_ATTRIBUTES = 256
_WINDOW = 1 << 14
_BLANK = rb"[\t\n\f\r /]"
# As the HTML standard's tokenizer reads it; possessive, so that each byte is looked at once.
_ATTRIBUTE = (
    rb"[^\t\n\f\r />][^\t\n\f\r />=]*+"
    rb"""(?:[\t\n\f\r ]*+=[\t\n\f\r ]*+(?:"[^"]*+"?+|'[^']*+'?+|[^\t\n\f\r >"'][^\t\n\f\r >]*+)?+)?+"""
)
_TAG = re.compile(
    rb"</?[a-zA-Z][^\t\n\f\r />]*+(?:" + _BLANK + rb"++(?:" + _ATTRIBUTE + rb")?+|" + _ATTRIBUTE + rb")*+>?+"
)
_START = re.compile(
    rb"</?[a-zA-Z][^\t\n\f\r />]*+(?:" + _BLANK + rb"*+" + _ATTRIBUTE + rb"){%d}" % MOST_ATTRIBUTES
)


def may_have_long_tag(markup: bytes) -> bool:
    """Whether a tag may be of over 32 KiB: told by looking into windows of which it must fill one."""
    for begin in range(0, len(markup) - _WINDOW, _WINDOW):
        if markup.find(b"<", begin, begin + _WINDOW) >= 0:
            continue
        start = markup.rfind(b"<", 0, begin)
        if start >= 0 and (tag := _TAG.match(markup, start)) and tag.end() > begin:
            return True
    return False


def shortened(markup: bytes) -> bytes:
    """`markup` whose tags have at most `MOST_ATTRIBUTES` attributes, the first ones."""
    after = _TAG.sub(_shortened, markup)
    return markup if after == markup else after


def _shortened(tag: re.Match[bytes]) -> bytes:
    if tag.end() - tag.start() <= 2 * MOST_ATTRIBUTES or not (first := _START.match(tag[0])):
        return tag[0]
    return first[0] + b">"
