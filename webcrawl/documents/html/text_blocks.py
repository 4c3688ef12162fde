"""Tells the blocks of text that a page is about from boilerplate, by their numbers of words and links.

Source: Kohlschütter, Fankhauser, Nejdl, "Boilerplate detection using shallow text features", WSDM 2010, algorithm 2.
"""

from __future__ import annotations

import re
from itertools import compress
from typing import NamedTuple

from webcrawl.documents.html.text import BLOCK, LINK, LINK_END, clean

# So many short blocks in a row (headings, one-line paragraphs) belong to the text around them.
_MAX_SHORT_BLOCKS = 4
# A block of no more words is short.
_SHORT = 16
# Chinese and Japanese do not separate words: two characters are about one word.
_IDEOGRAPH = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")
_MAX_IDEOGRAPHS = 200


class _Block(NamedTuple):
    """A block of text, its number of words, and how many of them are in links."""

    text: str
    words: int
    linked: int


def dense_text(text: str) -> str:
    """Returns the blocks of a text that are dense with words and not with links, one a line.

    `text` is a joined walk with BLOCK, LINK and LINK_END.
    """
    blocks = _blocks(text)
    edge = _Block("", 0, 0)
    kept = list(map(_is_content, [edge, *blocks], blocks, [*blocks[1:], edge]))
    _settle_short_ones(blocks, kept)
    return clean("\n".join([block.text for block in compress(blocks, kept)]))


def word_count(text: str, enough: int) -> int:
    """Returns the number of words of a text; counting may stop at `enough`."""
    count = len(text.split(None, enough)[:enough])
    return count if count >= enough or text.isascii() else count + _unseparated_words(text)


def _blocks(text: str) -> list[_Block]:
    blocks: list[_Block] = []
    inside = False
    for part in text.split(BLOCK):
        if not part or part.isspace():
            continue
        linked = -1
        if LINK in part or LINK_END in part:
            linked, inside = _linked(part, inside)
            part = part.replace(LINK, "").replace(LINK_END, "")
        words = part.split()
        count = len(words) if part.isascii() else len(words) + _unseparated_words(part)
        if words:
            blocks.append(_Block(part, count, count * inside if linked < 0 else min(linked, count)))
    return blocks


def _linked(part: str, inside: bool) -> tuple[int, bool]:
    """Returns how many words of a block are in links, and whether it ends within one.

    `inside`: the block begins within a link.
    """
    count = 0
    for number, piece in enumerate(part.split(LINK)):
        before, end, _ = piece.partition(LINK_END)
        if number or inside:
            count += _words(before)
        inside = (number > 0 or inside) and not end
    return count, inside


def _words(text: str) -> int:
    count = len(text.split())
    return count if text.isascii() else count + _unseparated_words(text)


def _unseparated_words(text: str) -> int:
    """Returns about how many words no space separates; only small numbers matter."""
    return len(_IDEOGRAPH.findall(text[:_MAX_IDEOGRAPHS])) // 2


def _is_content(before: _Block, block: _Block, after: _Block) -> bool:
    """The paper's decision tree over the numbers of words and the link densities of three blocks in a row."""
    if 3 * block.linked > block.words:
        return False
    if 9 * before.linked <= 5 * before.words:
        return block.words > _SHORT or after.words > 15 or before.words > 4
    return block.words > 40 or after.words > 17


def _settle_short_ones(blocks: list[_Block], kept: list[bool]) -> None:
    """Keeps the few blocks between two kept ones unless they are links; drops short blocks at the end.

    The former are headings and short paragraphs; the latter usually follow an article.
    """
    last = len(blocks)
    for place in [place for place, one in enumerate(kept) if one]:
        if 1 < place - last <= _MAX_SHORT_BLOCKS + 1:
            for between in range(last + 1, place):
                kept[between] = 3 * blocks[between].linked <= blocks[between].words
        last = place
    while last < len(blocks) and last >= 0 and not (kept[last] and blocks[last].words > _SHORT):
        kept[last] = False
        last -= 1
