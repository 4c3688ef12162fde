"""Parses XML from the web: fetches nothing and expands no entities."""

from __future__ import annotations

import codecs
import html.entities
import re
from collections.abc import Iterator
from typing import BinaryIO

from lxml import etree

from webcrawl.documents.mime.charset import charset_of
from webcrawl.errors import UnreadableDocument

SAFE_OPTIONS = {
    "resolve_entities": False,
    "no_network": True,
    "load_dtd": False,
    "huge_tree": False,
    "remove_comments": True,
    "remove_pis": True,
}
"""Options of lxml's parsers: fetch nothing, expand no entities, keep libxml2's limits of depth and size."""


_PIECE = 1 << 16
_LONGEST_TEXT = 1 << 20
_START = re.compile(r"\ufeff?\s*(?:<\?xml\b[^>]{0,400}>)?\s*")
# A character that XML 1.0 forbids, a CDATA section, which stays as it is, or an ampersand with its entity.
_DAMAGE = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]|<!\[CDATA\[(?:.*?\]\]>|.*\Z)"
    r"|&(?:#\d{1,7};|#x[0-9a-fA-F]{1,6};|([A-Za-z][A-Za-z0-9]{1,31};))?",
    re.DOTALL,
)
_XML_ENTITIES = frozenset({"amp;", "lt;", "gt;", "quot;", "apos;"})
_WINDOWS_1252 = "webcrawl.windows-1252"


def _as_windows_1252(error: UnicodeError) -> tuple[str, int]:
    """Handler for codecs: reads the bytes that the encoding lacks as Windows-1252, as browsers do."""
    assert isinstance(error, UnicodeDecodeError)
    return error.object[error.start : error.end].decode("cp1252", "replace"), error.end


codecs.register_error(_WINDOWS_1252, _as_windows_1252)


def repaired(stream: BinaryIO) -> Iterator[str]:
    """Yields damaged XML in pieces, without its declaration, for a parser with lxml's `recover`.

    A bare "&" becomes "&amp;", an entity of HTML its character, and a control character nothing. A tag or text that
    breaks off at the end is left out.
    """
    data = stream.read(_PIECE)
    charset = charset_of(None, data, "application/xml")
    decode = codecs.getincrementaldecoder(charset)(_WINDOWS_1252).decode
    text = _START.sub("", decode(data), count=1)
    while data:
        end = _start_of_last(text)
        if not end and len(text) > _LONGEST_TEXT:
            end = len(text)
        yield _DAMAGE.sub(_mended, text[:end])
        data = stream.read(_PIECE)
        text = text[end:] + decode(data, not data)
    yield _DAMAGE.sub(_mended, text[: text.rfind(">") + 1])


def _start_of_last(text: str) -> int:
    """Where the last tag or CDATA section of a piece begins, which may go on in the next piece."""
    after = 0
    while (section := text.find("<![CDATA[", after)) >= 0:
        end = text.find("]]>", section)
        if end < 0:
            return section
        after = end + len("]]>")
    return max(after, text.rfind("<", after))


def _mended(match: re.Match[str]) -> str:
    """The text in place of a match of `_DAMAGE`."""
    damage, entity = match[0], match[1]
    if damage[0] == "<":
        return damage
    if damage[0] != "&":
        return ""
    if entity is None:
        return damage if damage != "&" else "&amp;"
    if entity in _XML_ENTITIES:
        return damage
    character = html.entities.html5.get(entity)
    return "".join(f"&#{ord(part)};" for part in character) if character else f"&amp;{entity}"


def parse(data: bytes) -> etree._Element:
    """Returns the root of XML without fetching or expanding anything; raises UnreadableDocument."""
    parser = etree.XMLParser(**SAFE_OPTIONS)
    try:
        root = etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise UnreadableDocument(f"is broken: {error}") from error
    if root is None:
        raise UnreadableDocument("is broken: its XML has no element")
    return root


def local(element: etree._Element) -> str:
    """Returns the name of an element without its namespace."""
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def first_texts(root: etree._Element) -> dict[str, str]:
    """Returns the texts of elements below `root` by local name in lower case. The first element of a name counts."""
    texts: dict[str, str] = {}
    for element in root.iter():
        if element.text and (text := element.text.strip()):
            texts.setdefault(local(element).lower(), text)
    return texts
