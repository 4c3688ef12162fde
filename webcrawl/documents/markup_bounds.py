"""Estimates the cost of parsing a page from its tags, and removes tags that would cost too much.

Lexbor searches its stack of open elements at nearly every tag: 100,000 nested divs take 12 s. In each paragraph it
reopens all bold and italic elements that are still open, as the HTML standard requires (13.2.4.3, the list of active
formatting elements; at most three equal elements): 84 KB take 3 GB. At each option it searches all earlier options:
20,000 take 10 s. An element takes about 300 bytes, so 8 MiB of tags would take more than 1 GB.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache

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
# Elements of SVG and MathML are none of HTML, so shallow names nest in them, but for those that end them ("foreign
# content" in the HTML Standard), except in elements whose content is HTML.
_DRAWINGS = frozenset({"svg", "math"})
_ENDING_NAMES = (
    "b big blockquote body br center code dd div dl dt em embed h1 h2 h3 h4 h5 h6 head hr i img li listing menu meta"
    " nobr ol p pre ruby s small span strong strike sub sup table tt u ul var"
)
_END_DRAWINGS = frozenset(_ENDING_NAMES.split())
_HTML_IN_DRAWINGS = frozenset(
    ["foreignobject", "desc", "title", "annotation-xml", "mi", "mo", "mn", "ms", "mtext"]
)
# The end of a tag after its name that surely closes an element of SVG or MathML.
_SELF_CLOSED = r"""(?:\s++[\w:.-]++(?:\s*+=\s*+(?:"[^"<>]*+"|'[^'<>]*+'))?+)*+\s*+/>"""
_IS_SELF_CLOSED = re.compile(_SELF_CLOSED)
_NESTING_IN_DRAWINGS = _SHALLOW - _END_DRAWINGS - MAX_PER_NAME.keys()
_SHALLOW_BYTES = frozenset(name.encode() for name in _SHALLOW)
_WHOLE_NAME = 8
_MAX_NAMES = 500
TRUSTED_TAGS = 2_000
"""Pages with at most this many tags are cheap to parse, whatever the tags are."""
# This many tags may nest without limit: with as many end tags, parsing takes at most 0.2 s.
_UNNESTED_TAGS = 8_000
_PART_BYTES = 16 * 1024
_LETTER = "[a-zA-Z0-9:-]"


def _whole(name: str) -> str:
    """Returns a pattern for a name in any case; letters after the first 8 are not looked at."""
    letters = "".join(f"[{letter}{letter.upper()}]" for letter in name)
    return letters if len(name) == _WHOLE_NAME else f"{letters}(?!{_LETTER})"


def _any_of(names: Iterable[str]) -> str:
    """Returns a pattern for any of these names. It looks at the first letter first, which excludes most tags."""
    firsts = "".join(sorted({letter for name in names for letter in (name[0], name[0].upper())}))
    return f"(?=[{firsts}])(?:{'|'.join(_whole(name) for name in sorted(names))})"


_STYLE_STARTS, _STYLE_ENDS = (re.compile(f"{before}{_any_of(_STYLES)}".encode()) for before in ("<", "</"))
# Start tags whose number is limited, without the first bracket. Pages with code have thousands of spans.
_LIMITED_TAGS = re.compile(
    f"<(?![sS][pP])({_any_of([*_STYLES, *MAX_PER_NAME])}[^<>]{{0,{_LONG_TAG - 1}}}+>?)".encode()
)
_DRAWING_TAGS = re.compile(f"<(/?)(?:svg|math)(?!{_LETTER})(?!{_SELF_CLOSED})".encode(), re.IGNORECASE)
_NESTING_STARTS = re.compile(f"<{_any_of(_NESTING_IN_DRAWINGS)}(?!{_SELF_CLOSED})".encode())
_NAME = re.compile(f"{_LETTER}{{1,{_WHOLE_NAME}}}".encode())
# The first 8 letters of the names of tags, with a slash before those of end tags.
_NAMES = re.compile(f"<(/?{_LETTER}{{1,{_WHOLE_NAME}}})".encode())
# The same after frequent tags that leave the nesting as it was, or an empty name: spans without a tag in them, and
# shallow elements. Two thirds of the tags of a page of code need no object then. It always matches, so time is linear.
_NESTING_NAMES = re.compile(
    rb"<(?:(?:span [^<>]*+>[^<]*+</span>|/?(?:a|p|t[dr]|li)[ >])[^<]*+<)*+"
    + f"(/?{_LETTER}{{1,{_WHOLE_NAME}}})?+".encode()
)


def bounded(markup: bytes) -> bytes:
    """Returns markup in UTF-8 within the limits above; usually the same object."""
    # to replace a byte takes half the time of counting it
    if b"<" not in markup.replace(b"<", b">", TRUSTED_TAGS):
        return markup
    tags = markup.count(b"<")
    is_flat = tags > MAX_ELEMENTS
    if is_flat:
        markup = _flat(markup)
        tags = markup.count(b"<")
    limited = Counter[bytes](_LIMITED_TAGS.findall(markup))
    counts = _by_name(limited)
    starts = sum(counts[name] for name in _STYLES)
    others = tags - starts
    if starts * others > MAX_REPEATED and (different := _different(limited)) * others > MAX_REPEATED:
        others -= len(_STYLE_ENDS.findall(markup))
        if different * others > MAX_REPEATED:
            return bounded(_STYLE_ENDS.sub(b"</span", _STYLE_STARTS.sub(b"<span", markup)))
    if is_flat:
        return markup
    if _too_many_of(counts) or (
        tags > _UNNESTED_TAGS and (_exceeds(markup, MAX_DEPTH) or _may_nest_in_drawings(markup, MAX_DEPTH))
    ):
        return _flat(markup)
    return markup


def _flat(markup: bytes) -> bytes:
    before = markup.decode("utf-8", "replace")
    after = flattened(before, MAX_DEPTH)
    return markup if after == before else after.encode()


def may_exceed(markup: bytes, depth: int) -> bool:
    """Returns whether `flattened` would remove a start tag, or True if this cannot be computed."""
    counts = _by_name(Counter[bytes](_LIMITED_TAGS.findall(markup)))
    return (
        _too_many_of(counts)
        or markup.count(b"<") > MAX_ELEMENTS
        or _exceeds(markup, depth)
        or _may_nest_in_drawings(markup, depth)
    )


def _by_name(tags: Counter[bytes]) -> Counter[str]:
    """Returns how many tags have each name, by their texts without the first bracket."""
    counts = Counter[str]()
    for tag, count in tags.items():
        counts[_name(tag)] += count
    return counts


def _name(tag: bytes) -> str:
    name = _NAME.match(tag)
    return name[0].lower().decode() if name else ""


def _too_many_of(counts: Counter[str]) -> bool:
    return any(counts[name] > most for name, most in MAX_PER_NAME.items())


def _different(tags: Counter[bytes]) -> int:
    """Returns how many of the bold, italic... elements with these start tags the parser may keep to reopen them.

    Ignores end tags, because a comment or a table cell may hide them.
    """
    return sum(
        min(count, _MAX_ALIKE)
        if tag.endswith(b">") and len(tag) <= _LONG_TAG and _SIMPLE_TAG.fullmatch(tag, 0, len(tag) - 1)
        else count
        for tag, count in tags.items()
        if _name(tag) in _STYLES
    )


def _exceeds(markup: bytes, depth: int) -> bool:
    """Returns whether more than `depth` elements are open at once; True if there are too many names to know."""
    return _may_nest(markup, depth) and _nests(markup, depth)


def _may_nest_in_drawings(markup: bytes, depth: int) -> bool:
    """Returns whether a drawing or formula has so many start tags that are shallow in HTML alone."""
    level, start = 0, 0
    for tag in _DRAWING_TAGS.finditer(markup):
        if tag[1]:
            level = max(level - 1, 0)
            if level:
                continue
        else:
            level += 1
            start = tag.end() if level == 1 else start
            continue
        if start and not level:
            if _number_within(markup, start, tag.start()) > depth:
                return True
            start = 0
    return level > 0 and _number_within(markup, start, len(markup)) > depth


def _number_within(markup: bytes, start: int, end: int) -> int:
    return len(_NESTING_STARTS.findall(markup, start, end)) if markup.find(b"<", start, end) >= 0 else 0


def _may_nest(markup: bytes, depth: int) -> bool:
    """Returns False only if at most `depth` elements are open at once; takes a third of the time of `_nests`.

    Counts the tags of one part of the page after another. In a part, each name has the most open elements if all its
    end tags come before its start tags. Spans that the pattern leaves out are one element more.
    """
    still_open: dict[bytes, int] = {}
    level = 0
    for part in _parts(markup, _NESTING_NAMES):
        starts, highest = [], level + 1
        for raw, count in Counter(part).items():
            name, is_end = _read(raw)
            if not name:
                continue
            if is_end:
                closed = min(count, still_open.get(name, 0))
                still_open[name] = still_open.get(name, 0) - closed
                level -= closed
            else:
                starts.append((name, count))
        for name, count in starts:
            still_open[name] = still_open.get(name, 0) + count
            level += count
            highest += count
        if highest > depth or len(still_open) > _MAX_NAMES:
            return True
    return False


def _nests(markup: bytes, depth: int) -> bool:
    """Returns whether more than `depth` elements are open at once; True if there are too many names to know."""
    still_open: dict[bytes, int] = {}
    level = 0
    for part in _parts(markup, _NAMES):
        for raw in part:
            name, is_end = _read(raw)
            if not name:
                continue
            before = still_open.get(name, 0)
            if not is_end:
                still_open[name] = before + 1
                level += 1
                if level > depth:
                    return True
            elif before:
                still_open[name] = before - 1
                level -= 1
        if len(still_open) > _MAX_NAMES:
            return True
    return False


def _parts(markup: bytes, names: re.Pattern[bytes]) -> Iterator[list[bytes]]:
    """Yields the names of the tags of one part of a page after another: a large page has hundreds of thousands."""
    start = 0
    while start < len(markup):
        end = markup.find(b"<", start + _PART_BYTES)
        if end < 0:
            end = len(markup)
        yield names.findall(markup, start, end)
        start = end


@lru_cache(maxsize=1024)
def _read(raw: bytes) -> tuple[bytes, bool]:
    """Returns a name in the form of _NAMES, empty if its tag changes no nesting, and whether that is an end tag."""
    is_end = raw.startswith(b"/")
    name = raw.lower().removeprefix(b"/")
    # names that were cut may differ: their end tags close nothing
    if name in _SHALLOW_BYTES or (is_end and len(name) == _WHOLE_NAME):
        return b"", is_end
    return name, is_end


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
        elif not open_elements.start(name, markup, tag.end()):
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
        self._drawings = 0
        # the elements in a drawing that are shallow in HTML, and whether an element around is HTML again
        self._drawn: Counter[str] = Counter()
        self._has_html = False

    def start(self, name: str, markup: str, end: int) -> bool:
        """Opens an element if it is within the limits; returns whether it is. `end`: where its name ends."""
        if self._drawings or name in _DRAWINGS:
            if self._drawings and name in _END_DRAWINGS and not self._has_html:
                self._end_drawings()
            elif name in _DRAWINGS and not _is_empty(markup, end):
                self._drawings += 1
            elif name in _HTML_IN_DRAWINGS:
                self._has_html = True
            if self._drawings and name in _NESTING_IN_DRAWINGS and not _is_empty(markup, end):
                within = self._level < self._depth
                self._drawn[name] += within
                self._level += within
                self.made += within
                return within
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
        if self._drawings:
            if name in _DRAWINGS:
                self._drawings -= 1
                if not self._drawings:
                    self._end_drawings()
            elif self._drawn[name]:
                self._drawn[name] -= 1
                self._level -= 1
                return
        if name in MAX_PER_NAME or not self._names[name]:
            return
        self._names[name] -= 1
        self._level -= 1
        if name == "ruby" and not self._names[name]:
            for part in _RUBY_PARTS:
                self._level -= self._names.pop(part, 0)

    def _end_drawings(self) -> None:
        self._level -= self._drawn.total()
        self._drawn.clear()
        self._drawings, self._has_html = 0, False


def _is_empty(markup: str, start: int) -> bool:
    """Returns whether a tag ends by "/>", which closes elements of SVG and MathML."""
    return _IS_SELF_CLOSED.match(markup, start) is not None


def _tag_end(markup: str, start: int) -> int:
    end = markup.find(">", start)
    return len(markup) if end < 0 else end + 1
