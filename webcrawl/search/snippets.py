"""The part of a text with the most words of a query.

tantivy cuts the snippet, but that takes 2 ms for a long text. So it gets only the passage in which the beginnings of
the most and rarest words are close to each other.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from webcrawl.search.entry import IndexedPage
from webcrawl.search.folder import use_words_of
from webcrawl.search.schema import FORMS, schema, tantivy
from webcrawl.search.words import as_typed, forms, searchable

SNIPPET = 200
"""The approximate characters of a snippet."""
_LONGEST = 400_000
"""The characters of a text that are searched."""
_FIRST = 20_000
"""The characters that are searched if no word of the query begins in the text as it is written."""
_MOST_STARTS = 100
_NO_WORDS = re.compile(r"\b(?:AND|OR|NOT|TO|IN)\b|\w+:(?=\S)|(?<=[\"\w)])[\^~]\d+")


class Snippets:
    """Finds the snippets for a query. `asked`: the `searchable` query as it is written."""

    def __init__(self, index: Any, searcher: Any, query: Any, asked: str) -> None:
        self._index = index
        self._generator = tantivy().SnippetGenerator.create
        self._about = (searcher, query, schema(), "text")
        total = searcher.num_docs + 1
        self._beginnings: dict[str, float] = {}
        for word in forms(_NO_WORDS.sub(" ", asked)):
            rarity = math.log(1 + total / (1 + searcher.doc_freq(FORMS, word)))
            self._beginnings[_beginning(as_typed(word) or "")] = rarity

    def of(self, entry: IndexedPage, text: str) -> tuple[str, list[tuple[int, int]]]:
        """Returns the best part as one line, and the marks of words in it; the start of the text if it has no word."""
        text = text or entry.description or ""
        start, end = self._passage(text[:_LONGEST].replace("\u0130", "I")) or (0, _FIRST)
        searched = searchable(text[start:end])
        use_words_of(self._index, entry.language, searched)
        generator = self._generator(*self._about)
        generator.set_max_num_chars(SNIPPET)
        document = tantivy().Document()
        document.add_text("text", searched)
        snippet = generator.snippet_from_doc(document)
        if marks := [(span.start, span.end) for span in snippet.highlighted()]:
            return _line(snippet.fragment(), marks, _as_written(snippet.fragment(), searched, text, start))
        return " ".join(text[:SNIPPET].split()), []

    def _passage(self, text: str) -> tuple[int, int] | None:
        """Returns the start and end of the passage around the best window of SNIPPET characters, at white space."""
        lower = text.lower()
        if len(lower) != len(text):
            return None
        starts = sorted(
            (start, beginning) for beginning in self._beginnings for start in _starts(lower, beginning)
        )
        best, window, first = (0.0, 0), dict.fromkeys(self._beginnings, 0), 0
        for start, beginning in starts:
            window[beginning] += 1
            while starts[first][0] < start - SNIPPET:
                window[starts[first][1]] -= 1
                first += 1
            value = sum(self._beginnings[other] for other, number in window.items() if number)
            if value > best[0]:
                best = value, starts[first][0]
        if not best[0]:
            return None
        begin, end = max(0, best[1] - SNIPPET), best[1] + 2 * SNIPPET
        space = text.find(" ", begin, best[1]) if begin else -1
        return (begin if space < 0 else space + 1), end


def _beginning(word: str) -> str:
    """Returns the characters of a word that its inflections have too, most often."""
    return word[: max(4, len(word) - 3)]


def _starts(lower: str, beginning: str) -> list[int]:
    """Returns where words begin with some characters, up to _MOST_STARTS times."""
    starts: list[int] = []
    start = lower.find(beginning)
    while start >= 0 and len(starts) < _MOST_STARTS:
        if not start or not lower[start - 1].isalnum() or not beginning.isascii():
            starts.append(start)
        start = lower.find(beginning, start + 1)
    return starts


def _as_written(fragment: str, searched: str, text: str, start: int) -> str:
    """Returns a fragment as the text writes it. `searched` is the searched part, which begins at `start`."""
    offset = start + searched.find(fragment)
    return text[offset : offset + len(fragment)]


def _line(fragment: str, marks: Sequence[tuple[int, int]], written: str) -> tuple[str, list[tuple[int, int]]]:
    """Returns a text as one line, and its marks, converted from offsets in UTF-8 to offsets in characters.

    Marks that touch are joined, for example the marks of a phrase in Chinese.
    """
    raw = fragment.encode()
    joined: list[tuple[int, int]] = []
    for mark in sorted({*marks}):
        start, end = (len(raw[:offset].decode("utf-8", "ignore")) for offset in mark)
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return "".join(" " if sign.isspace() else sign for sign in written), joined
