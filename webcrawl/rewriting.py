"""The addresses in a page or style sheet: which of them it loads, and the same page with others in their place."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import quote

from webcrawl.document import Document
from webcrawl.errors import InvalidURL
from webcrawl.links import page_links, refresh_address
from webcrawl.mime.html import is_html
from webcrawl.references import references
from webcrawl.urls import resolve

_CSS_ADDRESS = re.compile(
    r"""url\(\s*(?P<quote>["']?)(?P<url>[^"'()\r\n]*)(?P=quote)\s*\)|@import\s*(?P<mark>["'])(?P<imported>[^"'\r\n]*)(?P=mark)""",
    re.IGNORECASE,
)
# What ends an address there, quoted or not.
_NOT_IN_CSS = str.maketrans({sign: quote(sign) for sign in "()\"' \\"})


def loaded(document: Document) -> list[str]:
    """The URLs that an HTML page or a style sheet loads with itself, each once."""
    found: dict[str, None] = {}

    def note(url: str) -> str | None:
        found[url] = None
        return None

    if document.mime_type == "text/css":
        rewritten_style(document.text, document.url, note)
        return list(found)
    if not is_html(document.mime_type):
        return []
    base = page_links(document.elements, document.url).base
    for one in references(document):
        if not one.is_link:
            found[one.url] = None
    for node in document.html.css("[srcset]"):
        source_set(node.attributes.get("srcset") or "", base, note)
    for node in document.html.css("[style]"):
        rewritten_style(node.attributes.get("style") or "", base, note)
    for node in document.html.css("style"):
        rewritten_style(node.text(), base, note)
    return list(found)


def rewritten_style(text: str, base: str, address: Callable[[str], str | None]) -> str:
    """A style sheet with the addresses that `address` gives for its URLs; None leaves one as it is."""

    def replaced(match: re.Match[str]) -> str:
        name = "url" if match["url"] is not None else "imported"
        new = _new(match[name], base, address)
        if new is None:
            return match[0]
        before, after = text[match.start() : match.start(name)], text[match.end(name) : match.end()]
        return before + new.translate(_NOT_IN_CSS) + after

    return _CSS_ADDRESS.sub(replaced, text)


def source_set(value: str, base: str, address: Callable[[str], str | None]) -> str:
    """The value of a srcset attribute with other addresses."""
    candidates = []
    for url, size in re.findall(r"[\s,]*(\S*[^,\s])(?:\s+([^,]*))?", value):
        candidates.append(f"{_new(url, base, address) or url} {size.strip()}".strip())
    return ", ".join(candidates)


def rewritten_page(document: Document, address: Callable[[str], str | None]) -> bytes:
    """An HTML page as UTF-8 with the addresses that `address` gives for URLs; others are made absolute."""
    base = page_links(document.elements, document.url).base
    tree = document.html

    def known(url: str) -> str:
        return address(url) or url

    for one in references(document):
        within = one.is_link and one.fragment and one.url == document.url
        target = "" if within else known(one.url)
        one.node.attrs[one.attribute] = target + (f"#{quote(one.fragment)}" if one.fragment else "")
    for node in tree.css("[srcset]"):
        node.attrs["srcset"] = source_set(node.attributes.get("srcset") or "", base, known)
    for node in tree.css("[style]"):
        style = node.attributes.get("style") or ""
        if "url(" in style.lower():
            node.attrs["style"] = rewritten_style(style, base, known)
    for node in tree.css("style"):
        for text in node.iter(include_text=True):
            text.replace_with(rewritten_style(text.text(), base, known))
    for node in tree.css("meta[http-equiv][content]"):
        content = node.attributes.get("content") or ""
        if (node.attributes.get("http-equiv") or "").lower() == "refresh" and (
            old := refresh_address(content)
        ):
            node.attrs["content"] = content.replace(old, _new(old, base, known) or old)
    # what is loaded is no longer what it was the digest of; the base is that of the site
    for node in tree.css("[integrity]"):
        del node.attrs["integrity"]
    for node in tree.css("base"):
        node.decompose()
    # a byte order mark goes before whatever the page says of its charset
    return b"\xef\xbb\xbf" + (tree.html or "").encode("utf-8", "replace")


def _new(old: str, base: str, address: Callable[[str], str | None]) -> str | None:
    before, mark, fragment = old.strip().partition("#")
    try:
        url = resolve(before, base) if before else None
    except InvalidURL:
        return None
    if url is None or not url.startswith(("http://", "https://")):
        return None
    new = address(url)
    return None if new is None else new + mark + fragment
