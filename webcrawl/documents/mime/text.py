"""Reads plain text, and optionally the URLs in it."""

from __future__ import annotations

import re

from webcrawl.documents.document import Document
from webcrawl.documents.mime.facts import MAX_LINKS, MAX_TEXT, Facts, Link, absolute

# Up to a character that cannot be in a URL, or ends the sentence around it.
_URL = re.compile(r"""\bhttps?://[^\s<>"'`{}|\\^]+""", re.IGNORECASE)
_TRAILING = ".,;:!?*_~"


def read(document: Document) -> Facts:
    """Returns the facts of a text; any bytes are text in some charset."""
    text = document.text
    return Facts(text=text[:MAX_TEXT], details={"lines": text.count("\n") + bool(text and text[-1] != "\n")})


def read_with_links(document: Document) -> Facts:
    """Returns the facts of a text with the URLs in it."""
    facts = read(document)
    addresses = (trimmed(match[0]) for match in _URL.finditer(document.text))
    facts.links = [Link(url) for url in absolute(addresses, document.url)[:MAX_LINKS]]
    return facts


def trimmed(url: str) -> str:
    """Removes the punctuation of the sentence from a URL; a bracket stays if it was opened within the URL."""
    while url:
        if url[-1] in _TRAILING or (url[-1] == ")" and url.count("(") < url.count(")")) or url[-1] == "]":
            url = url[:-1]
        else:
            break
    return url
