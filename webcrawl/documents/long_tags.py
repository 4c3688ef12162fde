"""Shortens tags with very many attributes: Lexbor compares each with all before it, 100,000 take 20 s."""

from __future__ import annotations

import re

MAX_ATTRIBUTES = 256
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


def may_have_long_tag(markup: bytes) -> bool:
    """Returns whether there may be a tag of over 32 KiB: it fills at least one window of half that size."""
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
