"""The text of Markdown blocks: characters that are no markup, and emphasis, code, links and images."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

import ada_url
from selectolax.lexbor import LexborNode

from webcrawl.documents.html.markdown_elements import (
    CODE_MARK,
    LINK_MARK,
    SUBSCRIPT,
    SUPERSCRIPT,
    only_text_node,
)
from webcrawl.documents.html.text import clean, is_permalink
from webcrawl.documents.link_elements import image_addresses
from webcrawl.urls.canonical import Base

SCRIPTS = {
    SUPERSCRIPT: str.maketrans("0123456789+-\u2212=()n", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾ⁿ"),
    SUBSCRIPT: str.maketrans("0123456789+-\u2212=()", "₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎"),
}
_MAX_ALT = 1_000
_LONGEST_JOINED = 2_000
"""Characters of a code span to which no other is joined: to join thousands takes time by the square of their number."""
_MAX_ADDRESS = 2_000

SPECIAL = re.compile(r"[\\`*_\[\]<&~]")
# "_" between letters, and "&" that begins no character reference, are never markup
_ESCAPED = re.compile(r"[\\`*\[\]<~]|(?<![^\W_])_|_(?![^\W_])|&(?=[#A-Za-z]|$)")
_BACKTICKS = re.compile("`+")
_SAFE_FRAGMENT = re.compile(r"[A-Za-z0-9._~:/?@!$&'*+,;=%-]*")
_PLAIN_FRAGMENT = re.compile(r"[A-Za-z0-9._~:/?@!$'*+,=%-]*")
"""A fragment that is written unchanged in a destination, and ends no character reference that the address begins."""
_TRACKING_SIZES = frozenset({"0", "1", "0px", "1px"})
# Punctuation that is moved out of emphasis, which must not begin or end with it.
_OPENING = "\"'“‘„‚«‹¿¡（「『《〈【"
_CLOSING = ".,:;?!\"'”’“‘»›…）」』》〉】。、，．：；？！"


AROUND, BEGINS, ENDS = range(3)
"""What a mark does: it is put around the next piece of the text, or begins or ends before the piece."""
Mark: TypeAlias = tuple[int, int, str, str]
"""An inline element: the number of the next piece, what it does, its kind, and the address of a link."""
OpenMark: TypeAlias = tuple[str, str, int]
"""An inline element that has begun: its kind, its address, and the number of Markdown pieces before it."""


def is_special(text: str) -> bool:
    """Returns whether a text has characters that may be markup. In long texts this is faster than an expression."""
    return (
        "_" in text
        or "*" in text
        or "`" in text
        or "<" in text
        or "&" in text
        or "[" in text
        or "]" in text
        or "~" in text
        or "\\" in text
    )


def escaped(text: str) -> str:
    """Returns a text without markup, except for signs that are markup only at the start of a line."""
    if SPECIAL.search(text) is None or _ESCAPED.search(text) is None:  # as most texts
        return text
    return _ESCAPED.sub(r"\\\g<0>", text)


def marked(pieces: Sequence[str], marks: Iterable[Mark], *, with_signs: bool) -> str:
    """Returns the Markdown of the pieces of a text with their marks. `with_signs`: the pieces have to be escaped."""
    made: list[str] = []
    open_marks: list[OpenMark] = []
    is_text, at = with_signs, 0
    for piece, does, kind, address in marks:
        if at < piece:
            made += map(escaped, pieces[at:piece]) if is_text else pieces[at:piece]
        at = piece
        if does == AROUND:
            text = pieces[at]
            _wrap(made, kind, escaped(text) if is_text and kind != CODE_MARK else text, address, open_marks)
            at += 1
            continue
        if does == BEGINS:
            open_marks.append((kind, address, len(made)))
        else:
            kind, address, start = open_marks.pop()
            inside = made[start:]
            del made[start:]
            _wrap(made, kind, "".join(inside), address, open_marks, inside)
        is_text = with_signs and not (open_marks and open_marks[-1][0] == CODE_MARK)
    made += map(escaped, pieces[at:]) if is_text else pieces[at:]
    return "".join(made)


def _wrap(
    made: list[str],
    kind: str,
    text: str,
    address: str,
    around: Sequence[OpenMark],
    inside: Sequence[str] | None = None,
) -> None:
    """Appends the text in an inline element to the pieces of its block.

    `address` is the destination of a link. `around` are the inline elements around this element. `inside` are the
    pieces of the text, if the element has other inline elements in it.
    """
    if kind == CODE_MARK and text and text.isprintable() and " " not in text and CODE_MARK not in text:
        made.append(_code(text, made, around) if made and made[-1][:1] == CODE_MARK else f"`{text}`")
        return
    is_emphasis = kind != LINK_MARK and kind != CODE_MARK
    if is_emphasis and (scripts := SCRIPTS.get(kind)):
        made.append(text.translate(scripts) if all(ord(sign) in scripts for sign in text) else text)
        return
    core = text.strip()
    emphasis = _emphasis(kind, core, made[-1] if made else "") if is_emphasis else ""
    if not core or emphasis == core:
        for piece in (text,) if inside is None else inside:
            made.append(_code(_content(piece), made, around) if piece[:1] == CODE_MARK else piece)
        return
    is_stripped = len(core) == len(text)
    start = 0 if is_stripped else text.index(core[0])
    if start:
        made.append(text[:start])
    if kind == LINK_MARK:
        if made and made[-1][-1:] == "!":  # the link would be an image
            made[-1] = made[-1][:-1] + "\\!"
        made.append(f"[{core}]({address})")
    elif is_emphasis:
        made.append(emphasis)
    else:
        made.append(_code(core if core.isalnum() else " ".join(core.split()), made, around))
    if not is_stripped and start + len(core) < len(text):
        made.append(text[start + len(core) :])


def _code(content: str, pieces: list[str], around: Sequence[OpenMark]) -> str:
    """Returns a code span, joined with a code span right before it: their backticks would be read as a single run.

    A code span before the link around `content` stays apart. A space comes after a long one.
    """
    if pieces and pieces[-1][:1] == CODE_MARK and not (around and around[-1][2] >= len(pieces)):
        if len(pieces[-1]) <= _LONGEST_JOINED:
            content = _content(pieces.pop()) + content
        else:
            pieces.append(" ")
    if CODE_MARK not in content:
        return f"`{content}`"
    fence = CODE_MARK * (max(map(len, _BACKTICKS.findall(content))) + 1)
    padding = " " if content[0] == CODE_MARK or content[-1] == CODE_MARK else ""
    return f"{fence}{padding}{content}{padding}{fence}"


def _content(code: str) -> str:
    """Returns the content of a code span. Only code spans begin with a backtick, because texts are escaped."""
    inside = code.lstrip(CODE_MARK)
    inside = inside[: len(inside) - (len(code) - len(inside))]
    return inside[1:-1] if inside[0] == " " else inside


def _emphasis(mark: str, core: str, before: str) -> str:
    """Returns a text between marks, or without marks where a parser could read them differently."""
    inner = core.lstrip(_OPENING)
    opening = core[: len(core) - len(inner)]
    middle = inner.rstrip(_CLOSING)
    closing = inner[len(middle) :]
    if not middle or not _is_word(middle[0]) or not _is_word(middle[-1]):
        return core
    if (opening or before)[-1:] == mark[0]:
        return core
    return f"{opening}{mark}{middle}{mark}{closing}"


def _is_word(sign: str) -> bool:
    return sign.isalnum() or unicodedata.category(sign)[0] not in "PSZC"


def image(attributes: Mapping[str, str | None], destinations: Destinations) -> str:
    """Returns an image, or "" if it has no address, is decoration (an empty `alt`), or counts readers."""
    alt = attributes.get("alt")
    if alt == "" or {attributes.get("width"), attributes.get("height")} & _TRACKING_SIZES:
        return ""
    address = next(filter(None, map(destinations.of, image_addresses(attributes))), "")
    return f"![{escaped(' '.join(clean((alt or '')[:_MAX_ALT]).split()))}]({address})" if address else ""


class Destinations:
    """Makes the destinations of links: absolute URLs in the form that Markdown needs."""

    def __init__(self, base: Base) -> None:
        self._url = base.url
        self._base = base
        self._destinations: dict[str, str] = {}
        """By address, with and without its fragment."""

    def of(self, written: str | None) -> str:
        """Returns the destination of an address; "" for an address that is malformed, too long, or not fetched."""
        if not written:
            return ""
        destination = self._destinations.get(written)
        if destination is None:
            destination = self._joined(written) if len(written) <= _MAX_ADDRESS else ""
            self._destinations[written] = destination
        return destination

    def base(self) -> str:
        """Returns the destination of an empty address."""
        return self._made("", "", "")

    def _joined(self, written: str) -> str:
        address, mark, fragment = written.strip().partition("#")
        page = self._destinations.get(address)
        if page is None:
            page = self._destinations[address] = self._made(address, "", "")
        if not mark:
            return page
        if page and _PLAIN_FRAGMENT.fullmatch(fragment):
            destination = f"{page}#{fragment}"
            if len(destination) <= _MAX_ADDRESS:
                return destination
        return self._made(address, mark, fragment)

    def _made(self, address: str, mark: str, fragment: str) -> str:
        try:
            if mark and not _SAFE_FRAGMENT.fullmatch(fragment):
                url: str | None = ada_url.join_url(self._url, self._base.encoded(address) + mark + fragment)
            else:
                joined = self._base.resolve(address) if address else self._url.partition("#")[0]
                url = joined and joined + mark + fragment
        except ValueError:  # InvalidURL is one
            return ""
        if not url or not url.startswith(("http://", "https://", "ftp://")) or len(url) > _MAX_ADDRESS:
            return ""
        return _written(url)


_NOT_PLAIN = re.compile(r"[\\()<>\s&]")
# Signs that end a destination, or are not read as they stand in it.
_IN_DESTINATION = re.compile(r"[\\()]|[<>\s]|&(?=#?\w+;)")


def _written(url: str) -> str:
    return _IN_DESTINATION.sub(lambda match: _sign(match[0]), url) if _NOT_PLAIN.search(url) else url


def _sign(sign: str) -> str:
    if sign in "\\()&":
        return "\\" + sign
    return "".join([f"%{byte:02X}" for byte in sign.encode("utf-8", "replace")])


class Inline:
    """Collects the pieces and marks of a block while inline elements begin and end.

    pieces   the text
    marks    what is around its pieces
    is_kept  whether a piece is the text of a node in `text_nodes`, or these are None
    """

    __slots__ = ("_destinations", "_open", "_text_nodes", "is_kept", "marks", "pieces")

    def __init__(self, destinations: Destinations, text_nodes: Collection[int] | None) -> None:
        self._text_nodes = text_nodes
        self.is_kept = text_nodes is None
        self.pieces: list[str] = []
        self.marks: list[Mark] = []
        self._open: list[tuple[str, str]] = []
        self._destinations = destinations

    def add(
        self, kind: str, node: LexborNode, child: LexborNode, code: str | None, heading: int
    ) -> str | None:
        """Adds an element that has only text, or begins any other element. `child` is its first node.

        Returns None if the element was added, else its kind, or "" for an element that is ignored. Within a <pre> all
        are ignored; `code` is the language of the <pre>, or None. `heading` is the level of the heading, or 0.
        """
        text_node: LexborNode | None = child
        text = child.text_content
        if text is None or child.next is not None:
            text_node = only_text_node(child)
            text = None if text_node is None else text_node.text_content
        if code is not None:
            address = None
        elif self._open or kind == LINK_MARK:
            address = self._address(kind, node, heading)
        else:
            address = ""
        if text is None:
            if address is None or kind in SCRIPTS:
                return ""
            self._begin(kind, address)
            return kind
        if len(text) == 1 and kind == LINK_MARK and is_permalink(node, text):
            return None
        pieces = self.pieces
        if text_node is not None and not self.is_kept:
            self.look_at(text_node)
        if pieces or not text.isspace() or code is not None:
            if address is not None:
                if self._open and self._open[-1][0] == CODE_MARK:  # only a link counts in code
                    self._begin(kind, address)
                    pieces.append(text)
                    self.end(kind)
                    return None
                self.marks.append((len(pieces), AROUND, kind, address))
            pieces.append(text)
        return None

    def look_at(self, node: LexborNode) -> None:
        """Keeps the block if a node is one of `text_nodes`."""
        self.is_kept = self._text_nodes is None or node.mem_id in self._text_nodes

    def end(self, kind: str) -> None:
        """Ends the last element of a kind that has begun."""
        in_code = kind == LINK_MARK and self._is_in_code()
        if in_code:
            self._end()
        self._end()
        if in_code:
            self._begin(CODE_MARK, "")

    def clear(self) -> None:
        """Begins a new block, in the same inline elements."""
        self.pieces.clear()
        self.is_kept = self._text_nodes is None
        if self.marks:
            self.marks[:] = [(0, BEGINS, kind, address) for kind, address in self._open]

    def ended(self) -> list[Mark]:
        """Returns the marks, with an end for each open element."""
        return self.marks + [(len(self.pieces), ENDS, "", "")] * len(self._open)

    def _begin(self, kind: str, address: str) -> None:
        # markup in a code span is text, so a link in code becomes code in a link
        in_code = kind == LINK_MARK and self._is_in_code()
        if in_code:
            self._end()
        self._open.append((kind, address))
        self.marks.append((len(self.pieces), BEGINS, kind, address))
        if in_code:
            self._begin(CODE_MARK, "")

    def _end(self) -> None:
        self._open.pop()
        piece = len(self.pieces)
        if self.marks[-1][:2] == (piece, BEGINS):  # the element is empty
            self.marks.pop()
        else:
            self.marks.append((piece, ENDS, "", ""))

    def _is_in_code(self) -> bool:
        return bool(self._open) and self._open[-1][0] == CODE_MARK

    def _address(self, kind: str, node: LexborNode, heading: int) -> str | None:
        """Returns the address of a link, "" for other inline elements, or None for an element that is ignored.

        An element within another of its kind is ignored, and so are all elements within code but links. In a heading,
        links to a fragment are ignored: they are its anchors. `heading` is the level of the heading, or 0.
        """
        for around, _ in self._open:
            if around == kind or (around == CODE_MARK and kind != LINK_MARK):
                return None
        if kind != LINK_MARK:
            return ""
        written = node.attrs.get("href")
        if written is None or (heading and written[:1] in ("", "#")):
            return None
        return (self._destinations.of(written) if written else self._destinations.base()) or None
