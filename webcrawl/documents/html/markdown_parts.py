"""Finds the blocks of a page that make up its main part, by their text."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import TypeAlias

from selectolax.lexbor import LexborNode

from webcrawl.documents.html.markdown_blocks import IMAGE, Block
from webcrawl.documents.html.text_lines import lines_of

# A line of so many characters is hardly in the page twice: it finds the place again where the order was lost.
_LONG = 40
# So many of the lines must be found.
_LEAST = 0.9

Lines: TypeAlias = tuple[str, ...]


def outside(node: LexborNode, tags: Collection[int]) -> LexborNode:
    """Returns the element around all elements of these kinds that a node is or is in, or else the node itself."""
    found = node
    above: LexborNode | None = node
    while above is not None:
        if above.tag_id in tags:
            found = above.parent or above
        above = above.parent
    return found


def keep_main_part(blocks: Sequence[Block], main_text: str) -> bool:
    """Keeps the blocks whose text is in the main part, and its images; returns whether nearly all of it was found.

    The lines of the main part are those of its blocks, in their order. A line may be in the page several times (its
    title is often in a menu too), so the search begins at the longest one and goes on to both sides.
    """
    wanted = lines_of(main_text)
    texts = [block for block in blocks if block.lines]
    for block in blocks:
        block.is_kept = False
    place = _longest(texts, wanted)
    if place is None:
        return False
    number, line = place
    found = _keep([(block, block.lines) for block in texts[number:]], wanted[line:])
    found += _keep([(block, block.lines[::-1]) for block in texts[:number][::-1]], wanted[:line][::-1])
    was_kept = False
    for block in blocks:
        if block.kind == IMAGE:
            block.is_kept = was_kept
        else:
            was_kept = block.is_kept
    return found >= _LEAST * len(wanted)


def _longest(texts: Sequence[Block], wanted: Lines) -> tuple[int, int] | None:
    """Returns the number of the block with the longest line, and the line at which this block begins."""
    longest = max(wanted, key=len, default="")
    place = wanted.index(longest) if wanted else 0
    for number, block in enumerate(texts):
        if longest in block.lines:
            start = place - block.lines.index(longest)
            if start >= 0 and wanted[start : start + len(block.lines)] == block.lines:
                return number, start
    return None


def _keep(texts: Iterable[tuple[Block, Lines]], wanted: Lines) -> int:
    """Keeps the blocks whose lines come next; returns the number of lines that were found."""
    places: dict[str, list[int]] = defaultdict(list)
    for number, line in enumerate(wanted):
        if len(line) >= _LONG:
            places[line].append(number)
    at = found = 0
    for block, lines in texts:
        if at == len(wanted):
            break
        start = at
        if wanted[at] != lines[0]:
            later = places.get(lines[0], ())
            if (next_one := bisect_left(later, at)) == len(later):
                continue
            start = later[next_one]
        if wanted[start : start + len(lines)] == lines:
            block.is_kept = True
            found += len(lines)
            at = start + len(lines)
    return found
