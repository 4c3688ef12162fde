"""The lines of a text."""

from __future__ import annotations

from webcrawl.documents.html.text import clean


def lines_of(text: str) -> tuple[str, ...]:
    """Returns the lines of a text that are not empty, white space collapsed."""
    if text.isspace():
        return ()
    lines = []
    for line in clean(text).split("\n"):
        # white space other than a blank is not printable
        if line.isprintable() and line[:1] > " " < line[-1] and "  " not in line:
            lines.append(line)
        elif words := line.split():
            lines.append(" ".join(words))
    return tuple(lines)
