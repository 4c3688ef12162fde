"""Finds the blocks of a page that make up its main part, by their text."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from typing import TypeAlias

from selectolax.lexbor import LexborNode

from webcrawl.documents.html.markdown_blocks import IMAGE, Block
from webcrawl.documents.html.text_lines import lines_of, stripped_lines
from webcrawl.documents.mime.facts import MAX_TEXT

# So many of the lines must be found.
_LEAST = 0.9
# How often ranges are divided at blocks that are once in them. Each time takes as long as the first.
_MOST_ROUNDS = 4
# A block that is no anchor is looked for in so many lines after the one before; further ahead it is another one.
_FAR = 200
# Of the places that begin with its first line, so many are compared with a block.
_MOST_PLACES = 20

# what follows the last line of a block, in the text of the main part
_end_of_block = re.compile(r"[^\S\n]*(?:\n\s*|\Z)").match

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

    The lines of the main part are those of its blocks, in their order. A line may be in the page several times: a title
    in a menu too, the same import in each example. So blocks that are there once are found first, and the others
    between them, as in the "patience diff" of Bram Cohen (2009).
    """
    is_found = _keep_in_order(blocks, main_text) or _keep_aligned(blocks, main_text)
    was_kept = False
    for block in blocks:
        if block.kind == IMAGE:
            block.is_kept = was_kept
        else:
            was_kept = block.is_kept
    return is_found


def _keep_in_order(blocks: Sequence[Block], main_text: str) -> bool:
    """Keeps the blocks that are all of the main part, one after another; returns whether that is so, as it mostly is.

    It is not so if other blocks could be kept as well. The last block may be longer than what is left of a text that
    was cut.
    """
    place = len(main_text) - len(main_text.lstrip())
    is_cut = len(main_text) >= MAX_TEXT
    others: list[str] = []
    for block in blocks:
        if block.kind == IMAGE:
            continue
        text = block.text.strip()
        block.is_kept = main_text.startswith(text, place)
        if block.is_kept:
            end = _end_of_block(main_text, place + len(text))
            if end is None:
                return False
            place = end.end()
        elif is_cut and _begins_with_rest(text, main_text, place):
            block.is_kept, place = True, len(main_text)
        else:
            others.append(text)
    if place < len(main_text) or not main_text:
        return False
    if is_cut or not others:
        return True
    first_lines = {text.partition("\n")[0].rstrip() for text in others}
    return first_lines.isdisjoint(stripped_lines(main_text)) or _is_only_way(blocks, main_text)


def _begins_with_rest(text: str, main_text: str, place: int) -> bool:
    rest = len(main_text) - place
    return 0 < rest <= len(text) and text.startswith(main_text[place:].rstrip())


def _is_only_way(blocks: Sequence[Block], main_text: str) -> bool:
    """Returns whether the blocks that are kept are also those that are found from the end."""
    place = len(main_text.rstrip())
    for block in reversed(blocks):
        if block.kind == IMAGE:
            continue
        text = block.text.strip()
        start = place - len(text)
        is_there = start >= 0 and main_text.startswith(text, start)
        if is_there:
            before = start
            while before and main_text[before - 1].isspace():
                before -= 1
            is_there = not before or "\n" in main_text[before:start]
        if is_there != block.is_kept:
            return False
        if is_there:
            place = before
    return True


def _keep_aligned(blocks: Sequence[Block], main_text: str) -> bool:
    """Keeps the blocks whose lines are found in the main part; returns whether nearly all lines are."""
    wanted = lines_of(main_text)
    lines_in_main = frozenset(wanted)
    texts: list[Block] = []  # the others are not in the main part
    for block in blocks:
        block.is_kept = False
        if block.kind != IMAGE:
            block.lines = lines_of(block.text)
            if block.lines[0] in lines_in_main:
                texts.append(block)
    return _Alignment(texts, wanted).keep() >= _LEAST * len(wanted) > 0


