"""A directed graph as a compressed sparse row matrix, which may be stored in a file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from webcrawl.graph.libraries import sparse

Vertices: TypeAlias = npt.NDArray[np.int32]
"""Numbers of vertices, from 0."""
Counts: TypeAlias = npt.NDArray[np.int64]
Values: TypeAlias = npt.NDArray[np.float64]

BLOCK_EDGES = 1 << 22
"""The number of edges that are processed at a time."""


@dataclass(frozen=True)
class Digraph:
    """Distinct edges between vertices 0 to n - 1, sorted by source and target.

    first    int64, length n + 1: the edges of vertex v are first[v] to first[v + 1] - 1
    targets  int32: the target of each edge
    """

    first: Counts
    targets: Vertices

    @property
    def vertices(self) -> int:
        """The number of vertices."""
        return len(self.first) - 1

    @property
    def edges(self) -> int:
        """The number of edges."""
        return len(self.targets)

    @property
    def degrees(self) -> Vertices:
        """The number of edges that begin at each vertex."""
        return np.diff(self.first).astype(np.int32)

    def blocks(self) -> Iterator[tuple[int, int]]:
        """Yields ranges of vertices with about BLOCK_EDGES edges, or of a single vertex."""
        start = 0
        while start < self.vertices:
            end = int(np.searchsorted(self.first, self.first[start] + BLOCK_EDGES, side="right")) - 1
            end = min(max(end, start + 1), self.vertices)
            yield start, end
            start = end

    def block(self, start: int, end: int) -> tuple[Vertices, Vertices]:
        """Returns the sources and targets of all edges of a range of vertices."""
        lengths = np.diff(self.first[start : end + 1])
        sources = np.repeat(np.arange(start, end, dtype=np.int32), lengths)
        return sources, self.targets[self.first[start] : self.first[end]]

    def edges_of(self, vertices: Counts) -> Vertices:
        """Returns the targets of all edges of the vertices, one vertex after another."""
        lengths = self.first[vertices + 1] - self.first[vertices]
        ends = np.cumsum(lengths)
        shifts = np.repeat(self.first[vertices] - (ends - lengths), lengths)
        return self.targets[shifts + np.arange(len(shifts))]

    def reversed(self, path: Path) -> Digraph:
        """Returns the graph with all edges reversed; stores its targets in the new file `path`."""
        shape = (self.vertices, self.vertices)
        # scipy requires values, which are not used
        values = np.ones(self.edges, dtype=np.int8)
        rows = sparse().csr_array((values, self.targets, self.first.astype(np.int32)), shape=shape).tocsc()
        rows.indices.astype(np.int32, copy=False).tofile(path)
        return Digraph(rows.indptr.astype(np.int64), mapped(path))


def mapped(path: Path) -> Vertices:
    """Returns the numbers in a file as a memory map."""
    if not path.stat().st_size:
        return np.empty(0, dtype=np.int32)
    return np.memmap(path, dtype=np.int32, mode="r")


class EdgeWriter:
    """Makes a graph from edges in ascending order of their keys: source << 32 | target.

    Repeated edges are written once.
    """

    def __init__(self, vertices: int, path: Path) -> None:
        """Stores the targets in the new file `path`. Methods raise OSError."""
        self._path = path
        self._file = path.open("wb")
        self._degrees = np.zeros(vertices, dtype=np.int64)
        self._last = -1

    def add(self, keys: npt.NDArray[np.int64]) -> None:
        """Adds edges, whose keys must not be smaller than those of earlier edges."""
        if not len(keys):
            return
        keys = keys[np.diff(keys, prepend=self._last) != 0]
        if not len(keys):
            return
        self._last = int(keys[-1])
        sources = keys >> 32
        start = int(sources[0])
        counted = np.bincount(sources - start)
        self._degrees[start : start + len(counted)] += counted
        (keys & 0xFFFFFFFF).astype(np.int32).tofile(self._file)

    def finished(self) -> Digraph:
        """Returns the graph."""
        self._file.close()
        first = np.zeros(len(self._degrees) + 1, dtype=np.int64)
        np.cumsum(self._degrees, out=first[1:])
        return Digraph(first, mapped(self._path))


def folded(graph: Digraph, groups: Vertices, number: int, path: Path) -> Digraph:
    """Returns the graph of groups of vertices; an edge joins two groups if an edge joins two of their vertices.

    groups  the group of each vertex, 0 to number - 1
    path    a new file for the targets of the edges
    """
    keys = np.empty(0, dtype=np.int64)
    for start, end in graph.blocks():
        sources, targets = (groups[side].astype(np.int64) for side in graph.block(start, end))
        crossing = sources != targets
        crossing_keys = np.unique(sources[crossing] << 32 | targets[crossing])
        keys = np.union1d(keys, crossing_keys)
    writer = EdgeWriter(number, path)
    writer.add(keys)
    return writer.finished()
