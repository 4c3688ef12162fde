"""Reads plain text, and optionally the URLs in it."""

from __future__ import annotations

from webcrawl.documents.document import Document
from webcrawl.documents.mime.facts import MAX_LINKS, MAX_TEXT, Facts, Link, absolute
from webcrawl.documents.written_addresses import written_addresses


def read(document: Document) -> Facts:
    """Returns the facts of a text; any bytes are text in some charset."""
    text = document.text
    return Facts(text=text[:MAX_TEXT], details={"lines": text.count("\n") + bool(text and text[-1] != "\n")})


def read_with_links(document: Document) -> Facts:
    """Returns the facts of a text with the URLs in it."""
    facts = read(document)
    addresses = written_addresses(document.text)
    facts.links = [Link(url) for url in absolute(addresses, document.url)[:MAX_LINKS]]
    return facts
