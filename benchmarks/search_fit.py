"""Fits the weights of the ranking by half of the queries, and shows the results of both halves.

One weight after the other gets its best value while the others stay, until none changes. Of values that are equally
good, the present one is kept.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.command import table
from benchmarks.search_queries import KnownItem
from webcrawl.search import entry as entries, query as queries
from webcrawl.search.entry import IndexedPage, document
from webcrawl.search.folder import open_to_write
from webcrawl.search.searching import Search

VALUES = {
    "title": (1.0, 2.0, 3.0),
    "anchors": (0.0, 1.0, 2.0, 3.0),
    "phrase": (0.0, 1.0, 2.0),
    "pair": (0.0, 1.0, 2.0),
    "whole": (0.0, 1.0, 3.0, 6.0),
    "importance": (0.0, 0.0625, 0.125, 0.25),
}
"""The tried weights: of a word in a title and in the text of a link; of a phrase, of a pair of neighbours, and of a
whole title or text of a link; of a doubling of importance."""
FIRST = 3
_ROUNDS = 2
Weights = Mapping[str, float]


def report_fit(
    pages: Sequence[tuple[IndexedPage, str]], items: Sequence[KnownItem], quoted: Callable[[str], str]
) -> None:
    """Fits the weights by each second query, and prints the results of both halves with and without parts of them."""
    halves = items[::2], items[1::2]
    present = {
        **{name: queries.BOOSTS[name] for name in ("title", "anchors")},
        **{"phrase": queries.PHRASE, "pair": queries.PAIR, "whole": queries.WHOLE},
        "importance": entries.IMPORTANCE,
    }
    with ExitStack() as stack:
        searches = {}
        for importance in sorted({*VALUES["importance"], present["importance"]}):
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-search-"))
            entries.IMPORTANCE = importance
            searches[importance] = _index(pages, Path(folder))

        def rank(weights: Weights, half: Sequence[KnownItem]) -> float:
            queries.BOOSTS |= {name: weights[name] for name in ("title", "anchors")}
            queries.PHRASE, queries.PAIR = weights["phrase"], weights["pair"]
            queries.WHOLE = weights["whole"]
            return _rank(searches[weights["importance"]], half, quoted)

        fitted = _fitted(present, lambda weights: rank(weights, halves[0]))
        chosen = {"fitted": fitted, "present": present}
        for name in VALUES:
            chosen[f"without {name}"] = {**fitted, name: 0.0}
        rows = [
            (name, *weights.values(), *(f"{rank(weights, half):.3f}" for half in halves))
            for name, weights in chosen.items()
        ]
    heads = "|".join(["weights", *(f"{name}:" for name in VALUES), "MRR, fitted half:", "MRR, other half:"])
    print(table(heads, rows))


def _fitted(present: Weights, rank: Callable[[Weights], float]) -> dict[str, float]:
    best, value = dict(present), rank(present)
    for _ in range(_ROUNDS):
        before = dict(best)
        for name, tried in VALUES.items():
            for weight in tried:
                if (other := rank({**best, name: weight})) > value + 1e-9:
                    best, value = {**best, name: weight}, other
        if best == before:
            break
    return best


def _index(pages: Sequence[tuple[IndexedPage, str]], folder: Path) -> Search:
    with open_to_write(folder) as index:
        writer = index.writer(100_000_000, 1)
        for page in pages:
            writer.add_document(document(*page))
        writer.commit()
        writer.wait_merging_threads()
    return Search(folder)


def _rank(search: Search, items: Sequence[KnownItem], quoted: Callable[[str], str]) -> float:
    """Returns the mean reciprocal rank (MRR) of the wanted pages, of which those behind the third count as missing."""
    total = 0.0
    for item in items:
        urls = [hit.entry.url for hit in search.find(quoted(item.words), limit=FIRST).hits]
        total += 1 / (urls.index(item.url) + 1) if item.url in urls else 0.0
    return total / len(items)
