"""HyperLogLog counters as rows of registers of one byte.

P. Flajolet et al., "HyperLogLog: the analysis of a near-optimal cardinality estimation algorithm" (2007). Sizes are
estimated after O. Ertl, "New cardinality estimation algorithms for HyperLogLog sketches" (2017), section 2, which has
no bias for small sets. The union of two sets has the maximum of each register.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import numpy.typing as npt

_ALPHA = 1 / (2 * math.log(2))
_ZERO = 1024.0
"""The weight of a zero register in a sum; all other registers together weigh less."""


def error(registers: int) -> float:
    """Returns the relative standard error of a size: 1.04 / sqrt(registers)."""
    return 1.04 / math.sqrt(registers)


def singletons(number: int, registers: int) -> npt.NDArray[np.uint8]:
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


def sizes(rows: npt.NDArray[np.uint8]) -> npt.NDArray[np.float64]:
    """Returns the estimated size of each counter's set."""
    registers = rows.shape[1]
    total = np.take(_pairs(), rows.view(np.uint16), mode="clip").sum(axis=1)
    zeros = total // _ZERO
    total -= zeros * _ZERO
    total += registers * _correction(registers)[zeros.astype(np.int64)]
    estimates: npt.NDArray[np.float64] = _ALPHA * registers**2 / total
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
