"""Corrects words of a query that few pages have: they are replaced by similar words with which pages are found."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from itertools import islice, product
from typing import Any

from webcrawl.search.schema import FORMS, TEXTS
from webcrawl.search.vocabulary import LEAST, SimilarWord, Vocabulary, without_accents
from webcrawl.search.words import analyzer, forms

RARE = 2
"""A word in more pages is not corrected."""
_OFTEN = 20
"""How many times as many pages a word needs that replaces a word which some pages have."""
_MOST_SIMILAR = 6
_MOST_TRIED = 12
_CHARACTER, _FIRST = 0.6, 2.0
"""The weights, in doublings of pages, of a differing set of characters and of another first letter."""

_UNLIKELY = -100.0

# left as they are: quoted texts, required and excluded words, prefixes, words with digits, values of fields, operators
_WORD = re.compile(
    r'"(?:[^"\\]|\\.)*"|(?<![^\s(])[-+]\S+|NOT\s+\S+|\b(?:AND|OR|TO|IN)\b'
    r"|(?:(?P<field>\w+):)?(?<![^\W_])(?<![\^~])(?P<word>[^\W\d_]+)(?![^\W_]|[*:+#])"
)


class Spelling:
    """Corrections for the words of an index. `languages`: those of its pages."""

    def __init__(self, searcher: Any, vocabulary: Vocabulary, languages: Sequence[str]) -> None:
        self._searcher, self._vocabulary = searcher, vocabulary
        self._languages = languages

    def corrected(self, query: str, number_of_pages: Callable[[str], int], least: int = 1) -> str | None:
        """Returns a `searchable` query with other words, for which at least `least` pages are found; None if none is.

        The most likely words are tried first.
        """
        matches = [match for match in _WORD.finditer(query) if match["word"] and _is_text(match["field"])]
        choices: list[tuple[re.Match[str], list[tuple[float, str]]]] = []
        for match in matches:
            if similar := self._similar(match["word"]):
                choices.append((match, similar))
        tried = sorted(
            islice(product(*(similar for _, similar in choices)), 1_000),
            key=lambda words: -sum(likelihood for likelihood, _ in words),
        )
        for words in tried[:_MOST_TRIED] if choices else ():
            candidate = _replaced(query, [match for match, _ in choices], [word for _, word in words])
            if number_of_pages(candidate) >= least:
                return candidate
        return None

    def _similar(self, word: str) -> list[tuple[float, str]]:
        """Returns the words that may be meant, each with its likelihood as a logarithm; [] for a known word."""
        number = self._pages(word)
        if len(word) <= LEAST or number > RARE:
            return []
        similar = [
            (self._likelihood(word, other), other.word)
            for other in self._vocabulary.similar(word)
            if other.pages >= max(1, number * _OFTEN)
        ]
        similar = sorted(similar, reverse=True)[:_MOST_SIMILAR]
        # the word itself is kept where it is in some pages, and other words are wrong
        return [*similar, (_UNLIKELY, word)] if number and similar else similar

    def _pages(self, word: str) -> int:
        """Returns how many pages have a word as it is written, or inflected."""
        (lower,) = forms(word)[:1] or [""]
        number: int = self._searcher.doc_freq(FORMS, lower)
        if number:
            return number
        stems = {stem for language in self._languages for stem in analyzer(language, word).analyze(word)}
        return max((self._searcher.doc_freq(field, stem) for stem in stems for field in TEXTS), default=0)

    def _likelihood(self, word: str, other: SimilarWord) -> float:
        folded, likely = without_accents(word.lower()), without_accents(other.word)
        changed = len({*folded} ^ {*likely})
        return math.log2(1 + other.pages) - _CHARACTER * changed - _FIRST * (folded[0] != likely[0])


def _is_text(field: str | None) -> bool:
    return field is None or field in TEXTS


def _replaced(query: str, matches: Sequence[re.Match[str]], words: Sequence[str]) -> str:
    parts, done = [], 0
    for match, word in zip(matches, words, strict=True):
        parts += [query[done : match.start("word")], word]
        done = match.end("word")
    return "".join([*parts, query[done:]])
