"""Makes an archived page that shows without its site: styles, images, fonts, media and frames are in it as data: URLs.

The page has no script, and a browser that shows it has nothing to load, so its server can forbid all requests and needs
no address for parts of the page (docs/decisions/0018-replay-in-one-answer.md).
"""

from __future__ import annotations

import re
import secrets
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple
from urllib.parse import quote

from selectolax.lexbor import LexborHTMLParser, LexborNode

from webcrawl.documents.document import Document
from webcrawl.documents.html.facts import is_html
from webcrawl.documents.html.timed_parse import BlockingTimedParser
from webcrawl.documents.link_elements import LAZY_SOURCE_SETS, LAZY_SOURCES, frame_address, image_addresses
from webcrawl.errors import InvalidURL, StoreError
from webcrawl.results.references import base_of, nodes
from webcrawl.results.rewriting import rewrite, rewritten_style, source_set, written
from webcrawl.urls.canonical import Base

MOST_BYTES = 24_000_000
"""The most bytes of what is put into a page, as data: URLs."""
MOST_READ = 4
"""How many times these bytes are read for a page: what is read may be longer than what is put into it."""
MOST_RESOURCES = 1_000
"""The most different resources that are looked up for a page."""
DEEPEST = 4
"""How deep frames and style sheets may be within each other."""

_NOTHING = "data:,"
_CSS = "text/css"
_SHOWN = ("image/", "font/", "audio/", "video/", "application/font", "application/vnd.ms-fontobject")
_NO_IMAGE = (
    "data:image/svg+xml;base64,"
    + b64encode(
        b'<svg xmlns="http://www.w3.org/2000/svg" width="120" height="80"><defs><pattern id="p" width="8" height="8" '
        b'patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="4" height="8" fill="#94a3b8" '
        b'fill-opacity=".45"/></pattern></defs><rect width="100%" height="100%" fill="url(#p)"/></svg>'
    ).decode()
)
_NO_FRAME = "data:text/html;charset=utf-8," + quote(
    '<body style="font:14px sans-serif;color:#475569">This frame is not in the archive.'
)
_REMOVED = "script,embed,applet,portal,meta,base"
_RULED_OUT = ("srcdoc", "sandbox", "allow", "csp", "src", *LAZY_SOURCES)
"""The attributes of a frame that its copy does not get."""
# What loads, connects or runs by itself. The tree has no such element left, but a browser may find one where this
# parser saw text, and no policy keeps it from connecting for rel=preconnect in the page or in the text of a frame.
_BY_THEMSELVES = re.compile(
    rb"<(?=(?:link|i?frame|object|embed|applet|portal|meta|base|script|fencedframe)\b)", re.IGNORECASE
)

State = Literal["shown", "missing", "left out"]


class ArchivedFile(NamedTuple):
    """A resource in the archive. `size`: its bytes, None if they are not known. `read` raises StoreError."""

    mime_type: str
    size: int | None
    read: Callable[[], Document | None]


@dataclass(frozen=True, slots=True)
class ReplayedResource:
    """A resource that a page loads. `missing`: it is not in the archive; `left out`: the page would be too large."""

    url: str
    state: State
    mime_type: str = ""
    size: int | None = None


