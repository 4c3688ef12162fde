"""Connected components."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from webcrawl.graph.digraph import Digraph, Vertices
from webcrawl.graph.libraries import sparse


@dataclass(frozen=True)
class Components:
    """The component of each vertex, numbered from 0 by decreasing size, and the size of each component."""

    labels: Vertices
    sizes: Vertices


def components(graph: Digraph, *, strong: bool) -> Components:
    """Returns the components of a graph: strong, where each vertex reaches each other, or weak, along edges either way.

    SciPy finds them in linear time. Strong ones: D. J. Pearce, "An Improved Algorithm for Finding the Strongly
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
    return Components(names[labels], sizes[order].astype(np.int32))
