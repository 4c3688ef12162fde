"""The addresses that an HTML page shows as text, see TEXT_LINKS."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace

from selectolax.lexbor import LexborHTMLParser

from webcrawl.documents.html.links import PageLinks
from webcrawl.documents.html.text import HIDDEN, LINK, LINK_END, clean, tag_ids, walk
from webcrawl.documents.written_addresses import written_addresses
from webcrawl.errors import InvalidURL
from webcrawl.urls.canonical import resolve

_ANCHORS = tag_ids("a")
# The text of a link often is its address, shortened.
_IN_LINK = re.compile(f"{LINK}[^{LINK_END}]*+(?:{LINK_END}|$)")


def with_written_links(links: PageLinks, tree: LexborHTMLParser) -> PageLinks:
    """Returns the links with those that the visible text of the page contains outside of links, in its order."""
    body = tree.body
    if body is None:
        return links
    text = _IN_LINK.sub(" ", clean("".join(walk(body, HIDDEN, links=_ANCHORS))))
    found = dict.fromkeys(links.links)
    for address in written_addresses(text):
        with suppress(InvalidURL):
            if link := resolve(address):
                found[link] = None
    return replace(links, links=list(found))
