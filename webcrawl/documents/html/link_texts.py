"""The texts of the links of an HTML page, and the links in its text: addresses outside of links, see TEXT_LINKS."""

from __future__ import annotations

import re
from contextlib import suppress

from selectolax.lexbor import LexborHTMLParser, LexborNode

from webcrawl.documents.html.text import BLOCK, HIDDEN, INLINE_IDS, LINK, LINK_END, clean, tag_ids, walk
from webcrawl.documents.mime.facts import collapsed
from webcrawl.documents.written_addresses import written_addresses
from webcrawl.errors import InvalidURL
from webcrawl.urls.canonical import Base, resolve

MAX_LINK_TEXT = 200
"""Characters of a text that are kept."""
_CODE = tag_ids("script style")
_MAY_BE_CODE = re.compile(r"[{(=;\[]")
"""Nearly all code has one of these characters, and few texts of links do: only these are searched for code."""
_DEEPEST_TEXT = 8
"""Elements around a text that are looked at: links may be nested in SVG, and each would look through all."""
MAX_TEXTS = 1_000_000
"""Characters of all links of a page that are looked at: links may be nested in SVG, so texts may count many times."""

_ANCHORS = tag_ids("a")
# The text of a link often is its address, shortened.
_IN_LINK = re.compile(f"{LINK}[^{LINK_END}]*+(?:{LINK_END}|$)")
_SOFT_HYPHEN = "\xad"
"""Soft hyphens are left out of the text, so they may stand within the signs of an address."""


def link_texts(tree: LexborHTMLParser, base: Base) -> dict[str, str]:
    """Returns the text of each link by its normalised URL: of several links to a URL, the first text counts.

    An image counts as its alternative text. `base` is that of the page. Only <a> elements are read.
    """
    texts: dict[str, str] = {}
    left = MAX_TEXTS
    for node in tree.css("a[href]"):
        attributes = node.attributes
        address = (attributes.get("href") or attributes.get("xlink:href") or "").partition("#")[0].strip()
        if not address:
            continue
        try:
            url = base.resolve(address)
        except InvalidURL:
            continue
        if url is None or url in texts:
            continue
        raw = text_of(node)
        if text := collapsed(raw, MAX_LINK_TEXT):
            texts[url] = text
        left -= len(raw)
        if left <= 0:
            break
    return texts


def is_plain(text: str) -> bool:
    """Returns whether the text of a link in the tree is what `text_of` returns, whatever elements are in the link."""
    return not _MAY_BE_CODE.search(text) and bool(text) and not text.isspace()


def text_of(node: LexborNode) -> str:
    """Returns the text of a link as it is in the tree, or the first alternative text of an image in it.

    Scripts and style sheets in the link are left out. Elements in it separate words, unless they are inline.
    """
    child = node.first_child
    if child is None:
        return ""
    text = _only_text(child)
    if text is None:  # there is more than a text in it
        text = node.text_lexbor()
        if text and (_has_block(child) or _MAY_BE_CODE.search(text)):
            text = "".join(walk(node, _CODE)).replace(BLOCK, " ")
    if text and not text.isspace():
        return text
    image = node.css_first("img[alt]")
    return "" if image is None else image.attributes["alt"] or ""


def _only_text(child: LexborNode) -> str | None:
    """Returns the text in a node that has nothing else in it, as in `<code><span>text`; None for other nodes."""
    for _ in range(_DEEPEST_TEXT):
        if child.next is not None:
            return None
        if (text := child.text_content) is not None:
            return text
        inner = child.first_child
        if inner is None or child.tag_id in _CODE:
            return None
        child = inner
    return None


def _has_block(child: LexborNode | None) -> bool:
    """Returns whether a node or one of its next siblings is an element that is not inline."""
    while child is not None:
        if child.text_content is None and child.tag_id not in INLINE_IDS:
            return True
        child = child.next
    return False


def written_links(tree: LexborHTMLParser) -> list[str]:
    """Returns the links that the visible text of the page contains outside of links, in its order, each once."""
    body = tree.body
    if body is None or not _may_have_addresses(body):
        return []
    text = _IN_LINK.sub(" ", clean("".join(walk(body, HIDDEN, links=_ANCHORS))))
    links = dict[str, None]()
    for address in written_addresses(text):
        with suppress(InvalidURL):
            if link := resolve(address):
                links[link] = None
    return list(links)


def _may_have_addresses(body: LexborNode) -> bool:
    """Returns whether there are more signs of addresses in all text of the body than in its scripts and style sheets.

    That takes a tenth of the time of a walk, and most pages have none. The text of a script is its only child
    node.
    """
    text = body.text_lexbor() or ""
    if not (signs := _signs(text)):
        return _SOFT_HYPHEN in text
    code = (node.first_child for node in body.css("script, style"))
    return _SOFT_HYPHEN in text or signs > sum(
        _signs(child.text_content or "") for child in code if child is not None
    )


def _signs(text: str) -> int:
    return text.count("://") + text.lower().count("www.")
