"""What a worker does with SimHashes without NumPy, which only making one needs: compares them, finds near ones."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import numpy.typing as npt

T = TypeVar("T", int, "npt.NDArray[Any]")

BITS = 64
# With fewer words, navigation alone would make different pages near-duplicates.
MIN_WORDS = 20
# Chinese and Japanese do not separate words: each character counts as a word.
IDEOGRAPHS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
_WORD = re.compile(rf"[{IDEOGRAPHS}]|[^{IDEOGRAPHS}\0-/:-@\[-^`{{-\x7f]+")


def has_simhash(text: str) -> bool:
    """Returns whether a text has enough words for a SimHash (`webcrawl.documents.simhash.simhash64`)."""
    return sum(1 for _ in islice(_WORD.finditer(text), MIN_WORDS)) == MIN_WORDS


def distance(first: int, second: int) -> int:
    """Returns the number of bits in which two fingerprints differ."""
    return (first ^ second).bit_count()


def blocks(simhash: T, distance: int = 3) -> tuple[T, ...]:
    """Returns `distance` + 1 keys under which to store and to look up a fingerprint, or each of an array.

    The 64 bits are cut into `distance` + 1 blocks. Two fingerprints within `distance` bits agree in at least one block
    (pigeonhole), so they share a key. A key has the number of its block above the bits of the block, so that different
    blocks never share a key. At the default distance a block has 16 bits.
    """
    count = distance + 1
    width = -(-BITS // count)
    mask = (1 << width) - 1
    return tuple((simhash >> (number * width)) & mask | (number << width) for number in range(count))
