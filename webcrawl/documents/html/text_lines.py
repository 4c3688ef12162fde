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
    # as `collapsed`, without a call for each line
    return tuple(
        [
            line if "  " not in line and line.isprintable() else " ".join(line.split())
            for line in stripped_lines(text)
        ]
    )


def stripped_lines(text: str) -> tuple[str, ...]:
    """Returns the lines of a text that are not empty, without the white space around them."""
    text = clean(text)
    if "\n" not in text:
        return (line,) if (line := text.strip()) else ()
    return tuple(filter(None, map(str.strip, text.split("\n"))))


def collapsed(text: str) -> str:
    """Returns a text without white space around it, and with a single blank for any other."""
    line = text.replace("\n", " ")
    return " ".join(text.split()) if "  " in line or _has_other_space(line) else line.strip()


def _has_other_space(line: str) -> bool:
    """Returns whether there may be white space other than blanks in a text."""
    if not line.isascii():
        return not line.isprintable()  # other white space is not
    # to look for each is quicker than to look at each character
    return (
        "\t" in line
        or "\r" in line
        or "\x0b" in line
        or "\x0c" in line
        or "\x1c" in line
        or "\x1d" in line
        or "\x1e" in line
        or "\x1f" in line
    )
