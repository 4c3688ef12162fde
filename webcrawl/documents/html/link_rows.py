"""The rows of the links of an HTML page in the link store: a row for each element, also where no link is followed."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

import msgpack
from selectolax.lexbor import LexborNode
from xxhash import xxh3_64_intdigest

from webcrawl.documents.document import Document
from webcrawl.documents.html.link_texts import MAX_LINK_TEXT, MAX_TEXTS, is_plain, text_of
from webcrawl.documents.html.links import PageLinks, link_of_fragments
from webcrawl.documents.html.text import INLINE
from webcrawl.documents.link_elements import Attributes
from webcrawl.documents.mime.facts import collapsed
from webcrawl.errors import InvalidURL
from webcrawl.urls.canonical import Base, resolve

MAX_REL = 100
"""Characters of a `rel` that are kept."""
MAX_ROWS_LENGTH = 8_000_000
"""The total characters of the links and texts of a page; rows of further links are left out."""
ELEMENTS = (
    *("a", "area", "link", "iframe", "frame", "meta"),
    *("text", "header", "redirect", "sitemap", "feed", "document", "script"),
)
"""Where a link was found: in an element, the text or a script of HTML, in a header, or in another document."""

_CODES = {name: code for code, name in enumerate(ELEMENTS)}
_CODES_OF_ELEMENTS = bytes(_CODES.values())

_MAX_SHORT_TEXTS = 1 << 12
_short_texts: dict[str, str] = {}
"""The stored texts of links without images and code, by their text in the page. A dictionary: read for each link."""

_DIGIT = re.compile(r"\d")
_MASK = (1 << 64) - 1
_HALF = 1 << 63
_MAX_CLASSES = 500
"""Characters of a `class` that are looked at."""
_ROOT = 0
_MAX_STEPS = 1 << 13
_steps: dict[tuple[int, str | None, str | None], int] = {}
"""The hash of a block by that of the block around it, its tag and its classes; they recur on page after page."""


@dataclass(frozen=True, slots=True)
class LinkRows:
    """The rows of a page as columns, in document order.

    targets    normalised URLs
    texts      of `a`, or the `alt` or `title` of other elements: MAX_LINK_TEXT characters at most, "" without a text
    rels       the values of `rel` in lower case; "" without `rel`
    elements   the indexes of their names in ELEMENTS
    blocks     see `blocks_around`; 0 for a link that is in no element
    """

    targets: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    rels: list[str] = field(default_factory=list)
    elements: bytearray = field(default_factory=bytearray)
    blocks: array[int] = field(default_factory=lambda: array("q"))

    def __len__(self) -> int:
        return len(self.targets)

    def add_plain(self, targets: list[str], element: str) -> None:
        """Adds links that are in no element of HTML."""
        number = len(targets)
        self.targets.extend(targets)
        self.texts.extend([""] * number)
        self.rels.extend([""] * number)
        self.elements.extend(bytes((_CODES[element],)) * number)
        self.blocks.frombytes(bytes(self.blocks.itemsize * number))


def rows_of(
    document: Document, nodes: Iterable[LexborNode], links: PageLinks, *, text_links: bool = False
) -> LinkRows:
    """Returns the rows of an HTML document. `nodes` are those of `document.elements`, `links` are its links.

    Malformed addresses, schemes that are not fetched, and fragments of the page itself have no row. `text_links`:
    `links` that are in no element come from the text.
    """
    rows = LinkRows()
    add_target, add_text, add_rel = rows.targets.append, rows.texts.append, rows.rels.append
    add_element, linking = rows.elements.append, list[LexborNode]()
    known_text = _short_texts.get
    joined = _Joined(links, document)
    text_left, left = MAX_TEXTS, MAX_ROWS_LENGTH
    for node, (tag, attributes), address in zip(nodes, document.elements, links.addresses, strict=True):
        if address is None or (target := joined[address]) is None:
            continue
        is_link = tag == "a" and text_left > 0
        raw = node.text_lexbor() or "" if is_link else _name(tag, attributes)
        if (text := known_text(raw)) is None:
            if is_link:
                raw = text_of(node)
            text = _shortened(raw)
        text_left -= len(raw)
        rel = _short(relation.lower(), MAX_REL) if (relation := attributes.get("rel")) else ""
        left -= len(target) + len(text) + len(rel)
        if left < 0:
            break
        add_target(target)
        add_text(text)
        add_rel(rel)
        add_element(_CODES[tag])
        linking.append(node)
    rows.blocks.extend(blocks_around(linking))
    if (text_links or links.redirects) and left >= 0:
        known = {*rows.targets, *links.redirects}
        rows.add_plain([link for link in links.redirects if link not in rows.targets], "script")
        rows.add_plain([link for link in links.links if link not in known], "text")
    return rows


class _Joined(dict[str, str | None]):
    """The link of each address, None for an invalid address. Links that are not followed are joined at first use."""

    def __init__(self, links: PageLinks, document: Document) -> None:
        super().__init__(links.joined)
        self._base = Base(links.base, document.encode)
        self[""] = link_of_fragments(self._base.url, document.url)

    def __missing__(self, address: str) -> str | None:
        self[address] = link = _resolved(address, self._base)
        return link


def pack_rows(rows: LinkRows) -> bytes:
    """Returns rows as MessagePack: their number, and each column as bytes, texts with a line for each row."""
    texts = [_lines(column) for column in (rows.targets, rows.texts, rows.rels)]
    return bytes(msgpack.packb((len(rows), *texts, rows.elements, rows.blocks.tobytes())))


@dataclass(frozen=True, slots=True)
class PackedRows:
    """Rows as `pack_rows` makes them: columns as bytes, which millions of rows can be made of at once."""

    number: int
    targets: bytes
    texts: bytes
    rels: bytes
    elements: bytes
    blocks: bytes


def unpack_rows(data: bytes) -> PackedRows:
    """Returns packed rows whose columns are complete and have the same number of rows; raises ValueError."""
    try:
        rows = PackedRows(*msgpack.unpackb(data))
    except Exception as error:
        raise ValueError(f"not rows of links: {error}") from error
    number = rows.number
    if not (
        type(number) is int
        and type(rows.elements) is type(rows.blocks) is bytes
        and len(rows.elements) == number
        and len(rows.blocks) == number * 8
        and not rows.elements.translate(None, _CODES_OF_ELEMENTS)
    ):
        raise ValueError("not rows of links")
    for lines in (rows.targets, rows.texts, rows.rels):
        if type(lines) is not bytes or lines.count(b"\n") != number or lines[-1:] not in (b"", b"\n"):
            raise ValueError("not rows of links")
        if not lines.isascii():
            lines.decode()
    return rows


def _lines(texts: list[str]) -> bytes:
    """Returns texts without line breaks, each on a line."""
    return "\n".join([*texts, ""]).encode("utf-8", "replace")


def plain_rows(targets: list[str], element: str) -> LinkRows:
    """Returns rows as `add_plain` makes them."""
    rows = LinkRows()
    rows.add_plain(targets, element)
    return rows


def document_rows(addresses: Iterable[str], element: str) -> LinkRows:
    """Returns the rows of the absolute addresses in a document that is not HTML; malformed addresses have no row."""
    targets, left = list[str](), MAX_ROWS_LENGTH
    for address in addresses:
        with suppress(InvalidURL):
            if target := resolve(address):
                left -= len(target)
                if left < 0:
                    break
                targets.append(target)
    return plain_rows(targets, element)


def _resolved(address: str, base: Base) -> str | None:
    try:
        return base.resolve(address)
    except InvalidURL:
        return None


def _short(raw: str, most: int) -> str:
    # a blank is the only white space that is printable, and most texts are as they should be
    if raw.isprintable() and len(raw) <= most and "  " not in raw and raw[:1] != " " != raw[-1:]:
        return raw
    text = " ".join(raw.split())
    if len(text) > most or not text.isascii() or "\0" in text:
        return collapsed(text, most) or ""
    return text


def _shortened(raw: str) -> str:
    """Returns the text of a link, shortened; keeps it, because the texts of menus recur on page after page."""
    text = _short(raw, MAX_LINK_TEXT)
    if len(raw) <= MAX_LINK_TEXT and is_plain(raw):
        if len(_short_texts) >= _MAX_SHORT_TEXTS:
            _short_texts.clear()
        _short_texts[raw] = text
    return text


def _name(tag: str, attributes: Attributes) -> str:
    return "" if tag in ("a", "meta") else attributes.get("alt" if tag == "area" else "title") or ""


def blocks_around(nodes: Iterable[LexborNode]) -> list[int]:
    """Returns the hash of the block of each node: of the nearest element around the node that is not inline.

    The hash is made of the names of all elements from the root to the block, and of their classes without digits in
    them. A block has the same hash on all pages that one template makes.
    """
    blocks: list[int] = []
    # by `mem_id` of the elements; inline elements have the hash of their block
    hashes: dict[int, int] = {}
    known, steps, add = hashes.get, _steps.get, blocks.append
    for node in nodes:
        if (parent := node.parent) is None:
            add(_ROOT)
            continue
        parent_id = parent.mem_id
        if (block := known(parent_id)) is None:
            # most often only the nearest element is new
            grandparent = parent.parent
            if grandparent is None:
                path = _ROOT
            elif (known_path := known(grandparent.mem_id)) is not None:
                path = known_path
            else:
                path = _path(grandparent, hashes)
            if (tag := parent.tag) in INLINE:
                block = path
            elif (block := steps(step := (path, tag, parent.attributes.get("class")))) is None:
                block = _inner_block(*step)
            hashes[parent_id] = block
        add(block)
    return blocks


def _path(node: LexborNode | None, hashes: dict[int, int]) -> int:
    """Returns the hash of an element. Adds the hashes of the element and its ancestors to `hashes`."""
    known, steps = hashes.get, _steps.get
    new: list[tuple[int, LexborNode]] = []
    path: int | None = _ROOT
    while node is not None and (path := known(mem_id := node.mem_id)) is None:
        new.append((mem_id, node))
        node = node.parent
    block = _ROOT if path is None else path
    while new:
        mem_id, element = new.pop()
        if (tag := element.tag) not in INLINE:
            step = block, tag, element.attributes.get("class")
            path = steps(step)
            block = _inner_block(*step) if path is None else path
        hashes[mem_id] = block
    return block


def _inner_block(path: int, tag: str | None, classes: str | None) -> int:
    """Returns the hash of a block inside the block with the hash `path`; keeps it unless `classes` are long."""
    lasting = [name for name in (classes or "")[:_MAX_CLASSES].split() if not _DIGIT.search(name)]
    data = ".".join([tag or "", *lasting]).encode("utf-8", "replace")
    block = xxh3_64_intdigest(data, path & _MASK) - _HALF
    if len(_steps) >= _MAX_STEPS:
        _steps.clear()
    if len(classes or "") <= _MAX_CLASSES:
        _steps[path, tag, classes] = block
    return block
