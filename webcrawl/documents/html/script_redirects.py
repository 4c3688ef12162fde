"""Finds where a page goes by script that has next to nothing else: `location.href = "/start"`."""

from __future__ import annotations

import re
from contextlib import suppress

from selectolax.lexbor import LexborHTMLParser

from webcrawl.documents.document import Document
from webcrawl.documents.html.links import PageAddresses
from webcrawl.documents.html.text import visible_text
from webcrawl.errors import InvalidURL

_LARGEST = 32_768
"""Bytes of a page that is looked at."""
_MOST_TEXT = 400
"""Characters of text of such a page: "Redirecting..." or a request to switch on JavaScript."""
_MOST_LINKS = 3
_MOST_TARGETS = 4
"""A script may choose between pages for a few languages or screens."""

_OBJECTS = r"(?<![\w$.])(?:(?:window|self|top|parent|document|this)\s*\.\s*){0,2}location"
_LITERAL = r"""(?P<quote>["'`])(?P<address>(?:(?!(?P=quote))[^\\\n`$]|\\[^\n])*+)(?P=quote)(?!\s*[+.\[?])"""
_TARGET = re.compile(rf"{_OBJECTS}\s*(?:(?:\.\s*href\s*)?=(?!=)|\.\s*(?:replace|assign)\s*\()\s*{_LITERAL}")
_ESCAPE = re.compile(r"\\(?:u\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_COMMENT = re.compile(r"/\*.*?\*/|(?:^|(?<=[\s;{}]))//[^\n]*", re.DOTALL)


def script_redirects(document: Document, links: PageAddresses) -> list[str]:
    """Returns the normalised URLs to which a script of the page goes; none for a page with text or `links` of its own.

    Only literal addresses count.
    """
    if len(document) > _LARGEST or len(links.addresses) > _MOST_LINKS or b"location" not in document.body:
        return []
    addresses = _addresses(document.html)
    if not addresses or len(visible_text(document.html)) > _MOST_TEXT:
        return []
    base, targets = links.joined_base(document.url, document.encode), dict[str, None]()
    for address in addresses:
        with suppress(InvalidURL):
            if (target := base.resolve(address.partition("#")[0])) and target != document.url:
                targets[target] = None
    return list(targets)


def _addresses(tree: LexborHTMLParser) -> list[str]:
    scripts = [node.text() or "" for node in tree.css("script:not([src])")]
    if tree.body is not None:
        scripts.append(tree.body.attributes.get("onload") or "")
    code = _COMMENT.sub(" ", "\n".join(scripts))
    matches = list(_TARGET.finditer(code))[:_MOST_TARGETS]
    return [address for match in matches if (address := _ESCAPE.sub(_unescaped, match["address"]).strip())]


def _unescaped(escape: re.Match[str]) -> str:
    code = escape[1] or escape[2] or escape[3]
    if code is None:
        return escape[4]
    number = int(code, 16)
    return chr(number) if number < 0x110000 and not 0xD800 <= number < 0xE000 else ""
