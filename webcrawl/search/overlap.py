"""How much of a text another one has: shingles of words that both have, and the passages that they make up.

Source: Broder, "On the resemblance and containment of documents", SEQUENCES 1997.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

SHINGLE = 6
"""Words of a shingle. Fewer are common phrases; more miss copies with a changed word here and there."""

_WORD = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]|"
    "[^\\W_\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]+"
)
"""A word, or a character of a script without spaces."""


class Word(NamedTuple):
    """A word in lower case, and its place in the text."""

    text: str
    start: int
    end: int


class Passage(NamedTuple):
    """A run of words that both texts have: their number, and how the first text has them."""

    words: int
    text: str


class Overlap(NamedTuple):
    """The share of the words of the first text that are in shingles of both, and the passages, the longest first.

    `words` is the number of words of the other text.
    """

    share: float
    passages: list[Passage]
    words: int


def words_of(text: str) -> list[Word]:
    """Returns the words of a text, in order."""
    return [Word(found[0].lower(), *found.span()) for found in _WORD.finditer(text)]


class Original:
    """A text that is looked for in others."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.words = words_of(text)
        self._size = min(SHINGLE, max(1, len(self.words)))
        self._places: dict[int, list[int]] = {}
        for place, shingle in enumerate(_shingles([word.text for word in self.words], self._size)):
            self._places.setdefault(shingle, []).append(place)

    def overlap(self, other: str) -> Overlap:
        """Returns how much of this text the other one has."""
        covered = bytearray(len(self.words))
        theirs = [word.text for word in words_of(other)]
        found = self._places.keys() & _shingles(theirs, self._size)
        for shingle in found:
            for place in self._places[shingle]:
                covered[place : place + self._size] = b"\1" * self._size
        passages = [
            Passage(end - start, self.text[self.words[start].start : self.words[end - 1].end])
            for start, end in _runs(covered)
        ]
        passages.sort(key=lambda one: -one.words)
        return Overlap(sum(covered) / max(1, len(covered)), passages, len(theirs))


def _shingles(words: list[str], size: int) -> Iterator[int]:
    """Yields a hash of each run of `size` words."""
    for place in range(len(words) - size + 1):
        yield hash(tuple(words[place : place + size]))


def _runs(covered: bytearray) -> Iterator[tuple[int, int]]:
    """Yields the first place of each run of ones, and the place behind it."""
    for found in re.finditer(b"\1+", covered):
        yield found.span()
