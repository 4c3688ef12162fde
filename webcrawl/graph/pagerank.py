"""PageRank by power iteration.

The standard form of L. Page, S. Brin, R. Motwani and T. Winograd, "The PageRank Citation Ranking" (1998): a reader
follows a random link with the probability DAMPING, and goes to a random vertex otherwise, or where there is no link.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from webcrawl.graph.digraph import BLOCK_EDGES, Digraph, Values, Vertices
from webcrawl.graph.libraries import sparse

DAMPING = 0.85
"""As in Common Crawl's ranks, and networkx."""
TOLERANCE = 1e-8
"""The iteration ends when all ranks together change by less. They sum to 1, and differ then from the exact ones by
less than 6e-8 together."""


@dataclass(frozen=True)
class PageRank:
    """The rank of each vertex, and the number of iterations."""

    ranks: Values
    iterations: int


def pagerank(backward: Digraph, out_degrees: Vertices) -> PageRank:
    """Returns the PageRank of all vertices.

    backward     the graph with its edges turned round
    out_degrees  how many edges begin at each vertex, before that
    """
    number = backward.vertices
    dangling = out_degrees == 0
    shares = np.divide(1.0, out_degrees, where=~dangling, out=np.zeros(number))
    rows = _Rows(backward)
    ranks, change, iterations = np.full(number, 1 / number), 1.0, 0
    while change >= TOLERANCE:
        lost = float(ranks[dangling].sum())
        after = rows.times(ranks * shares)
        after *= DAMPING
        after += (DAMPING * lost + 1 - DAMPING) / number
        # rounding would add up
        after /= after.sum()
        change = float(np.abs(after - ranks).sum())
        ranks, iterations = after, iterations + 1
    return PageRank(ranks, iterations)


class _Rows:
    """The matrix of a graph, whose entries are all 1: blocks of its rows share them, and read their edges from disk."""

    def __init__(self, graph: Digraph) -> None:
        self._number = graph.vertices
        largest = int(np.diff(graph.first).max(initial=0))
        ones = np.ones(min(graph.edges, max(BLOCK_EDGES, largest)))
        self._blocks = []
        for start, end in graph.blocks():
            first, last = graph.first[start], graph.first[end]
            places = (graph.first[start : end + 1] - first).astype(np.int32)
            entries = (ones[: last - first], graph.targets[first:last], places)
            matrix = sparse().csr_array(entries, shape=(end - start, graph.vertices))
            self._blocks.append((start, end, matrix))

    def times(self, vector: Values) -> Values:
        """Returns the product of the matrix and a vector."""
        result = np.empty(self._number)
        for start, end, matrix in self._blocks:
            result[start:end] = matrix @ vector
        return result
