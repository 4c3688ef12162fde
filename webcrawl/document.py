"""A page's body as several processors read it: bytes, text or a tree, each made once."""

from __future__ import annotations

import io
import re
from collections import Counter
from string import ascii_letters, digits
from typing import BinaryIO, TypeAlias

import numpy as np
from selectolax.lexbor import LexborHTMLParser
from w3lib.encoding import read_bom, to_unicode

Element: TypeAlias = tuple[str, dict[str, str | None]]
"""Name and attributes."""

# What leads elsewhere or says something of the page: one search through the tree for all who ask.
_ELEMENTS = "a[href],area[href],link[href],frame[src],iframe[src],base[href],meta[content]"

# Lexbor looks through its stack of open elements at nearly every tag: 100,000 nested divs take it 12 s, 8,000
# with as many end tags at most 0.2 s. Fewer start tags than this need no look at how they nest.
TRUSTED_TAGS = 8_000
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


class Document:
    """A rewindable body without content-encoding, of a known MIME type, found at `url`.

    `charset` is the name of a Python codec, or None where nobody said: then UTF-8 if the bytes are valid
    UTF-8, otherwise windows-1252. Processors share `text` and `html` and must not change the tree.
    """

    __slots__ = ("_body", "_elements", "_html", "_text", "charset", "mime_type", "url")

    def __init__(self, body: bytes, mime_type: str, charset: str | None, url: str) -> None:
        self._body = body
        self.mime_type = mime_type
        self.charset = charset
        self.url = url
        self._text: str | None = None
        self._html: LexborHTMLParser | None = None
        self._elements: list[Element] | None = None

    def __len__(self) -> int:
        """The number of bytes."""
        return len(self._body)

    def __bool__(self) -> bool:
        """True even when empty: a document without bytes is still a document."""
        return True

    def __repr__(self) -> str:
        return f"<Document {self.url} {self.mime_type} {len(self)} bytes>"

    def open(self) -> BinaryIO:
        """A new stream over the body, at its start; independent of every other one."""
        return io.BytesIO(self._body)

    @property
    def body(self) -> bytes:
        """The whole body in memory."""
        return self._body

    @property
    def text(self) -> str:
        """The body decoded once, without byte order mark; never raises, the undecodable becomes U+FFFD."""
        if self._text is None:
            self._text = decode(self._body, self.charset)
        return self._text

    @property
    def html(self) -> LexborHTMLParser:
        """The body parsed as HTML, once; nesting beyond `MAX_DEPTH` is flattened, text and links are kept."""
        if self._html is None:
            # UTF-8 goes to Lexbor as it is; it replaces what is none as decoding would
            markup = self._body if self._is_utf8 else self.text.encode("utf-8", "surrogatepass")
            if markup.count(b"<") > TRUSTED_TAGS and may_nest_deeper(markup, MAX_DEPTH):
                self._html = LexborHTMLParser(flattened(self.text, MAX_DEPTH))
            else:
                self._html = LexborHTMLParser(markup)
        return self._html

    @property
    def _is_utf8(self) -> bool:
        return self.charset in ("utf-8", "ascii") and self._text is None and read_bom(self._body)[0] is None

    @property
    def elements(self) -> list[Element]:
        """The elements that may hold a link, and <meta content>, in document order; searched for once."""
        if self._elements is None:
            self._elements = elements(self.html)
        return self._elements


def elements(tree: LexborHTMLParser) -> list[Element]:
    """See `Document.elements`."""
    return [(node.tag or "", node.attributes) for node in tree.css(_ELEMENTS)]


def decode(body: bytes, charset: str | None) -> str:
    """Text of `body`: a byte order mark wins over `charset`, as in browsers; for neither see `Document`."""
    bom_charset, bom = read_bom(body)
    if bom_charset is not None and bom is not None:
        return to_unicode(body[len(bom) :], bom_charset)
    if charset is not None:
        try:
            return to_unicode(body, charset)
        except (LookupError, ValueError):  # no codec of that name, or one that is not for text: as if unnamed
            pass
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        return body.decode("cp1252", "replace")


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
