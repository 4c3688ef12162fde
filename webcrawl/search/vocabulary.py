"""The words of an index with the numbers of their pages, and the words that are written nearly as another word.

    words.npz    the file in the folder of an index: written after each update that changes the index

The words are sorted. Each has a mask: a bit for each of its characters modulo 64. An edit changes at most two bits, so
most words are ruled out by their length and mask before they are compared.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from webcrawl.search.schema import FORMS

LEAST, MOST = 3, 30
"""The characters of a word in the vocabulary."""
_LONG = 8
"""The characters from which a word may have two typing errors."""
_MOST_COMPARED = 4_000
_FILE = "words.npz"
_MOST_WORDS = 1_000_000


def has_vocabulary(folder: Path) -> bool:
    return (folder / _FILE).exists()


class SimilarWord(NamedTuple):
    """A word like the word of a query: how many edits apart they are, and in how many pages it is."""

    word: str
    distance: int
    pages: int


class Vocabulary:
    """The words of an index. `pages`: how many pages have each word."""

    def __init__(self, text: str, ends: npt.NDArray[np.int64], pages: npt.NDArray[np.uint32]) -> None:
        self._text, self._ends, self._pages = text, ends, pages
        self._sizes = np.diff(ends, prepend=0)
        self._masks: npt.NDArray[np.uint64] = np.empty(0, np.uint64)

    @classmethod
    def of(cls, words: Sequence[tuple[str, int]]) -> Self:
        """Makes a vocabulary of words, folded to their letters without accents, and their numbers of pages."""
        kept = [pair for pair in words if LEAST <= len(pair[0]) <= MOST and _is_word(pair[0])]
        kept = sorted(kept, key=lambda pair: -pair[1])[:_MOST_WORDS]
        ends = np.cumsum(np.array([len(word) for word, _ in kept], np.int64))
        made = cls("".join(word for word, _ in kept), ends, np.array([count for _, count in kept], np.uint32))
        made._masks = _masks([without_accents(word) for word, _ in kept])
        return made

    @classmethod
    def of_index(cls, searcher: Any) -> Self:
        """Makes the vocabulary of an index: the words among its most frequent terms.

        Most terms of a large index are numbers and words of a single page, so without the limit memory would grow.
        """
        return cls.of(searcher.terms_with_prefix(FORMS, "", limit=_MOST_WORDS))

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """Returns the vocabulary of an index; None if the file is missing or damaged."""
        try:
            with np.load(folder / _FILE) as stored:
                made = cls(bytes(stored["text"]).decode(), stored["ends"], stored["pages"])
                made._masks = stored["masks"]
        except (OSError, ValueError, KeyError):
            return None
        return made

    def write(self, folder: Path) -> None:
        unfinished = folder / f"unfinished-{_FILE}"
        text = np.frombuffer(self._text.encode(), np.uint8)
        np.savez(unfinished, text=text, ends=self._ends, pages=self._pages, masks=self._masks)
        unfinished.rename(folder / _FILE)

    def __len__(self) -> int:
        return len(self._ends)

    def similar(self, word: str) -> list[SimilarWord]:
        """Returns the words that are the fewest edits away from `word`: one at most, or two if `word` is long.

        An edit inserts, deletes or replaces a character, or swaps two neighbours. Accents do not count.
        """
        folded = without_accents(word.lower())
        for distance in range(1, 1 + (len(folded) >= LEAST + 1) + (len(folded) >= _LONG)):
            if near := self._within(folded, distance):
                return [similar for similar in near if similar.word != word.lower()]
        return []

    def _within(self, word: str, most: int) -> list[SimilarWord]:
        differing = np.bitwise_count(self._masks ^ _masks([word]))
        near = (differing <= 2 * most) & (abs(self._sizes - len(word)) <= most)
        # the words of the most pages come first
        chosen = np.flatnonzero(near)[:_MOST_COMPARED]
        words = [
            self._text[end - size : end]
            for end, size in zip(self._ends[chosen], self._sizes[chosen], strict=True)
        ]
        distances = edits(word, [without_accents(other) for other in words])
        return [
            SimilarWord(other, int(distance), int(self._pages[index]))
            for other, distance, index in zip(words, distances, chosen, strict=True)
            if distance <= most
        ]


def edits(word: str, others: Sequence[str]) -> npt.NDArray[np.int64]:
    """Returns how many edits lead from a word to each other word: the optimal string alignment distance.

    Source: Boytsov, "Indexing methods for approximate dictionary searching", 2011, section 2.2.1. A row of the table
    is computed for all words at once.
    """
    if not others:
        return np.empty(0, np.int64)
    longest = max(map(len, others))
    signs = np.array(others, f"U{max(1, longest)}").view(np.uint32).reshape(len(others), -1)
    columns = np.arange(longest + 1)
    rows = [np.broadcast_to(columns, (len(others), longest + 1)).astype(np.int64)]
    for number, sign in enumerate(word, 1):
        above = rows[-1]
        row = np.empty_like(above)
        row[:, 0] = number
        row[:, 1:] = np.minimum(above[:, 1:] + 1, above[:, :-1] + (signs != ord(sign)))
        if number > 1:
            is_swap = (signs[:, 1:] == ord(word[number - 2])) & (signs[:, :-1] == ord(sign))
            swapped = np.where(is_swap, rows[-2][:, :-2] + 1, row[:, 2:])
            row[:, 2:] = np.minimum(row[:, 2:], swapped)
        # an insertion adds one for each column: the least of the columns before, less their numbers
        row = np.minimum.accumulate(row - columns, axis=1) + columns
        rows = [above, row]
    last: npt.NDArray[np.int64] = rows[-1][np.arange(len(others)), [len(other) for other in others]]
    return last


def without_accents(text: str) -> str:
    """Returns a text without accents."""
    if text.isascii():
        return text
    return "".join(sign for sign in unicodedata.normalize("NFD", text) if not unicodedata.combining(sign))


def _is_word(text: str) -> bool:
    return text.isalpha() and not "\ua717" <= max(text) <= "\ua719"


def _masks(words: Sequence[str]) -> npt.NDArray[np.uint64]:
    """Returns the masks of words that have a character or more."""
    if not words:
        return np.empty(0, np.uint64)
    signs = np.frombuffer("".join(words).encode("utf-32-le"), np.uint32)
    starts = np.cumsum([0, *map(len, words[:-1])])
    return np.bitwise_or.reduceat(np.uint64(1) << (signs & 63).astype(np.uint64), starts)
