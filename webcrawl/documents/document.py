"""A body as bytes, text or a tree; each is made once and shared by all processors."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import BinaryIO, TypeAlias
from weakref import ref

from selectolax.lexbor import LexborHTMLParser, LexborNode
from w3lib.encoding import read_bom

from webcrawl.documents import encodings
from webcrawl.documents.body import Body
from webcrawl.documents.encodings import Encode
from webcrawl.documents.link_elements import Attributes, Element, ManyElements, search
from webcrawl.documents.markup import expanded, may_have_long_tag, shortened, with_whole_head
from webcrawl.documents.shadow_roots import compose, may_have_roots

Parsed: TypeAlias = tuple[LexborHTMLParser, bool]
"""A tree, and whether markup was removed before parsing."""

# Pages of at most this many bytes are cheap to parse whatever they contain; see webcrawl.documents.markup_bounds.
_TRUSTED_PAGE = 6_000
_TRUSTED_TAG = 32_768
MOST_TREES = 100
"""Documents of this process that keep the tree that they made: it takes 160 KB for the smallest page."""


class Document:
    """A body without content codings, its MIME type and its URL.

    `charset` is the name of a Python codec; see `webcrawl.documents.encodings`. None means UTF-8 if the bytes are UTF-8
    but for a few, otherwise windows-1252.
    Processors share `text` and `html`, and must not change the tree. `refused` is the reason not to parse the body as
    HTML, or None. A reason must be set before the tree is first used; the tree is then empty.
    """

    __slots__ = (
        "_base",
        "_body",
        "_elements",
        "_has_frames",
        "_html",
        "_metas",
        "_simplified",
        "_taken",
        "__weakref__",
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
        self._elements: Sequence[Element] | None = None
        self._metas: list[Attributes] | None = None
        self._has_frames = False
        self._base: str | None = None

    def __len__(self) -> int:
        """The number of bytes."""
        return len(self._body)

    def __bool__(self) -> bool:
        """True even when empty: a document without bytes is still a document."""
        return True

    def __repr__(self) -> str:
        return f"<Document {self.url} {self.mime_type} {len(self)} bytes>"

    def open(self) -> BinaryIO:
        """Returns a new stream at the start of the body, independent of all others."""
        return self._body.open()

    def start(self, size: int) -> bytes:
        """Returns the first `size` bytes, or all if there are fewer."""
        return self._body.start(size)

    @property
    def path(self) -> str | None:
        """The path where other processes can open the body while the document exists, or None; see `Body.path`."""
        return self._body.path

    def chunks(self) -> Iterator[bytes]:
        """Yields all bytes; see `Body.chunks`."""
        return self._body.chunks()

    @property
    def body(self) -> bytes:
        """The whole body in memory; a body in a file is read again each time."""
        return bytes(self._body)

    @property
    def text(self) -> str:
        """The decoded body without byte order mark; undecodable bytes become U+FFFD."""
        if self._text is None:
            self._text = decode(bytes(self._body), self.charset)
        return self._text

    @property
    def encode(self) -> Encode | None:
        """What encodes the queries of its links, or None if they are in UTF-8; see `webcrawl.urls.canonical.Base`."""
        return encodings.encoder(self.charset)

    @property
    def html(self) -> LexborHTMLParser:
        """The body parsed as HTML. Markup that would cost too much is removed; its text and links usually stay.

        XHTML is parsed as HTML too, after `expanded`, because few such pages are well-formed. Declarative shadow roots
        are in their hosts; see `webcrawl.documents.shadow_roots`.

        Of the documents of this process, the latest MOST_TREES keep their trees; others parse again when it is used.
        """
        if self._html is None:
            self._html, self._simplified = self.parsed()
            _keep_tree(self)
        return self._html

    def parsed(self) -> Parsed:
        """Returns new values of `html` and `simplified`; may be called in another thread."""
        markup = with_whole_head(self._markup()) if self.refused is None else b""
        bounded = _bounded(markup)
        tree = LexborHTMLParser(bounded)
        if may_have_roots(bounded):
            compose(tree)
        return tree, bounded is not markup

    def source_tree(self) -> LexborHTMLParser:
        """Returns a tree of its own to change and to write, in which shadow roots are templates as in the body."""
        return LexborHTMLParser(_bounded(self._markup() if self.refused is None else b""))

    def take(self, parsed: Parsed) -> None:
        """Sets `html` and `simplified` to values made in another thread."""
        self._html, self._simplified = parsed
        self._taken = True

    def forget(self, *, only_elements: bool = False) -> None:
        """Frees the text and the tree, whose memory is 15 times that of the bytes. Both are made again when used.

        A tree that was made in another thread is kept, because making it here would take too long. `only_elements`:
        frees `elements`, which may take 15 MB, and keeps `metas`.
        """
        if only_elements:
            self._metas = self.metas
            self._elements = None
            return
        self._text = self._elements = self._metas = None
        if not self._taken:
            self._html = None

    @property
    def simplified(self) -> bool:
        """Whether costly tags or attributes were removed before parsing."""
        return self.html is not None and self._simplified

    def _markup(self) -> bytes:
        markup = bytes(self._body)
        if not self._is_utf8(markup):
            markup = self.text.encode("utf-8", "surrogatepass")
        return expanded(markup) if self.mime_type == "application/xhtml+xml" else markup

    def _is_utf8(self, markup: bytes) -> bool:
        """Returns whether the body is valid UTF-8. Lexbor and Python replace invalid bytes differently."""
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
    def elements(self) -> Sequence[Element]:
        """The elements with a link, and <meta content>, in document order; searched once."""
        return self._elements if self._elements is not None else self._search()

    def search(self) -> list[LexborNode]:
        """Searches for `elements` anew, and returns their nodes in the same order."""
        nodes: list[LexborNode] = []
        self._search(nodes)
        return nodes

    def _search(self, nodes: list[LexborNode] | None = None) -> Sequence[Element]:
        self._elements, self._metas, self._has_frames, self._base = search(self.html, nodes)
        return self._elements

    @property
    def has_frames(self) -> bool:
        """Whether there are <frame> elements among `elements`."""
        return bool(self.elements) and self._has_frames

    def take_elements(self) -> Iterator[Element]:
        """Yields the `elements` and frees each of them; keeps `metas`."""
        page_elements = self.elements
        self.forget(only_elements=True)
        return page_elements.taken() if isinstance(page_elements, ManyElements) else iter(page_elements)

    @property
    def metas(self) -> list[Attributes]:
        """The attributes of each <meta content>, in document order, up to `MAX_METAS`."""
        if self._metas is None:
            self._search()
        return self._metas or []

    @property
    def base(self) -> str | None:
        """The address of the first <base>, in the head or not; see the HTML Standard, 4.2.3. None without one."""
        if self._metas is None:
            self._search()
        return self._base


_with_trees: deque[ref[Document]] = deque()


def _keep_tree(document: Document) -> None:
    """Notes that a document has made its tree; frees the tree of the one that made it before MOST_TREES others."""
    _with_trees.append(ref(document))
    if len(_with_trees) > MOST_TREES:
        oldest = _with_trees.popleft()()
        if oldest is not None and not oldest._taken:
            oldest._html = None


def _bounded(markup: bytes) -> bytes:
    """Returns markup that Lexbor parses in bounded time; see `webcrawl.documents.markup_bounds`."""
    if len(markup) > _TRUSTED_TAG and may_have_long_tag(markup):
        markup = shortened(markup)
    if len(markup) > _TRUSTED_PAGE:
        from webcrawl.documents.markup_bounds import bounded  # its patterns take 15 ms to compile

        return bounded(markup)
    return markup


def decode(body: bytes, charset: str | None) -> str:
    """Returns the text of `body`. A byte order mark overrides `charset`, as in browsers; for None see `Document`."""
    bom_charset, bom = read_bom(body)
    if bom_charset is not None and bom is not None:
        return encodings.decode(body[len(bom) :], bom_charset)
    if charset is not None:
        try:
            return encodings.decode(body, charset)
        except (LookupError, ValueError):  # no codec of that name, or not for text
            pass
    is_utf8 = encodings.is_utf8(body) or encodings.is_mostly_utf8(body)
    return encodings.decode(body, "utf-8" if is_utf8 else "cp1252")
