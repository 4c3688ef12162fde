"""The blocks of Markdown: paragraphs, headings, code and images, in their containers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from webcrawl.documents.html.markdown_containers import Container, separation
from webcrawl.documents.html.markdown_tables import Cell, Table
from webcrawl.documents.mime.facts import MAX_TEXT

PARAGRAPH, CODE, IMAGE = 0, 7, 8
"""Kinds of blocks; 1 to 6 are the levels of headings."""

# A list, heading, quotation, rule, underline or table would begin here.
_START = re.compile(r"#{1,6}(?=\s|$)|[-+](?=[\s-]|$)|>|=+\s*$|:(?=-)|(\d{1,9})[.)](?=\s|$)")
_FENCES = re.compile("`{3,}")
_LAST_SIGNS = re.compile(r"(?<![^\s])(#+)$")


class Glue(Enum):
    """What is between a block and the one before it: a new paragraph begins, or the same one goes on."""

    NONE = ""
    BREAK = "\\\n"
    LINE = "\n"
    SPACE = " "


@dataclass(slots=True)
class Block:
    """A block of text, or an image.

    text       Markdown without the marks of the block
    lines      the lines of the page that it was made of, to compare them with the main part
    glue       how it follows the block before it
    language   of code
    is_kept    it is in the main part
    """

    text: str
    kind: int
    lines: tuple[str, ...]
    container: Container | None = None
    cell: Cell | None = None
    glue: Glue = Glue.NONE
    language: str = ""
    is_kept: bool = True


def escaped_start(text: str) -> str:
    """Returns a line that is a paragraph whatever it begins with."""
    match = _START.match(text)
    if match is None:
        return text
    end = len(match[1] or "")
    return f"{text[:end]}\\{text[end:]}"


def rendered(blocks: Iterable[Block]) -> str:
    """Returns the Markdown of the blocks that are kept, of at most MAX_TEXT characters."""
    made: list[str] = []
    before: Container | None = None
    left = MAX_TEXT
    for lines, container in _with_tables(_joined(blocks)):
        begun: list[str] = []
        if made and (between := separation(before, container)) is not None:
            begun.append(between)
        first = container.begin() if container is not None else ""
        rest = container.rest if container is not None else ""
        begun.append(first + lines[0])
        begun += [(rest + line).rstrip() if not line else rest + line for line in lines[1:]]
        left -= sum(map(len, begun)) + len(begun)
        if left < 0:
            break
        made += begun
        before = container
    return "\n".join(made)


def _joined(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yields the blocks that are kept, each with those that belong to the same paragraph."""
    last: Block | None = None
    more: list[str] = []
    was_kept = False
    for block in blocks:
        if block.is_kept:
            if was_kept and last is not None and block.glue is not Glue.NONE and _can_follow(last, block):
                glue = block.glue.value if last.kind in (PARAGRAPH, IMAGE, CODE) else " "
                more += (glue, block.text)
            else:
                if last is not None:
                    last.text += "".join(more)
                    yield last
                last, more = block, []
        was_kept = block.is_kept
    if last is not None:
        last.text += "".join(more)
        yield last


def _can_follow(last: Block, block: Block) -> bool:
    if last.container is not block.container or last.cell is not block.cell:
        return False
    return (last.kind == CODE) == (block.kind == CODE)


def _with_tables(blocks: Iterable[Block]) -> Iterator[tuple[list[str], Container | None]]:
    """Yields the lines of each block or table, and its container."""
    waiting: list[Block] = []
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


def _table_of(block: Block) -> Table | None:
    return block.cell.table if block.cell is not None else None


def _table(blocks: list[Block]) -> Iterator[tuple[list[str], Container | None]]:
    """Yields the lines of a table, or of its blocks if it is only there for the layout."""
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


def _lines(block: Block) -> list[str]:
    if block.kind == CODE:
        code = block.text.expandtabs(8).rstrip().lstrip("\n").replace("\r", "").split("\n")
        runs = _FENCES.findall(block.text)
        fence = "`" * max(3, 1 + max(map(len, runs), default=0))
        return [fence + block.language, *(line.rstrip() for line in code), fence]
    if block.kind in (PARAGRAPH, IMAGE):
        first, *rest = block.text.split("\n")
        return [first, *(escaped_start(line) for line in rest)]
    return ["#" * block.kind + " " + _LAST_SIGNS.sub(r"\\\1", block.text)]
