"""The blocks of Markdown: paragraphs, headings, code and images, in their containers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from webcrawl.documents.html.markdown_containers import Cell, Container, MarkdownTable, separation
from webcrawl.documents.html.markdown_inline import Mark, escaped, is_special, marked
from webcrawl.documents.html.text import clean, collapsed
from webcrawl.documents.mime.facts import MAX_TEXT

PARAGRAPH, CODE, IMAGE = 0, 7, 8
"""Kinds of blocks; 1 to 6 are the levels of headings."""
_LONGEST = MAX_TEXT // 2
"""Of a longer block, only the beginning is kept, without marks; escaped, it may have twice the characters."""
_KEEP_LINES = (PARAGRAPH, IMAGE, CODE)

# A list, heading, quotation, rule, underline or table would begin here.
_START = re.compile(r"#{1,6}(?=\s|$)|[-+](?=[\s-]|$)|>|=+\s*$|:(?=-)|(\d{1,9})[.)](?=\s|$)")
# Such a line would define a link, and not be shown.
_REFERENCE = re.compile(r"\[(?:[^\[\]\\]|\\.)+\]:")
_FENCES = re.compile("`{3,}")
_LAST_SIGNS, _ESCAPED_SIGNS = re.compile(r"(?<![^\s])(#+)$"), r"\\\1"

NO_GLUE, BREAK, LINE, SPACE = "", "\\\n", "\n", " "
"""What is between two blocks: a new paragraph begins, or the same paragraph goes on."""


@dataclass(slots=True)
class MarkdownBlock:
    """A block of text, or an image.

    text      the text of the page with its white space, or an image in Markdown
    pieces    the pieces of the text, if they have to be marked or escaped
    marks     the inline elements around the pieces
    glue      what is between the previous block and this block
    language  the language of code
    is_kept   whether the block is in the main part
    """

    text: str
    kind: int
    pieces: Sequence[str] = ()
    marks: Sequence[Mark] = ()
    container: Container | None = None
    cell: Cell | None = None
    glue: str = NO_GLUE
    language: str = ""
    is_kept: bool = True


def escaped_start(text: str) -> str:
    """Returns a line that is read as a paragraph, whatever its first characters are."""
    if text[:1].isalpha() or (match := _START.match(text)) is None:
        return text
    end = len(match[1] or "")
    return f"{text[:end]}\\{text[end:]}"


def _inner_markdown(block: MarkdownBlock) -> str:
    """Returns the Markdown of the text in a block, without the marks of a heading or of code."""
    text, kind = block.text, block.kind
    if len(text) > _LONGEST:
        text = text[:_LONGEST]
        return text if kind == CODE else escaped_start(escaped(collapsed(text)))
    if kind == CODE:
        return text
    if block.marks:
        with_signs = kind != IMAGE and is_special(text)
        text = clean(marked(block.pieces, block.marks, with_signs=with_signs))
    elif block.pieces:
        text = clean("".join(map(escaped, block.pieces)))
    text = collapsed(text)
    if kind not in (PARAGRAPH, IMAGE):
        return text
    if text[:1] == "[" and _REFERENCE.match(text):  # a link that begins with code; code cannot be escaped
        text = escaped(collapsed(block.text))
    return escaped_start(text)


def rendered(blocks: Iterable[MarkdownBlock]) -> str:
    """Returns the Markdown of the blocks that are kept, of at most MAX_TEXT characters."""
    made: list[str] = []
    before: Container | None = None
    left = MAX_TEXT
    for lines, container in _with_tables(_joined(blocks)):
        between = separation(before, container) if made else None
        if container is not None:
            lines = _inside(lines, container)
        if between is not None:
            lines.insert(0, between)
        left -= sum(map(len, lines)) + len(lines)
        if left < 0:
            break
        made += lines
        before = container
    return "\n".join(made)


def _inside(lines: list[str], container: Container) -> list[str]:
    """Returns lines with the prefixes of their container."""
    first, rest = container.begin() + lines[0], container.rest
    if len(lines) == 1:
        return [first]
    empty = rest.rstrip()
    return [first, *[rest + line if line else empty for line in lines[1:]]]


def _joined(blocks: Iterable[MarkdownBlock]) -> list[MarkdownBlock]:
    """Returns the kept blocks; blocks of the same paragraph are joined."""
    joined: list[MarkdownBlock] = []
    more: list[str] = []
    was_kept = False
    for block in blocks:
        if block.is_kept:
            block.text = _inner_markdown(block)
            if was_kept and block.glue and _can_follow(last := joined[-1], block):
                if last.kind == IMAGE:
                    last.kind = block.kind  # an image at the start of a heading
                more += (block.glue if last.kind in _KEEP_LINES else " ", block.text)
            else:
                if more:
                    joined[-1].text += "".join(more)
                    more = []
                joined.append(block)
        was_kept = block.is_kept
    if more:
        joined[-1].text += "".join(more)
    return joined


def _can_follow(last: MarkdownBlock, block: MarkdownBlock) -> bool:
    if last.container is not block.container or last.cell is not block.cell:
        return False
    return (last.kind == CODE) == (block.kind == CODE)


def _with_tables(blocks: Iterable[MarkdownBlock]) -> Iterator[tuple[list[str], Container | None]]:
    """Yields the lines of each block or table, and its container."""
    waiting: list[MarkdownBlock] = []
    for block in blocks:
        if waiting and (block.cell is None or block.cell.table is not _table_of(waiting[0])):
            yield from _table(waiting)
            waiting = []
        if block.cell is None:
            yield _lines(block), block.container
        else:
            waiting.append(block)
    if waiting:
        yield from _table(waiting)


def _table_of(block: MarkdownBlock) -> MarkdownTable | None:
    return block.cell.table if block.cell is not None else None


def _table(blocks: list[MarkdownBlock]) -> Iterator[tuple[list[str], Container | None]]:
    """Yields the lines of a table, or of its blocks if the table only arranges the page."""
    table = _table_of(blocks[0])
    assert table is not None
    for block in blocks:
        if block.cell is not None:
            block.cell.texts.append(block.text)
    lines = table.lines()
    if lines:
        yield lines, table.container
    else:
        for block in blocks:
            yield _lines(block), block.container


def _lines(block: MarkdownBlock) -> list[str]:
    text, kind = block.text, block.kind
    if kind in (PARAGRAPH, IMAGE):
        if "\n" not in text:
            return [text]
        first, *rest = text.split("\n")
        return [first, *map(escaped_start, rest)]
    if kind == CODE:
        code = (
            (text.expandtabs(8) if "\t" in text else text).rstrip().lstrip("\n").replace("\r", "").split("\n")
        )
        runs = _FENCES.findall(text) if "```" in text else ()
        fence = "`" * max(3, 1 + max(map(len, runs), default=0))
        return [fence + block.language, *map(str.rstrip, code), fence]
    return [f"{'#' * kind} {_LAST_SIGNS.sub(_ESCAPED_SIGNS, text) if text.endswith('#') else text}"]
