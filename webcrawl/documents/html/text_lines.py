"""The lines of a text, and the visible text of a page in lines."""

from __future__ import annotations

from selectolax.lexbor import LexborHTMLParser

from webcrawl.documents.html.text import HIDDEN, clean, walk


def visible_text(tree: LexborHTMLParser) -> str:
    """Returns the text of the body without scripts, styles and fallbacks, with a line for each block.

    White space is collapsed. Elements separate words unless they are inline (`fo<b>o</b>` is one word, `<td>a<td>b` are
    two).
    """
    body = tree.body
    return "\n".join(lines_of("".join(walk(body, HIDDEN)))) if body is not None else ""


def lines_of(text: str) -> tuple[str, ...]:
    """Returns the lines of a text that are not empty, white space collapsed."""
    # white space other than a blank is not printable, and so is the end of a block
    if text.isprintable() and "  " not in text:
        return (line,) if (line := text.strip()) else ()
    if text.isspace():
        return ()
    lines = filter(None, map(str.strip, clean(text).split("\n")))
    return tuple(
        [line if line.isprintable() and "  " not in line else " ".join(line.split()) for line in lines]
    )
