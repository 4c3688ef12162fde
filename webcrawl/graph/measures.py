"""The measures of all vertices of a graph."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from webcrawl.graph.balls import Harmonic, harmonic
from webcrawl.graph.components import Components, components
from webcrawl.graph.digraph import Digraph, Values, Vertices
from webcrawl.graph.pagerank import DAMPING, TOLERANCE, PageRank, pagerank


@dataclass(frozen=True)
class Measures:
    """Each array has a value for each vertex."""

    in_degrees: Vertices
    out_degrees: Vertices
    pagerank: PageRank
    harmonic: Harmonic
    weak: Components
    strong: Components

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Returns name -> values, as docs/graph.md explains them. The largest value has the position 1."""
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
    """Returns the measures of a graph with a vertex or more.

    scratch  a folder for the graph with its edges turned round
    memory   the bytes that counters of harmonic centrality may take
    """
    path = scratch / "backward.int32"
    backward = graph.reversed(path)
    out_degrees = graph.degrees
    found = Measures(
        backward.degrees,
        out_degrees,
        pagerank(backward, out_degrees),
        harmonic(graph, backward, memory),
        components(graph, strong=False),
        components(graph, strong=True),
    )
    path.unlink()
    return found


def _positions(values: Values) -> Vertices:
    """Returns the place of each value, the largest having 1; of equal ones, the first vertex comes first."""
    positions = np.empty(len(values), dtype=np.int32)
    positions[np.argsort(-values, kind="stable")] = np.arange(1, len(values) + 1, dtype=np.int32)
    return positions
