"""A query for pages that are about the same as a page: those with its most characteristic words."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from webcrawl.search.entry import IndexedPage
from webcrawl.search.schema import schema, tantivy
from webcrawl.search.words import analyzer, composed, searchable

WORDS = 25
"""The words of a page that are searched for: those with the largest product of frequency and inverse page frequency."""
SHARED = 0.3
"""The share of these words that a page needs."""
_IN_TITLE = 3
_CHARACTERS = 100_000
_LONGEST, _SHORTEST = 30, 3


def similar_to(searcher: Any, entry: IndexedPage, text: str) -> Any:
    """Returns the query; one without results for a page whose words no other page has."""
    library, total = tantivy(), searcher.num_docs
    counts = Counter(_words(entry.language, text[:_CHARACTERS]))
    for word in _words(entry.language, entry.title or ""):
        counts[word] += _IN_TITLE
    values: dict[str, float] = {}
    for word, number in counts.most_common(1_000):
        pages = searcher.doc_freq("text", word)
        if pages > 1:
            values[word] = (1 + math.log(number)) * math.log(1 + total / pages)
    chosen = sorted(values, key=lambda word: (-values[word], word))[:WORDS]
    if not chosen:
        return library.Query.empty_query()
    terms = [
        (
            library.Occur.Should,
            library.Query.boost_query(
                library.Query.term_query(schema(), "text", word), 1 + math.log(counts[word])
            ),
        )
        for word in chosen
    ]
    return library.Query.boolean_query(terms, max(1, round(SHARED * len(terms))))


def _words(language: str | None, text: str) -> list[str]:
    searched = searchable(composed(text))
    words = analyzer(language, searched).analyze(searched)
    return [word for word in words if _SHORTEST <= len(word) <= _LONGEST and not word.isdigit()]
