"""The lines of a text."""

from __future__ import annotations

from webcrawl.documents.html.text import clean


def lines_of(text: str) -> tuple[str, ...]:
    """Returns the lines of a text that are not empty, white space collapsed."""
    if text.isspace():
        return ()
    words = [line.split() for line in clean(text).split("\n")]
    return tuple([" ".join(line) for line in words if line])