class _Alignment:
    """Finds blocks in the lines of the main part. Ranges of blocks and lines are from a number to before another."""

    def __init__(self, texts: Sequence[Block], wanted: Lines) -> None:
        self._texts = texts
        self._wanted = wanted
        self._places: dict[str, list[int]] = defaultdict(list)
        for number, line in enumerate(wanted):
            self._places[line].append(number)

    def keep(self) -> int:
        """Keeps the blocks that are found; returns the number of their lines."""
        found = 0
        left = [(0, len(self._texts), 0, len(self._wanted), 0)]
        while left:
            first, last, start, end, depth = left.pop()
            anchors = _in_order(self._anchors(first, last, start, end)) if depth < _MOST_ROUNDS else []
            if not anchors:
                found += self._keep_between(first, last, start, end)
                continue
            for number, place in anchors:
                if first < number and start < place:
                    left.append((first, number, start, place, depth + 1))
                found += self._keep(number)
                first, start = number + 1, place + len(self._texts[number].lines)
            if first < last and start < end:
                left.append((first, last, start, end, depth + 1))
        return found

    def _anchors(self, first: int, last: int, start: int, end: int) -> list[tuple[int, int, int]]:
        """Returns the blocks that are once in a range, and their first line once in the lines: number, line, end."""
        times = Counter([block.lines for block in self._texts[first:last]])
        wanted, places_of, found = self._wanted, self._places.get, []
        for number in range(first, last):
            lines = self._texts[number].lines
            places = places_of(lines[0])
            if places is None or times[lines] > 1:
                continue
            at = bisect_left(places, start) if places[0] < start else 0
            # the only place in the range
            if at == len(places) or (at + 1 < len(places) and places[at + 1] < end):
                continue
            after = places[at] + len(lines)
            if after <= end and wanted[places[at] : after] == lines:
                found.append((number, places[at], after))
        return found

    def _keep_between(self, first: int, last: int, start: int, end: int) -> int:
        """Keeps blocks of a range that are in a range of lines, one after another.

        What comes before all others, such as the title, may be in a menu too: the block next to the others counts, if
        as many are found from there.
        """
        numbers, found = self._forwards(first, last, start, end)
        if start == 0 and end < len(self._wanted):
            others, found_backwards = self._backwards(first, last, start, end)
            if found_backwards >= found:
                numbers, found = others, found_backwards
        for number in numbers:
            self._keep(number)
        return found

    def _forwards(self, first: int, last: int, start: int, end: int) -> tuple[list[int], int]:
        """Returns the blocks of a range that are the next ones in a range of lines, and the number of their lines."""
        numbers, found = list[int](), 0
        for number in range(first, last):
            if start == end:
                break
            lines = self._texts[number].lines
            if (place := self._next(lines, start, min(end, start + _FAR + len(lines)))) is not None:
                numbers.append(number)
                found += len(lines)
                start = place + len(lines)
        return numbers, found

    def _backwards(self, first: int, last: int, start: int, end: int) -> tuple[list[int], int]:
        """Returns those that are the ones before, from the end of the range."""
        numbers, found = list[int](), 0
        for number in reversed(range(first, last)):
            if start == end:
                break
            lines = self._texts[number].lines
            if (place := self._last(lines, max(start, end - _FAR - len(lines)), end)) is not None:
                numbers.append(number)
                found += len(lines)
                end = place
        return numbers, found

    def _keep(self, number: int) -> int:
        block = self._texts[number]
        block.is_kept = True
        return len(block.lines)

    def _next(self, lines: Lines, start: int, end: int) -> int | None:
        """Returns where lines begin first in a range, as far as few other places begin like them; None if nowhere."""
        places = self._places.get(lines[0], ())
        at = bisect_left(places, start)
        for place in places[at : at + _MOST_PLACES]:
            if place + len(lines) > end:
                break
            if len(lines) == 1 or self._wanted[place : place + len(lines)] == lines:
                return place
        return None

    def _last(self, lines: Lines, start: int, end: int) -> int | None:
        """Returns where lines begin last in a range, in the same way."""
        places = self._places.get(lines[0], ())
        after = bisect_right(places, end - len(lines))
        for place in reversed(places[max(0, after - _MOST_PLACES) : after]):
            if place < start:
                break
            if len(lines) == 1 or self._wanted[place : place + len(lines)] == lines:
                return place
        return None


def _in_order(anchors: Sequence[tuple[int, int, int]]) -> list[tuple[int, int]]:
    """Returns most of the anchors, in the order of blocks and of lines: a longest increasing subsequence.

    By patience sorting; those that overlap with the one before are left out. Most are in order already.
    """
    ends = [0, *[end for _, _, end in anchors]]
    if all(place >= end for (_, place, _), end in zip(anchors, ends, strict=False)):
        return [(number, place) for number, place, _ in anchors]
    lowest, tops = list[int](), list[int]()
    before: list[int] = []
    for number, (_, place, _) in enumerate(anchors):
        pile = bisect_left(lowest, place)
        lowest[pile : pile + 1] = [place]
        tops[pile : pile + 1] = [number]
        before.append(tops[pile - 1] if pile else -1)
    chain, at = list[tuple[int, int, int]](), tops[-1] if tops else -1
    while at >= 0:
        chain.append(anchors[at])
        at = before[at]
    found, free = list[tuple[int, int]](), 0
    for number, place, end in reversed(chain):
        if place >= free:
            found.append((number, place))
            free = end
    return found
