"""The text of Markdown blocks: characters that are no markup, and emphasis, code, links and images."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

import ada_url

from webcrawl.documents.html.text import clean
from webcrawl.urls.canonical import Base

CODE_MARK, LINK_MARK = "`", "["
"""Kinds of inline elements; the others are the marks that are put around their text."""
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
_OPENING, _CLOSING = "\"'“‘", ".,:;?!\"'”’…"


@dataclass(slots=True)
class Mark:
    """An inline element that is open: its kind, the address of a link, and where its text starts in the block."""

    kind: str
    address: str
    start: int


def escaped(text: str) -> str:
    """Returns a text that is no Markdown, except for what is markup only at the start of a line."""
    return _ESCAPED.sub(r"\\\g<0>", text) if SPECIAL.search(text) else text


def wrapped(pieces: list[str], kind: str, inside: list[str], address: str) -> None:
    """Appends the pieces in an inline element to those of its block; `address` is that of a link."""
    text = inside[0] if len(inside) == 1 else "".join(inside)
    core = text.strip()
    is_emphasis = kind != LINK_MARK and kind != CODE_MARK
    marked = _emphasis(kind, core, pieces[-1] if pieces else "") if is_emphasis else ""
    if not core or marked == core:
        for piece in inside:
            pieces.append(_code(_content(piece), pieces) if piece[:1] == CODE_MARK else piece)
        return
    start = 0 if len(core) == len(text) else text.index(core[0])
    if start:
        pieces.append(text[:start])
    if is_emphasis:
        pieces.append(marked)
    elif kind == CODE_MARK:
        pieces.append(_code(core if core.isalnum() else " ".join(core.split()), pieces))
    else:
        if pieces and pieces[-1][-1:] == "!":  # the link would be an image
            pieces[-1] = pieces[-1][:-1] + "\\!"
        pieces.append(f"[{core}]({address})")
    if start + len(core) < len(text):
        pieces.append(text[start + len(core) :])


def _code(content: str, pieces: list[str]) -> str:
    """Returns a code span; two in a row are one, because the backticks between them would be read as one run."""
    if pieces and pieces[-1][:1] == CODE_MARK:
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
        self._pages: dict[str, str] = {}
        """The destinations of addresses without their fragments."""

    def of(self, written: str | None) -> str:
        """Returns the destination of an address; "" for one that is malformed, too long, or no page or file."""
        if not written or len(written) > _MAX_ADDRESS:
            return ""
        address, mark, fragment = written.strip().partition("#")
        page = self._pages.get(address)
        if page is None:
            page = self._pages[address] = self._made(address, "", "")
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
