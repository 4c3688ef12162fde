"""A page's body as several processors read it: bytes, text or a tree, each made once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, TypeAlias

from selectolax.lexbor import LexborHTMLParser
from w3lib.encoding import read_bom, to_unicode

from webcrawl.documents.body import Body
from webcrawl.documents.long_tags import may_have_long_tag, shortened
from webcrawl.documents.xhtml import expanded

Attributes: TypeAlias = dict[str, str | None]
"""Of an element, by name."""
Element: TypeAlias = tuple[str, Attributes]
"""Name and attributes."""
Parsed: TypeAlias = tuple[LexborHTMLParser, bool]
"""A page's tree, and whether something was left out of it."""

# What leads elsewhere or says something of the page: one search through the tree for all who ask. By attributes alone,
# since Lexbor tells apart three of them in half the time that seven elements take it.
_HOLDERS = ":is([href],[src],[content])"
_HELD_BY = {
    "a": "href",
    "area": "href",
    "link": "href",
    "base": "href",
    "frame": "src",
    "iframe": "src",
    "meta": "content",
}

# As many bytes, of a page or of one tag, cost the parser little whatever they are, see
# webcrawl.documents.markup_bounds.
_TRUSTED_PAGE = 6_000
_TRUSTED_TAG = 32_768


class Document:
    """A rewindable body without content-encoding, of a known MIME type, found at `url`.

    `charset` is the name of a Python codec, or None where nobody said: then UTF-8 if the bytes are valid
    UTF-8, otherwise windows-1252. Processors share `text` and `html` and must not change the tree. `refused` says why
    it is not parsed as HTML, if it must not be; set it before anybody asks for the tree, which is empty then.
    """

    __slots__ = (
        "_body",
        "_elements",
        "_html",
        "_metas",
        "_simplified",
        "_taken",
        "_text",
        "charset",
        "mime_type",
        "refused",
        "url",
    )

    def __init__(self, body: Body | bytes, mime_type: str, charset: str | None, url: str) -> None:
        self._body = body if isinstance(body, Body) else Body(body)
        self.mime_type = mime_type
        self.charset = charset
        self.url = url
        self.refused: str | None = None
        self._text: str | None = None
        self._html: LexborHTMLParser | None = None
        self._simplified = False
        self._taken = False
        self._elements: list[Element] | None = None
        self._metas: list[Attributes] | None = None

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
        return self._body.open()

    def start(self, size: int) -> bytes:
        """The first `size` bytes, or all there are."""
        return self._body.start(size)

    @property
    def path(self) -> str | None:
        """Where other processes can open a body that is in a file, as long as the document lives; see `Body.path`."""
        return self._body.path

    def chunks(self) -> Iterator[bytes]:
        """All bytes in turn; see `Body.chunks`."""
        return self._body.chunks()

    @property
    def body(self) -> bytes:
        """The whole body in memory; read anew each time where it is in a file."""
        return bytes(self._body)

    @property
    def text(self) -> str:
        """The body decoded once, without byte order mark; never raises, the undecodable becomes U+FFFD."""
        if self._text is None:
            self._text = decode(bytes(self._body), self.charset)
        return self._text

    @property
    def html(self) -> LexborHTMLParser:
        """The body parsed as HTML, once; what would cost too much is left out, text and links stay as a rule.

        XHTML too, since few pages of that type are well-formed: `expanded` before.
        """
        if self._html is None:
            self._html, self._simplified = self.parsed()
        return self._html

    def parsed(self) -> Parsed:
        """What `html` and `simplified` are, made anew; it may be called in another thread."""
        markup = self._markup() if self.refused is None else b""
        bounded = _bounded(markup)
        return LexborHTMLParser(bounded), bounded is not markup

    def take(self, parsed: Parsed) -> None:
        """Have what was made of it elsewhere as `html` and `simplified`."""
        self._html, self._simplified = parsed
        self._taken = True

    def forget(self) -> None:
        """Let go of what was made of the bytes, which is made again for whoever asks; a tree takes 15 times as much.

        What was made elsewhere is kept: it would take too long here.
        """
        self._text = self._elements = self._metas = None
        if not self._taken:
            self._html = None

    @property
    def simplified(self) -> bool:
        """Whether tags or attributes were left out of `html`, which it would have cost too much to parse."""
        return self.html is not None and self._simplified

    def _markup(self) -> bytes:
        markup = bytes(self._body)
        if not self._is_utf8(markup):
            markup = self.text.encode("utf-8", "surrogatepass")
        return expanded(markup) if self.mime_type == "application/xhtml+xml" else markup

    def _is_utf8(self, markup: bytes) -> bool:
        """Whether Lexbor, which replaces what is no UTF-8 in ways of its own, can read the body as it is."""
        if self.charset != "utf-8" or read_bom(markup)[0] is not None:
            return False
        if markup.isascii():  # a tenth of the time
            return True
        try:
            markup.decode("utf-8")
        except UnicodeDecodeError:
            return False
        return True

    @property
    def elements(self) -> list[Element]:
        """The elements that may hold a link, and <meta content>, in document order; searched for once."""
        if self._elements is None:
            self._elements = elements(self.html)
        return self._elements

    @property
    def metas(self) -> list[Attributes]:
        """The attributes of each <meta content>, in document order."""
        if self._metas is None:
            self._metas = [attributes for tag, attributes in self.elements if tag == "meta"]
        return self._metas


def _bounded(markup: bytes) -> bytes:
    if len(markup) > _TRUSTED_TAG and may_have_long_tag(markup):
        markup = shortened(markup)
    if len(markup) > _TRUSTED_PAGE:
        from webcrawl.documents.markup_bounds import bounded  # NumPy is slow to import

        return bounded(markup)
    return markup


def elements(tree: LexborHTMLParser) -> list[Element]:
    """See `Document.elements`."""
    found: list[Element] = []
    for node in tree.css(_HOLDERS):
        tag = node.tag or ""
        held = _HELD_BY.get(tag)
        if held is not None and held in (attributes := node.attributes):
            found.append((tag, attributes))
    return found


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
