"""Finds the addresses that a page or style sheet loads, and replaces its addresses."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import quote

from selectolax.lexbor import LexborHTMLParser, LexborNode

from webcrawl.documents.document import Document
from webcrawl.documents.html.facts import is_html
from webcrawl.documents.html.links import refresh_address
from webcrawl.documents.link_elements import LAZY_BACKGROUNDS, LAZY_SOURCE_SETS, is_background
from webcrawl.errors import InvalidURL
from webcrawl.results.references import base_of, nodes, references
from webcrawl.urls.canonical import Base

_DOUBLE, _SINGLE, _BARE = (
    rf"""[^{ends}\\\r\n\f]*+(?:\\.[^{ends}\\\r\n\f]*+)*+""" for ends in ('"', "'", "\"'()\\s")
)
# The first alternative wins: addresses in comments, strings and namespaces do not count. Possessive quantifiers prevent
# backtracking, which hostile pages could exploit.
_COMMENT = r"/\*.*?(?:\*/|\Z)"
_URL = rf"""url\(\s*+(?:"({_DOUBLE})"|'({_SINGLE})'|({_BARE}))\s*+\)"""
# What image-set() holds: strings and brackets, of which two may be within each other, as in a gradient with rgb().
_FLAT = rf"""(?:[^"'()]++|"{_DOUBLE}"|'{_SINGLE}')*+"""
_NESTED = rf"{_FLAT}(?:\({_FLAT}\){_FLAT})*+"
_IMAGES = rf"{_NESTED}(?:\({_NESTED}\){_NESTED})*+"
_CSS_ADDRESS = re.compile(
    rf"""{_COMMENT}|@namespace[^;]*+|@import\s*+(?:"({_DOUBLE})"|'({_SINGLE})')|{_URL}"""
    rf"""|image-set\((?P<images>{_IMAGES})(?:\)|\Z)|"{_DOUBLE}"?|'{_SINGLE}'?""",
    re.IGNORECASE | re.DOTALL,
)
# In image-set() a string is an address, but not in type().
_IMAGE_ADDRESS = re.compile(
    rf"""{_COMMENT}|{_URL}|(?<![\w-])[\w-]++\({_NESTED}\)|"({_DOUBLE})"|'({_SINGLE})'""",
    re.IGNORECASE | re.DOTALL,
)
_HAS_ADDRESS = re.compile(r"(?i)url\(|image-set\(")
_CSS_ESCAPE = re.compile(r"\\(?:([0-9a-f]{1,6})(?:\r\n|\s)?|(\r\n|[\r\n\f])|(.))", re.IGNORECASE | re.DOTALL)
_CHARSET_RULE = re.compile(r'\A@charset "[^"]*";', re.IGNORECASE)
_CHARSET_OF_A_TYPE = re.compile(r"(?i)\bcharset\s*=.*")
_SOURCE_SETS = ("srcset", "imagesrcset", *LAZY_SOURCE_SETS)
# Rewritten files have other digests, files on a disk have no origin, and none of them agrees to the policy of a frame.
_CONDITIONS = ("integrity", "crossorigin", "csp")
_FIRST_OF_A_SET = re.compile(r"[\s,]*+(\S*+)")
# characters that end an address in CSS, quoted or not
_NOT_IN_CSS = str.maketrans({sign: quote(sign) for sign in "()\"' \\"})


def loaded(document: Document, *, templates: bool = False) -> list[str]:
    """Returns the distinct URLs of the resources that an HTML page or a style sheet loads; see `references`."""
    urls: dict[str, None] = {}

    def note(url: str) -> str | None:
        urls[url] = None
        return None

    if document.mime_type == "text/css":
        rewritten_style(document.text, Base(document.url, document.encode), note)
        return list(urls)
    if not is_html(document.mime_type):
        return []
    tree, base = document.html, base_of(document)
    for reference in references(tree, base, templates=templates):
        if reference.use == "loaded":
            urls[reference.url] = None
    for node, attribute in _source_sets(tree, templates=templates):
        source_set(node.attributes.get(attribute) or "", base, note)
    # browsers encode queries in the page's encoding in style elements, but not in style attributes
    for _, node in nodes(tree, "[style]", templates=templates):
        rewritten_style(node.attributes.get("style") or "", Base(base.url), note)
    for node, name in _backgrounds(tree, templates=templates):
        _rewritten_background(node.attributes.get(name) or "", base, note)
    for _, node in nodes(tree, "style", templates=templates):
        rewritten_style(node.text(), base, note)
    return list(urls)


def rewritten_style(text: str, base: Base, address: Callable[[str], str | None]) -> str:
    """Returns a style sheet with its URLs replaced by `address`; None keeps a URL."""

    def replaced(match: re.Match[str]) -> str:
        if (group := match.lastindex) is None:
            return match[0]
        if match.lastgroup == "images":
            new = _IMAGE_ADDRESS.sub(replaced, match[group])
        elif (joined := _new(_unescaped(match[group]), base, address)) is not None:
            new = joined.translate(_NOT_IN_CSS)
        else:
            return match[0]
        before = match.string[match.start() : match.start(group)]
        return before + new + match.string[match.end(group) : match.end()]

    return _CSS_ADDRESS.sub(replaced, text)


def rewritten_sheet(document: Document, address: Callable[[str], str | None]) -> bytes:
    """Returns a CSS document in UTF-8 with its URLs replaced by `address`, or made absolute."""
    base = Base(document.url, document.encode)
    text = rewritten_style(document.text, base, lambda url: address(url) or url)
    return _CHARSET_RULE.sub('@charset "utf-8";', text).encode("utf-8", "replace")


def source_set(value: str, base: Base, address: Callable[[str], str | None]) -> str:
    """Returns the value of a srcset attribute with its URLs replaced by `address`."""
    candidates, position = [], 0
    while (match := _FIRST_OF_A_SET.match(value, position)) and (url := match[1]):
        position, size = match.end(), ""
        if url.endswith(","):
            url = url.rstrip(",")
        else:
            size, _, _ = value[position:].partition(",")
            position += len(size)
        candidates.append(f"{_new(url, base, address) or url} {size.strip()}".strip())
    return ", ".join(candidates)


def rewritten_page(document: Document, address: Callable[[str], str | None]) -> bytes:
    """Returns an HTML page in UTF-8 with its URLs replaced by `address`, or made absolute."""
    tree = document.source_tree()
    rewrite(tree, document, opened=address, loaded=address)
    return written(tree)


def rewrite(
    tree: LexborHTMLParser,
    document: Document,
    *,
    opened: Callable[[str], str | None],
    loaded: Callable[[str], str | None],
) -> None:
    """Replaces the URLs in a tree of a page by what the functions return, or makes them absolute.

    `opened`: for URLs that a browser opens on a click. `loaded`: for those that it loads with the page.
    """
    base = base_of(document)
    known = {"opened": lambda url: opened(url) or url, "loaded": lambda url: loaded(url) or url}
    for reference in references(tree, base, templates=True):
        within = reference.use == "opened" and reference.fragment and reference.url == document.url
        # only the site can answer a form
        target = "" if within else known.get(reference.use, str)(reference.url)
        reference.node.attrs[reference.attribute] = target + (
            f"#{reference.fragment}" if reference.fragment else ""
        )
    _rewrite_styles(tree, base, known["loaded"])
    _rewrite_meta(tree, base, known["opened"])
    _remove_conditions(tree)


def written(tree: LexborHTMLParser) -> bytes:
    """Returns the markup of a tree in UTF-8."""
    # a byte order mark overrides all other charset declarations
    return b"\xef\xbb\xbf" + (tree.html or "").encode("utf-8", "replace")


def _rewrite_styles(tree: LexborHTMLParser, base: Base, known: Callable[[str], str]) -> None:
    """Replaces the URLs in sets of sources, backgrounds and styles."""
    for node, attribute in _source_sets(tree, templates=True):
        node.attrs[attribute] = source_set(node.attributes.get(attribute) or "", base, known)
    for _, node in nodes(tree, "[style]", templates=True):
        style = node.attributes.get("style") or ""
        if _HAS_ADDRESS.search(style):
            node.attrs["style"] = rewritten_style(style, Base(base.url), known)
    for node, name in _backgrounds(tree, templates=True):
        node.attrs[name] = _rewritten_background(node.attributes.get(name) or "", base, known)
    for _, node in nodes(tree, "style", templates=True):
        for text in node.iter(include_text=True):
            text.replace_with(rewritten_style(text.text(), base, known))


def _remove_conditions(tree: LexborHTMLParser) -> None:
    """Removes what a browser would compare with the site's origin, its answers or the addresses before."""
    for name in _CONDITIONS:
        for _, node in nodes(tree, f"[{name}]", templates=True):
            del node.attrs[name]
    for node in tree.css("meta[http-equiv]"):
        if (node.attributes.get("http-equiv") or "").strip().lower() == "content-security-policy":
            node.decompose()
    # the base no longer applies to addresses, but its target still does
    for node in tree.css("base[href]"):
        del node.attrs["href"]
        if not node.attributes:
            node.decompose()


def _rewrite_meta(tree: LexborHTMLParser, base: Base, address: Callable[[str], str]) -> None:
    """Replaces the address of a refresh, and the charset."""
    for node in tree.css("meta[http-equiv][content]"):
        content = node.attributes.get("content") or ""
        kind = (node.attributes.get("http-equiv") or "").strip().lower()
        if kind == "refresh" and (old := refresh_address(content)):
            node.attrs["content"] = content.replace(old, _new(old, base, address) or old)
        elif kind == "content-type":
            node.attrs["content"] = _CHARSET_OF_A_TYPE.sub("charset=utf-8", content)
    for node in tree.css("meta[charset]"):
        node.attrs["charset"] = "utf-8"


def _source_sets(tree: LexborHTMLParser, *, templates: bool) -> list[tuple[LexborNode, str]]:
    return [
        (node, name)
        for name in _SOURCE_SETS
        for inert, node in nodes(tree, f"[{name}]", templates=templates)
        if not ((inert or name in LAZY_SOURCE_SETS) and "{" in (node.attributes.get(name) or ""))
    ]


def _backgrounds(tree: LexborHTMLParser, *, templates: bool) -> list[tuple[LexborNode, str]]:
    return [
        (node, name)
        for name in LAZY_BACKGROUNDS
        for _, node in nodes(tree, f"[{name}]", templates=templates)
        if is_background(node.attributes.get(name) or "")
    ]


def _rewritten_background(value: str, base: Base, address: Callable[[str], str | None]) -> str:
    """Returns a background with its URLs replaced by `address`. A script makes it part of a style attribute."""
    if _HAS_ADDRESS.search(value):
        return rewritten_style(value, Base(base.url), address)
    return _new(value, Base(base.url), address) or value


def _unescaped(text: str) -> str:
    def meant(match: re.Match[str]) -> str:
        if (code := match[1]) is None:
            return match[3] or ""
        number = int(code, 16)
        return chr(number) if 0 < number < 0x110000 and not 0xD800 <= number < 0xE000 else "\ufffd"

    return _CSS_ESCAPE.sub(meant, text) if "\\" in text else text


def _new(old: str, base: Base, address: Callable[[str], str | None]) -> str | None:
    before, mark, fragment = old.strip().partition("#")
    try:
        url = base.resolve(before) if before else None
    except InvalidURL:
        return None
    if url is None or not url.startswith(("http://", "https://")):
        return None
    new = address(url)
    return None if new is None else new + mark + fragment
