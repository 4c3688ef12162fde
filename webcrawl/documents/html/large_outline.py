"""Readers that make the outline of a large HTML page, for `webcrawl.documents.mime.reader_processes`."""

from __future__ import annotations

from webcrawl.documents.document import Document
from webcrawl.documents.html.outline import make_outline, pack


def reader(*, facts: bool, simhash: bool) -> str:
    """Returns the name of the reader that finds what `make_outline` finds with these arguments."""
    name = "links" if not facts else "facts_and_simhash" if simhash else "facts"
    return f"{__name__}:{name}"


def links(document: Document) -> bytes:
    return pack(make_outline(document, facts=False, simhash=False))


def facts(document: Document) -> bytes:
    return pack(make_outline(document, facts=True, simhash=False, whole_text=True))


def facts_and_simhash(document: Document) -> bytes:
    return pack(make_outline(document, facts=True, simhash=True, whole_text=True))