class Replay:
    """Puts the resources of one page into it; `resources` has them by URL afterwards.

    `find` returns the archived file of a URL, or None. `links_at`: the beginning of the addresses to which links lead,
    before the escaped URL.
    """

    def __init__(
        self, find: Callable[[str], ArchivedFile | None], links_at: str, *, most: int = MOST_BYTES
    ) -> None:
        self.resources: dict[str, ReplayedResource] = {}
        self._find = find
        self._links_at = links_at
        self._left, self._readable = most, MOST_READ * most
        self._parser = BlockingTimedParser()
        self._known: dict[str, str | None] = {}
        """URL -> its data: URL; None for a resource that cannot be shown, or that is being made."""

    def page(self, document: Document) -> bytes:
        """Returns an HTML page in UTF-8; raises StoreError if it cannot be parsed."""
        return self._html(document, 0)

    def _html(self, document: Document, depth: int) -> bytes:
        self._parser.parse(document)
        if document.refused is not None:
            raise StoreError(f"{document.url} cannot be shown: it {document.refused}")
        tree, base = document.source_tree(), base_of(document)
        own = f"x{secrets.token_hex(8)}-"
        for _, node in nodes(tree, _REMOVED, templates=True):
            node.decompose()
        for element in list(_all(tree, "iframe,frame")):
            self._put_frame(tree, element, base, own, depth)
        for element in list(_all(tree, "link")):
            self._put_sheet(tree, element, base, depth)
        for element in list(_all(tree, "img")):
            self._put_image(element, base)
        for element in list(_all(tree, "picture > source")):
            element.decompose()
        rewrite(tree, document, opened=self._link, loaded=lambda url: self._data(url, depth + 1) or _NOTHING)
        for element in _all(tree, "*"):
            self._disarm(element)
        body = _BY_THEMSELVES.sub(b"<!-", written(tree))
        return body.replace(f"<{own}".encode(), b"<").replace(f"</{own}".encode(), b"</")

    def _link(self, url: str) -> str:
        return self._links_at + quote(url, safe="")

    def _put_frame(self, tree: LexborHTMLParser, node: LexborNode, base: Base, own: str, depth: int) -> None:
        """Replaces a frame by one whose name no markup of the page can have, which becomes a frame at the end."""
        attributes = node.attributes
        frame = tree.create_node(own + (node.tag or "iframe"))
        for name, value in attributes.items():
            if name not in _RULED_OUT:
                frame.attrs[name] = value or ""
        url = _resolved(base, frame_address(attributes) or attributes.get("src"))
        if url is not None:
            frame.attrs["src"] = self._data(url, depth + 1, is_frame=True) or _NO_FRAME
        node.replace_with(frame)

    def _put_sheet(self, tree: LexborHTMLParser, node: LexborNode, base: Base, depth: int) -> None:
        """Replaces a link to a style sheet by the sheet, and removes other links."""
        attributes = node.attributes
        relations = (attributes.get("rel") or "").lower().split()
        url = _resolved(base, attributes.get("href"))
        is_sheet = "stylesheet" in relations and "alternate" not in relations and "disabled" not in attributes
        if is_sheet and url is not None and (address := self._data(url, depth + 1)):
            style = tree.create_node("style")
            if media := attributes.get("media"):
                style.attrs["media"] = media
            style.insert_child(f'@import "{address}";')
            node.insert_before(style)
        node.decompose()

    def _put_image(self, node: LexborNode, base: Base) -> None:
        """Gives an image the first of its sources that is in the archive, as a data: URL."""
        given = list(image_addresses(node.attributes))
        urls = dict.fromkeys(url for address in given if (url := _resolved(base, address)))
        picture = node.parent
        sources = picture.css("source") if picture is not None and picture.tag == "picture" else []
        for element in (node, *sources):
            urls |= dict.fromkeys(_of_sets(element, base))
        address = next((data for url in urls if (data := self._data(url, 1))), None)
        if address is None and urls:
            address = next((text for text in given if text.startswith("data:image/")), self._mark())
        for name in ("srcset", "sizes", *LAZY_SOURCES, *LAZY_SOURCE_SETS):
            if name in node.attributes:
                del node.attrs[name]
        if address is not None:
            node.attrs["src"] = address
        if address in (_NO_IMAGE, _NOTHING):
            node.attrs["title"] = f"Not in the archive: {next(iter(urls))}"

    def _mark(self) -> str:
        """Returns the address of the mark of a missing image, while there is room for it."""
        self._left -= len(_NO_IMAGE)
        return _NO_IMAGE if self._left > 0 else _NOTHING

    def _disarm(self, node: LexborNode) -> None:
        """Removes what would run, or lead elsewhere."""
        attributes = node.attributes
        for name in attributes:
            if name.startswith("on") or name in ("action", "formaction", "ping", "target", "download"):
                del node.attrs[name]
        if node.tag == "object" and "data" in attributes:
            del node.attrs["data"]
        if node.tag in ("a", "area"):
            for name in ("href", "xlink:href"):
                if name in attributes and not (attributes[name] or "").startswith(("#", self._links_at)):
                    del node.attrs[name]

    def _data(self, url: str, depth: int, *, is_frame: bool = False) -> str | None:
        """Returns a resource as a data: URL; None if it is missing, too large, or of a type that does not show."""
        if url in self._known:
            address = self._known[url]
        else:
            self._known[url] = None
            address = self._known[url] = self._made(url, depth, is_frame=is_frame)
        if address is not None and len(address) > self._left:
            self.resources[url] = replace(self.resources[url], state="left out")
            return None
        self._left -= len(address or "")
        return address

    def _made(self, url: str, depth: int, *, is_frame: bool) -> str | None:
        if depth > DEEPEST or len(self.resources) >= MOST_RESOURCES:
            return None
        file = self._find(url)
        self.resources[url] = ReplayedResource(url, "missing")
        if file is None:
            return None
        kind, size = file.mime_type, file.size
        is_text = kind == _CSS or (is_frame and is_html(kind))
        if not (is_text or kind.startswith(_SHOWN)):
            return None
        self.resources[url] = ReplayedResource(url, "left out", kind, size)
        # Base64 has four characters for three bytes
        if (size or 0) * 4 / 3 > self._left or (document := self._read(file, url)) is None:
            return None
        self.resources[url] = ReplayedResource(url, "shown", kind, len(document))
        if kind == _CSS:
            return _data_url(f"{_CSS};charset=utf-8", self._sheet(document, depth))
        if is_text:
            return _data_url("text/html;charset=utf-8", self._html(document, depth))
        return _data_url(kind, document.body)

    def _read(self, file: ArchivedFile, url: str) -> Document | None:
        """Returns a file unless it is damaged, or larger than what is left."""
        try:
            document = file.read()
        except StoreError:
            document = None
        if document is None:
            self.resources[url] = ReplayedResource(url, "missing", file.mime_type)
        else:
            self._readable -= len(document)
            if len(document) * 4 / 3 > self._left or self._readable < 0:
                return None
        return document

    def _sheet(self, document: Document, depth: int) -> bytes:
        base = Base(document.url, document.encode)
        text = rewritten_style(document.text, base, lambda url: self._data(url, depth + 1) or _NOTHING)
        return text.encode("utf-8", "replace")


def _all(tree: LexborHTMLParser, query: str) -> Iterator[LexborNode]:
    return (node for _, node in nodes(tree, query, templates=True))


def _of_sets(node: LexborNode, base: Base) -> list[str]:
    """Returns the URLs in the sets of sources of an image."""
    urls: list[str] = []
    for name in ("srcset", *LAZY_SOURCE_SETS):
        source_set(node.attributes.get(name) or "", base, urls.append)
    return urls


def _resolved(base: Base, address: str | None) -> str | None:
    """Returns the URL of an address without its fragment, or None if it is not of the web."""
    before = (address or "").strip().partition("#")[0]
    try:
        url = base.resolve(before) if before else None
    except InvalidURL:
        return None
    return url if url is not None and url.startswith(("http://", "https://")) else None


def _data_url(mime_type: str, data: bytes) -> str:
    return f"data:{mime_type};base64,{b64encode(data).decode()}"
