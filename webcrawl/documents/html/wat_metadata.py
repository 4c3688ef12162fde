"""The head and the links of an HTML page as WAT files have them: addresses as written, with the path of the attribute.

https://github.com/iipc/webarchive-commons defines the form: its class ExtractingParseObserver.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from selectolax.lexbor import LexborNode

from webcrawl.documents.document import Document
from webcrawl.documents.html.text import collapsed
from webcrawl.errors import UnreadableDocument

MAX_TEXT = 100
"""The most characters of the text of a link."""
MOST_LINKS = 100_000
"""The most elements of a page; further ones are left out."""
_MAX_VALUE = 10_000
_MAX_TITLE = 1_000
_LINKS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "a": (("href",), ("target", "alt", "title", "rel")),
    "area": (("href",), ("rel",)),
    "applet": (("codebase", "cdata"), ()),
    "embed": (("src",), ()),
    "form": (("action",), ("target", "method")),
    "frame": (("src",), ()),
    "iframe": (("src",), ()),
    "img": (("src",), ("alt", "title")),
    "input": (("src",), ()),
    "object": (("codebase", "cdata"), ()),
}
"""By element, the attributes with an address, and those that are repeated beside it."""
_HEAD: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "link": ("href", ("rel", "type", "title", "hreflang")),
    "script": ("src", ("type",)),
}
_NAMES = {"link": "Link", "script": "Scripts"}
_META = ("name", "property", "rel", "content", "http-equiv", "charset")
_SELECTOR = f":is({','.join([*_LINKS, *_HEAD, 'meta', 'base', 'title', '[background]'])})"


def read(document: Document) -> bytes:
    """A reader of HTML: returns the JSON of `html_metadata`."""
    return json.dumps(html_metadata(document)).encode()


def unpack(answer: bytes | bytearray) -> dict[str, Any]:
    """Returns the answer of `read`; raises ValueError for an invalid one, UnreadableDocument for an error."""
    from webcrawl.documents.mime.facts import unpack as unpack_error

    if not answer.startswith(b"{"):
        unpack_error(answer)
        raise ValueError("not the metadata of a page")
    metadata = json.loads(answer)
    if not isinstance(metadata.get("Links", []), list) or not isinstance(metadata.get("Head", {}), dict):
        raise ValueError("not the metadata of a page")
    return dict(metadata)


def html_metadata(document: Document) -> dict[str, Any]:
    """Returns the `HTML-Metadata` of a page: `Links`, and `Head` with `Base`, `Title`, `Metas`, `Link`, `Scripts`."""
    if document.refused is not None:
        raise UnreadableDocument(document.refused)
    head: dict[str, Any] = {}
    links: list[dict[str, str]] = []
    root = document.html.root
    for node in root.css(_SELECTOR)[:MOST_LINKS] if root is not None else ():
        _add(node, head, links)
    return {**({"Head": head} if head else {}), **({"Links": links} if links else {})}


def _add(node: LexborNode, head: dict[str, Any], links: list[dict[str, str]]) -> None:
    tag, attributes = node.tag or "", node.attributes
    values = {name: (value or "")[:_MAX_VALUE] for name, value in attributes.items()}
    if tag == "title":
        parent = node.parent
        if parent is not None and parent.tag == "head" and (title := collapsed(node.text())[:_MAX_TITLE]):
            head.setdefault("Title", title)
        return
    if "background" in values:
        links.append({"path": _path(tag, "background"), "url": values["background"]})
    if tag == "meta":
        if meta := {name: values[name] for name in _META if name in values}:
            head.setdefault("Metas", []).append(meta)
    elif tag == "base":
        if "href" in values:
            head.setdefault("Base", values["href"])
    elif tag in _HEAD:
        attribute, more = _HEAD[tag]
        if attribute in values:
            head.setdefault(_NAMES[tag], []).append(_link(tag, attribute, values, more))
    elif tag in _LINKS:
        addresses, more = _LINKS[tag]
        for attribute in addresses:
            if attribute in values:
                links.append(_link(tag, attribute, values, more))
                if tag == "a" and (text := collapsed(node.text_lexbor() or "")[:MAX_TEXT].strip()):
                    links[-1]["text"] = text


def _link(tag: str, attribute: str, values: Mapping[str, str], more: tuple[str, ...]) -> dict[str, str]:
    beside = {name: values[name] for name in more if name in values}
    return {"path": _path(tag, attribute), "url": values[attribute], **beside}


def _path(tag: str, attribute: str) -> str:
    return f"{tag.upper()}@/{attribute}"
