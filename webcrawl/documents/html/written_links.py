"""The addresses that an HTML page shows as text, see TEXT_LINKS."""

from __future__ import annotations

import re
from contextlib import suppress

from selectolax.lexbor import LexborHTMLParser, LexborNode

from webcrawl.documents.html.text import HIDDEN, LINK, LINK_END, clean, tag_ids, walk
from webcrawl.documents.written_addresses import written_addresses
from webcrawl.errors import InvalidURL
from webcrawl.urls.canonical import resolve

_ANCHORS = tag_ids("a")
# The text of a link often is its address, shortened.
_IN_LINK = re.compile(f"{LINK}[^{LINK_END}]*+(?:{LINK_END}|$)")


_CODE = "script, style"
_SOFT_HYPHEN = "\xad"
"""It is left out of the text, so it may stand within the signs of an address."""


def written_links(tree: LexborHTMLParser) -> list[str]:
    """Returns the links that the visible text of the page contains outside of links, in its order, each once."""
    body = tree.body
    if body is None or not _may_have_addresses(body):
        return []
    text = _IN_LINK.sub(" ", clean("".join(walk(body, HIDDEN, links=_ANCHORS))))
    found = dict[str, None]()
    for address in written_addresses(text):
        with suppress(InvalidURL):
            if link := resolve(address):
                found[link] = None
    return list(found)


def _may_have_addresses(body: LexborNode) -> bool:
    """Returns whether there are more signs of addresses in all text of the body than in its scripts and style sheets.

    That takes a tenth of the time of a walk, and most pages have none. The text of a script is one node, which is its
    first child.
    """
    text = body.text_lexbor() or ""
    if not (signs := _signs(text)):
        return _SOFT_HYPHEN in text
    code = (node.first_child for node in body.css(_CODE))
    return _SOFT_HYPHEN in text or signs > sum(
        _signs(one.text_content or "") for one in code if one is not None
    )


def _signs(text: str) -> int:
    return text.count("://") + text.lower().count("www.")
