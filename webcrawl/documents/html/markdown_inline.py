"""The text of Markdown blocks: characters that are no markup, and emphasis, code, links and images."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import ada_url

from webcrawl.documents.html.text import clean
from webcrawl.urls.canonical import Base

CODE_MARK, LINK_MARK = "`", "["
"""Kinds of inline elements; the others are the marks that are put around their text."""
SUPERSCRIPT, SUBSCRIPT = "^", "v"
"""Kinds without a mark: digits and signs in them become those of Unicode, if all can."""
SCRIPTS = {
    SUPERSCRIPT: str.maketrans("0123456789+-\u2212=()n", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾ⁿ"),
    SUBSCRIPT: str.maketrans("0123456789+-\u2212=()", "₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎"),
}
_MAX_ALT = 1_000
_MAX_ADDRESS = 2_000

SPECIAL = re.compile(r"[\\`*_\[\]<&~]")
# "_" between letters, and "&" that begins no character reference, are never markup
_ESCAPED = re.compile(r"[\\`*\[\]<~]|(?<![^\W_])_|_(?![^\W_])|&(?=[#A-Za-z]|$)")
_BACKTICKS = re.compile("`+")
_SAFE_FRAGMENT = re.compile(r"[A-Za-z0-9._~:/?@!$&'*+,;=%-]*")
_PLAIN_FRAGMENT = re.compile(r"[A-Za-z0-9._~:/?@!$'*+,=%-]*")
"""Such a fragment is the same in a destination, and ends no character reference that the address begins."""
_TRACKING_SIZES = frozenset({"0", "1", "0px", "1px"})
# what may stand outside of emphasis: it must not begin or end with punctuation
_OPENING = "\"'“‘„‚«‹¿¡（「『《〈【"
_CLOSING = ".,:;?!\"'”’“‘»›…）」』》〉】。、，．：；？！"


AROUND, BEGINS, ENDS = range(3)
"""What a mark does: it is around the next piece of the text, or begins or ends before it."""
Mark: TypeAlias = tuple[int, int, str, str]
"""An inline element: the number of the next piece, what it does, its kind, and the address of a link."""
OpenMark: TypeAlias = tuple[str, str, int]
"""One that has begun: its kind, its address, and the number of pieces that were made before it."""


def is_special(text: str) -> bool:
    """Returns whether a text has characters that may be markup; to look for each is quicker in long ones."""
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
    """Returns a text that is no Markdown, except for what is markup only at the start of a line."""
    if SPECIAL.search(text) is None or _ESCAPED.search(text) is None:  # most have none, or a harmless one
        return text
    return _ESCAPED.sub(r"\\\g<0>", text)


def marked(pieces: Sequence[str], marks: Iterable[Mark], *, with_signs: bool) -> str:
    """Returns the Markdown of the pieces of a text with marks around them; `with_signs`: the pieces are escaped."""
    made: list[str] = []
    open_marks: list[OpenMark] = []
    is_text, at = with_signs, 0
    for place, does, kind, address in marks:
        if at < place:
            made += map(escaped, pieces[at:place]) if is_text else pieces[at:place]
        at = place
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

    `address` is that of a link; `around` are the elements around this one, and `inside` the pieces of the text, if it
    has other inline elements in it.
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
    """Returns a code span; two in a row are one, because the backticks between them would be read as one run.

    One before the element around it, a link, is not in a row with it.
    """
    if pieces and pieces[-1][:1] == CODE_MARK and not (around and around[-1][2] >= len(pieces)):
        content = _content(pieces.pop()) + content
    if CODE_MARK not in content:
        return f"`{content}`"
    fence = CODE_MARK * (max(map(len, _BACKTICKS.findall(content))) + 1)
    padding = " " if content[0] == CODE_MARK or content[-1] == CODE_MARK else ""
    return f"{fence}{padding}{content}{padding}{fence}"


def _content(code: str) -> str:
    """Returns what is in a code span. No other piece begins with a backtick: in texts they are escaped."""
    inside = code.lstrip(CODE_MARK)
    inside = inside[: len(inside) - (len(code) - len(inside))]
    return inside[1:-1] if inside[0] == " " else inside


def _emphasis(mark: str, core: str, before: str) -> str:
    """Returns text between marks, without marks where they could be read in another way."""
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
    address = destinations.of(attributes.get("src")) or destinations.of(attributes.get("data-src"))
    return f"![{escaped(' '.join(clean((alt or '')[:_MAX_ALT]).split()))}]({address})" if address else ""


class Destinations:
    """Makes the destinations of links: absolute URLs in the form that Markdown needs."""

    def __init__(self, base: str) -> None:
        self._url = base
        self._base = Base(base)
        self._found: dict[str, str] = {}
        """The destinations of addresses, and of addresses without their fragments."""

    def of(self, written: str | None) -> str:
        """Returns the destination of an address; "" for one that is malformed, too long, or no page or file."""
        if not written:
            return ""
        found = self._found.get(written)
        if found is None:
            found = self._found[written] = self._joined(written) if len(written) <= _MAX_ADDRESS else ""
        return found

    def base(self) -> str:
        """Returns the destination of an empty address."""
        return self._made("", "", "")

    def _joined(self, written: str) -> str:
        address, mark, fragment = written.strip().partition("#")
        page = self._found.get(address)
        if page is None:
            page = self._found[address] = self._made(address, "", "")
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
                url: str | None = ada_url.join_url(self._url, address + mark + fragment)
            else:
                joined = self._base.resolve(address) if address else self._url.partition("#")[0]
                url = joined and joined + mark + fragment
        except ValueError:  # InvalidURL is one
            return ""
        if not url or not url.startswith(("http://", "https://", "ftp://")) or len(url) > _MAX_ADDRESS:
            return ""
        return _written(url)


_NOT_PLAIN = re.compile(r"[\\()<>\s&]")
# what ends a destination, or is read as something else in it
_IN_DESTINATION = re.compile(r"[\\()]|[<>\s]|&(?=#?\w+;)")


def _written(url: str) -> str:
    return _IN_DESTINATION.sub(lambda match: _sign(match[0]), url) if _NOT_PLAIN.search(url) else url


def _sign(sign: str) -> str:
    if sign in "\\()&":
        return "\\" + sign
    return "".join([f"%{byte:02X}" for byte in sign.encode("utf-8", "replace")])
