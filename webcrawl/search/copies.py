"""Finds pages with the same text as a given text, with nearly the same text, or with a part of the text.

Candidates are the pages whose SimHash differs in few bits, and the pages with some of the rarest phrases of the text.
Each candidate is then compared with the text word by word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from webcrawl.documents.simhash import simhash64
from webcrawl.documents.simhash_blocks import distance
from webcrawl.errors import ConfigurationError
from webcrawl.search.entry import IndexedPage
from webcrawl.search.folder import damages
from webcrawl.search.schema import schema, tantivy
from webcrawl.search.searching import Search
from webcrawl.search.state import fast_values
from webcrawl.search.words import analyzer, composed, searchable, stemmer
from webcrawl.stores.columns import pages
from webcrawl.stores.metadata import Metadata

PHRASE = 4
"""The words of a searched phrase. A shingle has more words; a phrase ignores inflections and accents."""
PHRASES = 64
"""The number of searched phrases: the text is cut into this many parts, and the rarest phrase of each is used."""
_BITS = 64
CANDIDATES = 200
"""The most candidates: the pages with the most of these phrases."""

SHINGLE = 6
"""The words of a shingle. Shorter shingles are common phrases; longer ones miss copies with single changed words."""
_WORD = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]|"
    "[^\\W_\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]+"
)
"""A word, or a character of a script without spaces."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A page with a part of the text: the share of the text, and the passages.

    distance   the distance of the SimHashes; None if a text is too short for a SimHash
    more       the number of words of the page minus the number of words of the text
    """

    entry: IndexedPage
    share: float
    passages: Sequence[Passage]
    distance: int | None
    more: int

    def order(self) -> tuple[float, int, int, str]:
        """Returns the sort key: the share, then the distance of the whole page from the text, then the URL."""
        apart = _BITS + 1 if self.distance is None else self.distance
        return -self.share, apart, self.more, self.entry.url


def copies_of(
    search: Search, text: str, language: str | None, *, least: float, bits: int, leave_out: str | None = None
) -> list[Copy]:
    """Returns pages with at least a share `least` of the words of a text, in the order of `Copy.order`.

    `bits`: the largest distance of the SimHashes of near-duplicates. `leave_out`: the URL of the text. Raises
    ConfigurationError for a text without words, StoreError for a damaged index.
    """
    original = Original(composed(text))
    if not original.words:
        raise ConfigurationError("the text has no words")
    own = simhash64(text)
    copies: dict[str, Copy] = {}
    with damages(search.folder):
        for address in _candidates(search, original, language, own, bits):
            entry, other = search.page(address)
            if entry.url == leave_out or entry.url in copies:
                continue
            overlap = original.overlap(other)
            if overlap.share >= least:
                apart = None if own is None or entry.simhash is None else distance(own, entry.simhash)
                more = abs(overlap.words - len(original.words))
                copies[entry.url] = Copy(entry, overlap.share, overlap.passages, apart, more)
    return sorted(copies.values(), key=Copy.order)


def unstored(metadata: Metadata, text: str, *, bits: int) -> list[tuple[str, int]]:
    """Returns the pages without a stored text whose SimHash is near: URL and distance, the nearest first.

    For example, pages that the crawl dropped as near-duplicates have no stored text.
    """
    own = simhash64(text)
    if own is None:
        return []
    rows = metadata.scan(where=[pages.c.simhash.is_not(None), pages.c.warc_file.is_(None)])
    near = [(row["url"], apart) for row in rows if (apart := distance(own, row["simhash"])) <= bits]
    return sorted(near, key=lambda pair: (pair[1], pair[0]))


def _candidates(
    search: Search, original: Original, language: str | None, simhash: int | None, bits: int
) -> Iterator[Any]:
    """Yields the addresses of documents that may have a part of the text."""
    query = tantivy().Query
    if simhash is not None:
        keys, hashes = fast_values(search.searcher, "simhash")
        apart = _set_bits(hashes ^ np.uint64(simhash))
        near = np.flatnonzero(apart <= bits)
        if len(near):
            # all near pages would take unbounded memory
            nearest = near[np.argsort(apart[near], kind="stable")][:CANDIDATES]
            terms = query.term_set_query(schema(), "key", [int(key) for key in keys[nearest]])
            yield from (address for _, address in search.searcher.search(terms, CANDIDATES, count=False).hits)
    phrases = [
        query.const_score_query(query.phrase_query(schema(), "text", list(words)), 1.0)
        for words in _phrases(search, original, language)
    ]
    if phrases:
        with_some = query.boolean_query([(tantivy().Occur.Should, phrase) for phrase in phrases])
        yield from (address for _, address in search.searcher.search(with_some, CANDIDATES, count=False).hits)


def _set_bits(numbers: Any) -> Any:
    """Returns the number of bits that are set in each 64-bit number."""
    return np.unpackbits(numbers.view(np.uint8).reshape(-1, 8), axis=1).sum(axis=1)


def _phrases(search: Search, original: Original, language: str | None) -> set[tuple[str, ...]]:
    """Returns the rarest phrases of the text, as stems in its language and as unstemmed words."""
    phrases: set[tuple[str, ...]] = set()
    languages = {stemmer(spelling): spelling for spelling in (language or "", "")}
    text = searchable(original.text)
    for spelling in languages.values():
        terms = analyzer(spelling, text).analyze(text)
        phrases |= _rarest(search, terms)
    return phrases


def _rarest(search: Search, terms: Sequence[str]) -> set[tuple[str, ...]]:
    """Returns the rarest run of PHRASE words in each part of a text: the run with the word in the fewest pages.

    Runs with a word that is in no page are left out, because no copy has the word.
    """
    number = {term: search.searcher.doc_freq("text", term) for term in set(terms)}
    size = min(PHRASE, len(terms))
    starts = range(len(terms) - size + 1)
    step = max(1, -(-len(starts) // PHRASES))
    rarest: set[tuple[str, ...]] = set()
    for first in starts[::step]:
        runs = [tuple(terms[start : start + size]) for start in starts[first : first + step]]
        present = [run for run in runs if all(number[term] for term in run)]
        if present:
            rarest.add(min(present, key=lambda run: min(number[term] for term in run)))
    return {run for run in rarest if len(run) > 1}


class Word(NamedTuple):
    """A word in lower case, and its start and end in the text."""

    text: str
    start: int
    end: int


class Passage(NamedTuple):
    """A run of words in both texts: the number of words, and the passage as the first text has it."""

    words: int
    text: str


class Overlap(NamedTuple):
    """The share of the words of the first text that are in common shingles, and the passages, the longest first.

    `words`: the number of words of the other text.
    """

    share: float
    passages: list[Passage]
    words: int


def words_of(text: str) -> list[Word]:
    """Returns the words of a text, in order."""
    return [Word(match[0].lower(), *match.span()) for match in _WORD.finditer(text)]


class Original:
    """A text that is compared with others by shingles of words.

    Source: Broder, "On the resemblance and containment of documents", SEQUENCES 1997.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.words = words_of(text)
        self._size = min(SHINGLE, max(1, len(self.words)))
        self._positions: dict[int, list[int]] = {}
        for position, shingle in enumerate(_shingles([word.text for word in self.words], self._size)):
            self._positions.setdefault(shingle, []).append(position)

    def overlap(self, other: str) -> Overlap:
        """Returns the part of this text that the other text has too."""
        covered = bytearray(len(self.words))
        theirs = [word.text for word in words_of(other)]
        shared = self._positions.keys() & _shingles(theirs, self._size)
        for shingle in shared:
            for position in self._positions[shingle]:
                covered[position : position + self._size] = b"\1" * self._size
        passages = [
            Passage(end - start, self.text[self.words[start].start : self.words[end - 1].end])
            for start, end in _runs(covered)
        ]
        passages.sort(key=lambda passage: -passage.words)
        return Overlap(sum(covered) / max(1, len(covered)), passages, len(theirs))


def _shingles(words: list[str], size: int) -> Iterator[int]:
    """Yields a hash of each run of `size` words."""
    for position in range(len(words) - size + 1):
        yield hash(tuple(words[position : position + size]))


def _runs(covered: bytearray) -> Iterator[tuple[int, int]]:
    """Yields start and end of each run of covered words."""
    for match in re.finditer(b"\1+", covered):
        yield match.span()
