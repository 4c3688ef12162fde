"""How deep the elements of a page nest, told from its tags alone, and markup that nests no deeper than a parser bears.

Lexbor looks through its stack of open elements at nearly every tag: 100,000 nested divs take it 12 s, 8,000 with as
many end tags at most 0.2 s.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from string import ascii_letters, digits

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.uint64]
Octets = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]

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
_MIXER = np.uint64(0x9E3779B97F4A7C15)
_ONES, _TOPS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
# Every byte in lower case; zero where it is in no name.
_LETTERS = np.array(
    [ord(chr(byte).lower()) if chr(byte) in ascii_letters + digits + ":-" else 0 for byte in range(256)],
    np.uint8,
)


def _hashes(names: Numbers) -> Numbers:
    return names * _MIXER >> np.uint64(48)


def _table(names: Iterable[str]) -> Numbers:
    """Names as numbers, each at its hash."""
    numbers = np.array([int.from_bytes(name.encode()[:_WHOLE_NAME], "little") for name in names], np.uint64)
    table = np.zeros(1 << 16, np.uint64)
    table[_hashes(numbers)] = numbers
    return table


_SHALLOW_TABLE = _table(name for name in _SHALLOW if len(name) < _WHOLE_NAME)


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
    ends = octets[tags] == ord("/")
    names = _names(octets, tags + ends)
    hashes = _hashes(names)
    deep = np.flatnonzero(_SHALLOW_TABLE[hashes] != names)
    names, hashes, ends = names[deep], hashes[deep], ends[deep]
    if not len(names):
        return False
    order = np.argsort(hashes.astype(np.uint16), kind="stable")  # by counting, as it is for 16 bits
    starts = np.flatnonzero(np.diff(names[order], prepend=names[order[:1]] + np.uint64(1)))
    if len(starts) > _MOST_NAMES or len(np.unique(hashes[order[starts]])) < len(starts):
        return True
    changes = np.zeros(len(names), np.int64)
    for places in np.split(order, starts[1:]):
        name = names[places[0]].tobytes().rstrip(b"\0").decode()
        if name and name not in _SHALLOW:
            # names that were cut off may differ: their end tags close nothing
            steps = np.where(ends[places], -(len(name) < _WHOLE_NAME), 1)
            level = np.cumsum(steps)
            level -= np.minimum(np.minimum.accumulate(level), 0)
            changes[places] = np.diff(level, prepend=0)
    return bool(np.cumsum(changes).max(initial=0) > depth)


def _names(octets: Octets, places: Places) -> Numbers:
    """The first 8 letters of the names that begin at these places, as little-endian numbers; 0 where none does."""
    # eight bytes at a time, at any offset
    words = np.ndarray((len(octets) - 7,), "<u8", octets, 0, (1,))[places]
    letters = _LETTERS[words.view(np.uint8)].view(np.uint64)
    zeros = (letters - _ONES) & ~letters & _TOPS
    # all bits below the lowest byte that is zero; all bits where none is
    inside = (zeros & (~zeros + np.uint64(1))) - np.uint64(1)
    return letters & np.where(zeros, inside >> np.uint64(7), inside)


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
