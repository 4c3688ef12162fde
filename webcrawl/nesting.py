"""How deep the elements of a page nest, told from its tags alone, and markup that nests no deeper than a parser bears.

Lexbor looks through its stack of open elements at nearly every tag: 100,000 nested divs take it 12 s, 8,000 with as
many end tags at most 0.2 s.
"""

from __future__ import annotations

import re
from collections import Counter
from string import ascii_letters, digits

import numpy as np

# The nesting that browsers build (Blink and WebKit stop at 512 too).
MAX_DEPTH = 512

_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9:-]*)")
# Elements that cannot make a tree deep by themselves: void, text only, closed by their like, or (a) worth
# keeping.
_SHALLOW_NAMES = (
    "html head body a area base basefont bgsound br col embed frame hr img input keygen link meta param"
    " source track wbr script style title textarea iframe noembed noframes noscript xmp plaintext select"
    " option optgroup p li dt dd tr td th thead tbody tfoot caption colgroup rb rp rt rtc"
)
_SHALLOW = frozenset(_SHALLOW_NAMES.split())
_WHOLE_NAME = 8
_MOST_NAMES = 500
_NAME_BYTES = np.array([chr(byte) in ascii_letters + digits + ":-" for byte in range(256)])


def bounded(markup: bytes) -> bytes:
    """Markup in UTF-8 that nests no deeper than `MAX_DEPTH`: the same, as a rule."""
    if not may_nest_deeper(markup, MAX_DEPTH):
        return markup
    return flattened(markup.decode("utf-8", "replace"), MAX_DEPTH).encode()


def may_nest_deeper(markup: bytes, depth: int) -> bool:
    """Whether `flattened` would leave a start tag out; True also where that cannot be told.

    For each name the elements open after each of its tags, all at once: a third of the time of following the tags.
    """
    octets = np.frombuffer(markup + b" " * (_WHOLE_NAME + 2), np.uint8)
    tags = np.flatnonzero(octets == ord("<")) + 1
    if not len(tags):
        return False
    ends = octets[tags] == ord("/")
    names = np.zeros(len(tags), np.uint64)
    inside = np.ones(len(tags), bool)
    for place in range(_WHOLE_NAME):
        letters = octets[tags + ends + place]
        inside &= _NAME_BYTES[letters]
        names |= np.where(inside, letters | 0x20, 0).astype(np.uint64) << np.uint64(8 * place)
    hashes = (names * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(48)).astype(np.uint16)
    order = np.argsort(hashes, kind="stable")  # by counting, as it is for 16 bits: far faster than np.unique
    starts = np.flatnonzero(np.diff(names[order], prepend=names[order[:1]] + np.uint64(1)))
    if len(starts) > _MOST_NAMES or len(np.unique(hashes[order[starts]])) < len(starts):
        return True
    changes = np.zeros(len(tags), np.int64)
    for places in np.split(order, starts[1:]):
        name = names[places[0]].tobytes().rstrip(b"\0").decode()
        if name and name not in _SHALLOW:
            # names that were cut off may differ: their end tags close nothing
            steps = np.where(ends[places], -(len(name) < _WHOLE_NAME), 1)
            level = np.cumsum(steps)
            level -= np.minimum(np.minimum.accumulate(level), 0)
            changes[places] = np.diff(level, prepend=0)
    return bool(np.cumsum(changes).max(initial=0) > depth)


def flattened(markup: str, depth: int) -> str:
    """`markup` without the start tags that would nest deeper than `depth`: their contents stay, as siblings.

    An estimate from the tags alone, exact enough to bound the parser's work: an end tag closes one element of its
    name, and nothing when none is open.
    """
    kept: list[str] = []
    open_elements: Counter[str] = Counter()
    level = 0
    position = 0
    for tag in _TAG.finditer(markup):
        name = tag[2].lower()
        if name in _SHALLOW:
            continue
        if tag[1]:
            if open_elements[name]:
                open_elements[name] -= 1
                level -= 1
        elif level < depth:
            open_elements[name] += 1
            level += 1
        else:
            kept.append(markup[position : tag.start()])
            position = _tag_end(markup, tag.end())
    kept.append(markup[position:])
    return "".join(kept)


def _tag_end(markup: str, start: int) -> int:
    end = markup.find(">", start)
    return len(markup) if end < 0 else end + 1
