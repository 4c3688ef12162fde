"""Harmonic centrality: the sum of 1 / d over all other vertices, where d is the distance from the other vertex.

P. Boldi and S. Vigna, "Axioms for Centrality" (2014). The ball of a vertex at step t is the set of vertices that reach
the vertex in at most t steps. It is the union of the balls at step t - 1 of the vertex and of its predecessors. Each
vertex that joins the ball at step t adds 1 / t. The computation needs only sets of vertices:

- as bits, for as many sources at once as fit in a row: exact. M. Then et al., "The More the Merrier: Efficient
  Multi-Source Graph Traversal" (2014);
- as HyperLogLog counters, for large graphs: with a known error. P. Boldi, M. Rosa and S. Vigna, "HyperANF" (2011);
  P. Boldi and S. Vigna, "In-Core Computation of Geometric Centralities with HyperBall" (2013).

Counters are rows of registers of one byte: P. Flajolet et al., "HyperLogLog: the analysis of a near-optimal cardinality
estimation algorithm" (2007). Sizes are estimated after O. Ertl, "New cardinality estimation algorithms for HyperLogLog
sketches" (2017), section 2, which has no bias for small sets. The union of two sets has the maximum of each register.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from webcrawl.graph.digraph import BLOCK_EDGES, Counts, Digraph, Values

Rows: TypeAlias = npt.NDArray[np.uint8]
"""Sets of vertices: a row for each vertex."""

EXACT_COST = 2_000_000_000
"""The largest product of vertices and edges for which harmonic centrality is exact, which takes some seconds."""
MOST_REGISTERS, LEAST_REGISTERS = 256, 16
_SOURCES = 2_048
_CHUNK_BYTES = 1 << 19
_HUB = 64
_ALPHA = 1 / (2 * math.log(2))
_ZERO = 1024.0
"""The weight of a zero register in a sum; all other registers together weigh less."""


@dataclass(frozen=True)
class Harmonic:
    """The harmonic centrality of each vertex. `registers`: the registers of each counter, or 0 for exact values."""

    values: Values
    registers: int

    @property
    def error(self) -> float:
        """The relative standard error of the size of a ball."""
        return relative_error(self.registers) if self.registers else 0.0


@dataclass(frozen=True)
class Sets:
    """A representation of sets: the rows, the union of two rows, and the number of vertices in each row."""

    rows: Rows
    union: np.ufunc
    size: Callable[[Rows], Values]


def harmonic(forward: Digraph, backward: Digraph, memory: int) -> Harmonic:
    """Returns the harmonic centrality of all vertices, exact if vertices times edges are at most EXACT_COST.

    backward  the graph with all edges reversed
    memory    the bytes of memory for counters
    """
    number = forward.vertices
    values = np.zeros(number)
    if number * forward.edges > EXACT_COST:
        registers = MOST_REGISTERS
        while registers > LEAST_REGISTERS and 2 * number * registers > memory:
            registers //= 2
        sets = Sets(singletons(number, registers), np.maximum, estimated_sizes)
        _Growth(forward, backward, sets, values).run(np.arange(number))
        return Harmonic(values, registers)
    for start in range(0, number, _SOURCES):
        sources = np.arange(start, min(start + _SOURCES, number))
        bits = sources - start
        rows = np.zeros((number, -(-len(sources) // 8)), dtype=np.uint8)
        rows[sources, bits // 8] = 1 << (bits % 8)
        _Growth(forward, backward, Sets(rows, np.bitwise_or, _bits), values).run(sources)
    return Harmonic(values, 0)


def _bits(rows: Rows) -> Values:
    counts: Values = np.bitwise_count(rows).sum(axis=1, dtype=np.float64)
    return counts


class _Growth:
    """Grows all balls step by step, and adds the contribution of each step to `values`.

    A step visits only vertices with a predecessor whose ball has grown in the step before.
    """

    def __init__(self, forward: Digraph, backward: Digraph, sets: Sets, values: Values) -> None:
        self._forward, self._backward, self._values = forward, backward, values
        self._now, self._union, self._size = sets.rows, sets.union, sets.size
        self._next = np.empty_like(self._now)
        self._sizes = np.concatenate(
            [self._size(self._now[chunk]) for chunk in self._chunks(forward.vertices)]
        )
        self._degrees = np.diff(backward.first)
        self._taken = np.empty((self._height, self._now.shape[1]), dtype=np.uint8)

    @property
    def _height(self) -> int:
        """The number of rows that fit in the processor's cache."""
        return max(1, _CHUNK_BYTES // int(self._now.shape[1]))

    def _chunks(self, number: int) -> Iterator[slice]:
        return (slice(start, start + self._height) for start in range(0, number, self._height))

    def run(self, grown: Counts) -> None:
        """Runs all steps. `grown`: the vertices whose balls are not empty before the first step."""
        step = 1
        while len(grown):
            touched = self._touched(grown)
            parts = [self._grow(touched[chunk], step) for chunk in self._chunks(len(touched))]
            grown = np.concatenate([np.empty(0, dtype=np.int64), *parts])
            for chunk in self._chunks(len(grown)):
                self._now[grown[chunk]] = self._next[grown[chunk]]
            step += 1

    def _touched(self, grown: Counts) -> Counts:
        """Returns in order the vertices with a predecessor in `grown`."""
        lengths = np.cumsum(self._forward.first[grown + 1] - self._forward.first[grown])
        if lengths[-1] * 8 < self._forward.vertices:
            return np.unique(self._forward.edges_of(grown)).astype(np.int64)
        marked = np.zeros(self._forward.vertices, dtype=bool)
        starts = np.searchsorted(lengths, np.arange(0, lengths[-1] + 1, BLOCK_EDGES), side="left")
        for part in np.split(grown, np.unique(starts[1:])):
            marked[self._forward.edges_of(part)] = True
        return np.flatnonzero(marked)

    def _grow(self, chunk: Counts, step: int) -> Counts:
        """Adds the balls of predecessors to those of the vertices `chunk`; returns the vertices whose balls have grown.

        Adjacent vertices often have the same predecessors, whose balls are then in the processor's cache.
        """
        # unites with the nth predecessors of all vertices at once: vertices with the most predecessors come first
        chunk = chunk[np.argsort(-self._degrees[chunk], kind="stable")]
        before = self._now[chunk]
        rows = before.copy()
        degrees, starts = self._degrees[chunk], self._backward.first[chunk]
        hubs = int(np.count_nonzero(degrees > _HUB))
        for row in range(hubs):
            self._unite_hub(rows[row], int(starts[row]), int(degrees[row]))
        for turn in range(int(degrees[hubs]) if hubs < len(degrees) else 0):
            # degrees decrease, so vertices with more than `turn` predecessors come first
            end = int(np.searchsorted(-degrees, -turn, side="left"))
            neighbours = self._backward.targets[starts[hubs:end] + turn]
            taken = np.take(self._now, neighbours, axis=0, out=self._taken[: end - hubs], mode="clip")
            self._union(rows[hubs:end], taken, out=rows[hubs:end])
        has_grown = (rows != before).any(axis=1)
        grown: Counts = chunk[has_grown]
        rows = rows[has_grown]
        sizes = self._size(rows)
        self._values[grown] += (sizes - self._sizes[grown]) / step
        self._sizes[grown] = sizes
        self._next[grown] = rows
        return grown

    def _unite_hub(self, row: Rows, start: int, degree: int) -> None:
        """Unites the balls of the many predecessors of one vertex."""
        for first in range(start, start + degree, self._height):
            neighbours = self._backward.targets[first : min(first + self._height, start + degree)]
            self._union(row, self._union.reduce(self._now[neighbours], axis=0), out=row)


def relative_error(registers: int) -> float:
    """Returns the relative standard error of an estimated size: 1.04 / sqrt(registers)."""
    return 1.04 / math.sqrt(registers)


def singletons(number: int, registers: int) -> Rows:
    """Returns the counters of the sets {0}, {1} ... {number - 1}. `registers`: a power of two."""
    rows = np.zeros((number, registers), dtype=np.uint8)
    hashes = _hashed(np.arange(number, dtype=np.uint64))
    bits = registers.bit_length() - 1
    rest = hashes >> np.uint64(bits)
    # the number of zeros below the lowest set bit, plus one
    ranks = np.bitwise_count(rest ^ (rest - np.uint64(1)))
    rows[np.arange(number), (hashes & np.uint64(registers - 1)).astype(np.int64)] = np.minimum(
        ranks, 64 - bits
    )
    return rows


def estimated_sizes(rows: Rows) -> Values:
    """Returns the estimated size of each counter's set."""
    registers = rows.shape[1]
    total = np.take(_pairs(), rows.view(np.uint16), mode="clip").sum(axis=1)
    zeros = total // _ZERO
    total -= zeros * _ZERO
    total += registers * _correction(registers)[zeros.astype(np.int64)]
    estimates: Values = _ALPHA * registers**2 / total
    return estimates


@cache
def _pairs() -> npt.NDArray[np.float64]:
    """Returns by the number formed by two registers the sum of their 2^-register, with _ZERO for a zero register."""
    values = 2.0 ** -np.arange(256)
    values[0] = _ZERO
    sums: npt.NDArray[np.float64] = np.add.outer(values, values).ravel()
    return sums


def _hashed(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Returns a hash of each number: the generator SplitMix64 (Steele, Lea and Flood, 2014)."""
    mixed = (numbers + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


@cache
def _correction(registers: int) -> npt.NDArray[np.float64]:
    """Returns Ertl's sigma(zeros / registers) for each number of registers that are zero."""
    power = np.arange(registers + 1) / registers
    total, weight = power.copy(), 1.0
    # x + x^2 + 2 x^4 + 4 x^8 ...; a set with all of them zero is empty
    while power[:-1].max(initial=0.0) * weight > np.finfo(float).eps:
        power = power * power
        total += weight * power
        weight *= 2
    total[-1] = math.inf
    return total
