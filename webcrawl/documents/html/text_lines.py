"""The lines of a text."""

from __future__ import annotations

from webcrawl.documents.html.text import clean


def lines_of(text: str) -> tuple[str, ...]:
    """Returns the lines of a text that are not empty, white space collapsed."""
    # white space other than a blank is not printable
    if text.isprintable() and "  " not in text:
        return (line,) if (line := text.strip()) else ()
    if text.isspace():
        return ()
    lines = filter(None, map(str.strip, clean(text).split("\n")))
    return tuple(
        [line if line.isprintable() and "  " not in line else " ".join(line.split()) for line in lines]
    )
