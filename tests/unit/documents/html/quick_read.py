"""A reader that gives the parser less time; a reader process imports it, so it imports no more than it needs."""

from __future__ import annotations

from webcrawl.documents.document import Document
from webcrawl.documents.html import timed_parse
from webcrawl.documents.mime.facts import Facts

SECONDS = 0.3


def read(document: Document) -> Facts:
    timed_parse.SECONDS = SECONDS
    return timed_parse.read(document)
