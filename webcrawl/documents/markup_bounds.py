"""Estimates the cost of parsing a page from its tags, and removes tags that would cost too much.

Lexbor searches its stack of open elements at nearly every tag: 100,000 nested divs take 12 s. In each paragraph it
reopens all bold and italic elements that are still open, as the HTML standard requires (13.2.4.3, the list of active
formatting elements; at most three equal elements): 84 KB take 3 GB. At each option it searches all earlier options:
20,000 take 10 s. An element takes about 300 bytes, so 8 MiB of tags would take more than 1 GB.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from string import ascii_letters, digits
from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.uint64]
Octets = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

# The nesting limit of browsers (Blink and WebKit).
MAX_DEPTH = 512
MAX_REPEATED = 1_000_000
"""How many bold, italic... elements paragraphs may reopen. In pages that could exceed it, these become spans."""
MAX_PER_NAME = {"option": 1_000, "optgroup": 1_000, "html": 16, "body": 16}
"""The most start tags of a page, by name. Further html and body tags add their attributes to the first element."""
MAX_ELEMENTS = 200_000
"""The most elements and comments of a page; all further markup becomes text."""
MAX_TAGS = 500_000
"""The most tags of a page, including end tags; all further markup becomes text."""

_TAG = re.compile(r"<(?:(/?)([a-zA-Z][a-zA-Z0-9:-]*)|[!?/])")
_ANY_TAG = re.compile(r"<[a-zA-Z/!?][^<>]*>?")
_STYLES = frozenset(
    ["b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"]
)
# A start tag up to its first ">", without brackets. Equal matches have equal attributes.
_SIMPLE_TAG = re.compile(
    rb"""[a-zA-Z]++(?:[\t\n\f\r /]++[^\t\n\f\r "'<>/=]++"""
    rb"""(?:=(?:"[^"<>]*+"|'[^'<>]*+'|[^\t\n\f\r "'<>=`]++))?+)*+[\t\n\f\r /]*+"""
)
_MAX_ALIKE = 3
_LONG_TAG = 512
_RUBY_PARTS = frozenset(("rb", "rp", "rt", "rtc"))
# Elements that cannot make a tree deep by themselves: void, text only, closed by the next element, or links.
_SHALLOW_NAMES = (
    "html head body a area base basefont bgsound br col embed frame hr img input keygen link meta param"
    " source track wbr script style title textarea iframe noembed noframes noscript xmp plaintext select"
    " option optgroup p li dt dd tr td th thead tbody tfoot caption colgroup"
)
_SHALLOW = frozenset(_SHALLOW_NAMES.split())
_WHOLE_NAME = 8
_MAX_NAMES = 500
TRUSTED_TAGS = 2_000
"""Pages with at most this many tags are cheap to parse, whatever the tags are."""
# This many tags may nest without limit: with as many end tags, parsing takes at most 0.2 s.
_UNNESTED_TAGS = 8_000
_MIXER = np.uint64(0x9E3779B97F4A7C15)
_ONES, _TOPS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
# Every byte in lower case; zero if it cannot be in a name.
_LETTERS = bytes(
    ord(chr(byte).lower()) if chr(byte) in ascii_letters + digits + ":-" else 0 for byte in range(256)
)


def _hashes(names: Numbers) -> Numbers:
    return names * _MIXER >> np.uint64(48)


def _number(name: str) -> int:
    return int.from_bytes(name.encode()[:_WHOLE_NAME], "little")


def _table(names: Iterable[str]) -> Numbers:
    """Returns a table of names as numbers, each at its hash."""
    numbers = np.array([_number(name) for name in names], np.uint64)
    table = np.zeros(1 << 16, np.uint64)
    table[_hashes(numbers)] = numbers
    return table


_SHALLOW_TABLE = _table(name for name in _SHALLOW if len(name) < _WHOLE_NAME)
_STYLES_TABLE = _table(_STYLES)
# Whether two bytes may begin a name whose number is limited: most tags are skipped by this test.
_MAY_MATTER = np.isin(
    np.frombuffer(np.arange(1 << 16, dtype="<u2").tobytes().translate(_LETTERS), "<u2"),
    [_number(name[:2]) for name in (*_STYLES, *MAX_PER_NAME)],
)
_LIMITED_NUMBERS = [(_number(name), most) for name, most in MAX_PER_NAME.items()]


def bounded(markup: bytes) -> bytes:
    """Returns markup in UTF-8 within the limits above; usually the same object."""
    tags = np.count_nonzero(np.frombuffer(markup, np.uint8) == ord("<"))
    if tags <= TRUSTED_TAGS:
        return markup
    is_flat = tags > MAX_ELEMENTS
    if is_flat:  # first, because the arrays below take 50 bytes a tag
        markup = _flat(markup)
    octets, offsets, ends = _tags(markup)
    chosen = np.flatnonzero(_MAY_MATTER[_at(octets, offsets, "<u2")])
    names = _names(octets, offsets[chosen])
    styles = _STYLES_TABLE[_hashes(names)] == names
    styled = offsets[chosen[styles]]
    starts = styled[~ends[chosen[styles]]]
    others = len(offsets) - len(styled)
    if len(starts) * others > MAX_REPEATED and _different(markup, starts) * others > MAX_REPEATED:
        return bounded(_unstyled(markup, styled, names[styles]))
    if is_flat or (len(offsets) <= _UNNESTED_TAGS and not _too_many_of(names, ends[chosen])):
        return markup
    return _flat(markup) if _may_exceed(octets, offsets, ends, MAX_DEPTH) else markup


def _flat(markup: bytes) -> bytes:
    before = markup.decode("utf-8", "replace")
    after = flattened(before, MAX_DEPTH)
    return markup if after == before else after.encode()


def may_exceed(markup: bytes, depth: int) -> bool:
    """Returns whether `flattened` would remove a start tag, or True if this cannot be computed."""
    return _may_exceed(*_tags(markup), depth)


def _different(markup: bytes, starts: Offsets) -> int:
    """Returns how many of the elements that start at these offsets the parser may keep to reopen them.

    Ignores end tags, because a comment or a table cell may hide them.
    """
    tags = [
        markup[start:end]
        for start in starts.tolist()
        if (end := markup.find(b">", start, start + _LONG_TAG)) >= 0
    ]
    unended = len(starts) - len(tags)
    return unended + sum(
        min(count, _MAX_ALIKE) if _SIMPLE_TAG.fullmatch(tag) else count
        for tag, count in Counter(tags).items()
    )


def _unstyled(markup: bytes, offsets: Offsets, names: Numbers) -> bytes:
    """Returns markup with spans for the elements whose names are at these offsets."""
    pieces: list[bytes] = []
    position = 0
    lengths = np.count_nonzero(names.view(np.uint8).reshape(-1, _WHOLE_NAME), axis=1)
    for offset, length in zip(offsets.tolist(), lengths.tolist(), strict=True):
        pieces.append(markup[position:offset])
        position = offset + length
    return b"span".join([*pieces, markup[position:]])


def _tags(markup: bytes) -> tuple[Octets, Offsets, Flags]:
    """Returns the bytes, the offsets at which names of tags begin, and which tags are end tags."""
    octets = np.frombuffer(markup + b" " * (_WHOLE_NAME + 2), np.uint8)
    offsets = np.flatnonzero(octets == ord("<")) + 1
    ends = octets[offsets] == ord("/")
    offsets += ends
    return octets, offsets, ends


def _may_exceed(octets: Octets, offsets: Offsets, ends: Flags, depth: int) -> bool:
    names = _names(octets, offsets)
    hashes = _hashes(names)
    if _too_many_of(names, ends):
        return True
    deep = np.flatnonzero(_SHALLOW_TABLE[hashes] != names)
    depths = _levels(names[deep], hashes[deep], ends[deep])
    return depths is None or len(offsets) > MAX_ELEMENTS or bool(depths.max(initial=0) > depth)


def _too_many_of(names: Numbers, ends: Flags) -> bool:
    starts = names[~ends]
    return any(np.count_nonzero(starts == number) > most for number, most in _LIMITED_NUMBERS)


def _levels(names: Numbers, hashes: Numbers, ends: Flags) -> Offsets | None:
    """Returns how many elements are open after each tag; None if this cannot be computed.

    Computes the open elements of all names at once, in the tags sorted by name: half of the time of name after name.
    """
    count = len(names)
    if not count:
        return np.zeros(0, np.int64)
    order = np.argsort(hashes.astype(np.uint16), kind="stable")  # 16 bits: NumPy sorts by counting
    starts = np.flatnonzero(np.diff(names[order], prepend=names[order[:1]] + np.uint64(1)))
    if len(starts) > _MAX_NAMES or len(np.unique(hashes[order[starts]])) < len(starts):
        return None
    sizes = np.diff(starts, append=count)
    ups, downs = np.array([_steps(number.tobytes()) for number in names[order[starts]]], np.int64).T
    steps = np.where(ends[order], np.repeat(downs, sizes), np.repeat(ups, sizes))
    level = np.cumsum(steps)
    level -= np.repeat(level[starts] - steps[starts], sizes)
    # the running minimum of each name: far below those of the names before
    apart = np.repeat(np.arange(len(starts)) * (2 * count + 1), sizes)
    level -= np.minimum(np.minimum.accumulate(level - apart) + apart, 0)
    changes = np.diff(level, prepend=0)
    changes[starts] = level[starts]
    in_order = np.empty(count, np.int64)
    in_order[order] = changes
    return np.cumsum(in_order)


def _steps(number: bytes) -> tuple[int, int]:
    """Returns by how many open elements the start tag and the end tag of a name change their number."""
    name = number.rstrip(b"\0").decode()
    if not name or name in _SHALLOW:
        return 0, 0
    # names that were cut may differ: their end tags close nothing
    return 1, -(len(name) < _WHOLE_NAME)


def _names(octets: Octets, offsets: Offsets) -> Numbers:
    """Returns the first 8 letters of the names at these offsets as little-endian numbers; 0 where there is no name."""
    # to translate bytes takes half the time of looking each up in an array
    words = _at(octets, offsets, "<u8").tobytes().translate(_LETTERS)
    letters = np.frombuffer(words, np.uint64)
    zeros = (letters - _ONES) & ~letters & _TOPS
    # all bits below the lowest zero byte; all bits if there is none
    inside = (zeros & (~zeros + np.uint64(1))) - np.uint64(1)
    return letters & np.where(zeros, inside >> np.uint64(7), inside)


def _at(octets: Octets, offsets: Offsets, number: str) -> npt.NDArray[Any]:
    """Returns the numbers of this type at these offsets, aligned or not."""
    size = np.dtype(number).itemsize
    return np.ndarray((len(octets) - size + 1,), number, octets, 0, (1,))[offsets]


def flattened(markup: str, depth: int) -> str:
    """Returns markup without the start tags beyond the limits; their contents stay, as siblings.

    Estimates the open elements from the tags alone, which is enough to limit the work of the parser: an end tag closes
    one element of its name, or nothing if none is open. Removes all tags after `MAX_ELEMENTS` or `MAX_TAGS`.
    """
    kept: list[str] = []
    open_elements = _Open(depth)
    position = 0
    for number, tag in enumerate(_TAG.finditer(markup)):
        if tag.start() < position:  # within a removed tag
            continue
        if open_elements.made > MAX_ELEMENTS or number > MAX_TAGS:
            return "".join([*kept, markup[position : tag.start()], _ANY_TAG.sub(" ", markup[tag.start() :])])
        name = (tag[2] or "").lower()
        if tag[1] or not name:
            open_elements.end(name)
        elif not open_elements.start(name):
            kept.append(markup[position : tag.start()])
            position = _tag_end(markup, tag.end())
    kept.append(markup[position:])
    return "".join(kept)


class _Open:
    """The open elements at a point of a page, and the number of elements before it."""

    def __init__(self, depth: int) -> None:
        self.made = 0
        self._depth = depth
        self._level = 0
        self._names: Counter[str] = Counter()

    def start(self, name: str) -> bool:
        """Opens an element if it is within the limits; returns whether it is."""
        if name in MAX_PER_NAME:
            self._names[name] += 1
            within = self._names[name] <= MAX_PER_NAME[name]
        elif name in _SHALLOW:
            within = True
        else:
            within = self._level < self._depth
            self._names[name] += within
            self._level += within
        self.made += within
        return within

    def end(self, name: str) -> None:
        """Handles an end tag, or a comment, which has no name. </p> may create an element too."""
        self.made += name in ("p", "br", "")
        if name in MAX_PER_NAME or not self._names[name]:
            return
        self._names[name] -= 1
        self._level -= 1
        if name == "ruby" and not self._names[name]:
            for part in _RUBY_PARTS:
                self._level -= self._names.pop(part, 0)


def _tag_end(markup: str, start: int) -> int:
    end = markup.find(">", start)
    return len(markup) if end < 0 else end + 1
