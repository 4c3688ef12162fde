"""The measures of all vertices of a graph: degrees, PageRank, harmonic centrality and connected components."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from webcrawl.graph.balls import Harmonic, harmonic
from webcrawl.graph.digraph import BLOCK_EDGES, Digraph, Values, Vertices
from webcrawl.graph.libraries import sparse

DAMPING = 0.85
"""The damping factor of Common Crawl's ranks, and of networkx."""
TOLERANCE = 1e-8
"""The iteration ends when the changes of all ranks sum to less than this. All ranks sum to 1, and their errors then
sum to less than 6e-8."""


@dataclass(frozen=True)
class Measures:
    """The measures of a graph: arrays with a value for each vertex."""

    in_degrees: Vertices
    out_degrees: Vertices
    pagerank: PageRank
    harmonic: Harmonic
    weak: ConnectedComponents
    strong: ConnectedComponents

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Returns the values by the names in docs/guide/graph.md. The largest value has position 1."""
        return {
            "in_degree": self.in_degrees,
            "out_degree": self.out_degrees,
            "pagerank": self.pagerank.ranks,
            "pagerank_position": _positions(self.pagerank.ranks),
            "harmonic": self.harmonic.values,
            "harmonic_position": _positions(self.harmonic.values),
            "component": self.weak.labels,
            "component_size": self.weak.sizes[self.weak.labels],
            "strong_component": self.strong.labels,
            "strong_component_size": self.strong.sizes[self.strong.labels],
        }

    def summary(self) -> dict[str, Any]:
        """Returns the figures of the whole graph."""
        return {
            "vertices": len(self.in_degrees),
            "edges": int(self.in_degrees.sum(dtype=np.int64)),
            "dangling": int(np.count_nonzero(self.out_degrees == 0)),
            "largest_in_degree": int(self.in_degrees.max()),
            "largest_out_degree": int(self.out_degrees.max()),
            "components": len(self.weak.sizes),
            "largest_component": int(self.weak.sizes[0]),
            "strong_components": len(self.strong.sizes),
            "largest_strong_component": int(self.strong.sizes[0]),
            "pagerank": {
                "damping": DAMPING,
                "tolerance": TOLERANCE,
                "iterations": self.pagerank.iterations,
            },
            "harmonic": {
                "method": "HyperBall" if self.harmonic.registers else "exact",
                "registers": self.harmonic.registers,
                "standard_error": round(self.harmonic.error, 4),
            },
        }


def measured(graph: Digraph, scratch: Path, memory: int) -> Measures:
    """Returns the measures of a graph with at least one vertex.

    scratch  a folder for the graph with reversed edges
    memory   the bytes of memory for the counters of harmonic centrality
    """
    path = scratch / "backward.int32"
    backward = graph.reversed(path)
    out_degrees = graph.degrees
    measures = Measures(
        backward.degrees,
        out_degrees,
        pagerank(backward, out_degrees),
        harmonic(graph, backward, memory),
        components(graph, strong=False),
        components(graph, strong=True),
    )
    path.unlink()
    return measures


def _positions(values: Values) -> Vertices:
    """Returns the rank of each value. The largest value has rank 1; equal values are in the order of vertices."""
    positions = np.empty(len(values), dtype=np.int32)
    positions[np.argsort(-values, kind="stable")] = np.arange(1, len(values) + 1, dtype=np.int32)
    return positions


@dataclass(frozen=True)
class ConnectedComponents:
    """The component of each vertex, numbered from 0 by decreasing size, and the size of each component."""

    labels: Vertices
    sizes: Vertices


def components(graph: Digraph, *, strong: bool) -> ConnectedComponents:
    """Returns the components of a graph: strong, along directed paths, or weak, without regard to directions.

    SciPy computes them in linear time. Strong components: D. J. Pearce, "An Improved Algorithm for Finding the Strongly
    Connected Components of a Directed Graph" (2005).
    """
    entries = (np.ones(graph.edges), graph.targets, graph.first.astype(np.int32))
    matrix = sparse().csr_array(entries, shape=(graph.vertices, graph.vertices))
    connection = "strong" if strong else "weak"
    _, labels = sparse().csgraph.connected_components(matrix, connection=connection)
    sizes = np.bincount(labels)
    order = np.argsort(-sizes, kind="stable")
    names = np.empty(len(sizes), dtype=np.int32)
    names[order] = np.arange(len(sizes), dtype=np.int32)
    return ConnectedComponents(names[labels], sizes[order].astype(np.int32))


@dataclass(frozen=True)
class PageRank:
    """The rank of each vertex, and the number of iterations."""

    ranks: Values
    iterations: int


def pagerank(backward: Digraph, out_degrees: Vertices) -> PageRank:
    """Returns the PageRank of all vertices, by power iteration.

    The standard form of L. Page, S. Brin, R. Motwani and T. Winograd, "The PageRank Citation Ranking" (1998): a reader
    follows a random link with probability DAMPING. Otherwise, and at a vertex without links, the reader goes to a
    random vertex.

    backward     the graph with reversed edges
    out_degrees  the number of edges that begin at each vertex of the original graph
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
        # rounding errors would accumulate
        after /= after.sum()
        change = float(np.abs(after - ranks).sum())
        ranks, iterations = after, iterations + 1
    return PageRank(ranks, iterations)


class _Rows:
    """The matrix of a graph. All entries are 1, so blocks of rows share them; blocks read their edges from disk."""

    def __init__(self, graph: Digraph) -> None:
        self._number = graph.vertices
        largest = int(np.diff(graph.first).max(initial=0))
        ones = np.ones(min(graph.edges, max(BLOCK_EDGES, largest)))
        self._blocks = []
        for start, end in graph.blocks():
            first, last = graph.first[start], graph.first[end]
            offsets = (graph.first[start : end + 1] - first).astype(np.int32)
            entries = (ones[: last - first], graph.targets[first:last], offsets)
            matrix = sparse().csr_array(entries, shape=(end - start, graph.vertices))
            self._blocks.append((start, end, matrix))

    def times(self, vector: Values) -> Values:
        """Returns the product of the matrix and a vector."""
        result = np.empty(self._number)
        for start, end, matrix in self._blocks:
            result[start:end] = matrix @ vector
        return result
