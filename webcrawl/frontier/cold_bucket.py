"""A cold bucket: a range of the seen set in the store, sorted, and its filter in the engine.

A part of a segment has the differences between neighbouring marks, as planes of bytes. The four low planes are stored
unchanged. The four high planes are mostly zeros, and are compressed by zlib. A mark takes about five bytes.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from webcrawl.errors import PartLost
from webcrawl.frontier.segments import QueuePart

Marks: TypeAlias = npt.NDArray[np.int64]
"""Marks of the seen set (`Keys.mark`), in order and without duplicates."""

LEAST_MARK = -(2**63)
"""The lower end of the first bucket."""
MOST_MARKS = 6000
"""The most marks of a bucket; a larger bucket is split into halves or smaller pieces."""

_FIRST_LINE = b"webcrawl seen 1\n"
_LOW_PLANES = 4
_COMPRESSION = 1

_BITS_PER_MARK = 10
_BLOCK_BITS, _TESTS = 1024, 6
"""As in lua/common/seen_set.lua, which tests the filter."""
_VALUES = 10**9


def pack_marks(name: str, buckets: Sequence[Marks]) -> tuple[bytes, list[QueuePart]]:
    """Returns a segment with a part for each bucket, and these parts."""
    pieces, parts, offset = [_FIRST_LINE], [], len(_FIRST_LINE)
    for marks in buckets:
        raw = _packed(marks)
        pieces.append(raw)
        parts.append(QueuePart(name, offset, len(raw), len(marks), _checksum(raw)))
        offset += len(raw)
    return b"".join(pieces), parts


def unpack_marks(raw: bytes, part: QueuePart) -> Marks:
    """Returns the marks of a part; raises PartLost if its checksum differs."""
    if len(raw) != part.length or _checksum(raw) != part.checksum:
        raise PartLost("it is damaged")
    low = _LOW_PLANES * part.urls
    planes = np.frombuffer(raw[:low] + zlib.decompress(raw[low:]), np.uint8).reshape(8, part.urls)
    gaps = np.ascontiguousarray(planes.T).view("<i8").ravel()
    return np.cumsum(gaps, dtype=np.int64)


def have_marks(marks: Marks, wanted: Sequence[int]) -> list[bool]:
    """Whether a bucket has each of these marks."""
    if not len(marks):
        return [False] * len(wanted)
    numbers = np.array(wanted, np.int64)
    at = np.minimum(np.searchsorted(marks, numbers), len(marks) - 1)
    return [bool(known) for known in marks[at] == numbers]


def pieces_of(marks: Marks) -> Iterator[Marks]:
    """Cuts a bucket into equal pieces of at most MOST_MARKS.

    Marks that are equal as doubles stay together, because the engine finds the bucket of a mark by its double.
    """
    count = -(-len(marks) // MOST_MARKS)
    scores, start = marks.astype(np.float64), 0
    for number in range(1, count):
        end = int(np.searchsorted(scores, scores[len(marks) * number // count], side="left"))
        if end > start:
            yield marks[start:end]
            start = end
    yield marks[start:]


def bloom_filter(marks: Marks) -> bytes:
    """Returns the filter of a bucket, in blocks of 128 bytes; about 0.8% of the marks of others pass it."""
    blocks = max(1, -(-len(marks) * _BITS_PER_MARK // _BLOCK_BITS))
    unsigned = marks.view(np.uint64)
    magnitude = np.where(marks < 0, ~unsigned + np.uint64(1), unsigned)
    values = (magnitude % np.uint64(_VALUES)).astype(np.int64)
    block, rest = values % blocks, values // blocks
    position, step = rest % _BLOCK_BITS, rest // _BLOCK_BITS % (_BLOCK_BITS // 2) * 2 + 1
    bits: npt.NDArray[np.bool_] = np.zeros(blocks * _BLOCK_BITS, np.bool_)
    for test in range(1, _TESTS + 1):
        bits[block * _BLOCK_BITS + position] = True
        position, step = (position + step) % _BLOCK_BITS, (step + test) % _BLOCK_BITS
    return np.packbits(bits, bitorder="little").tobytes()


def as_marks(numbers: Any) -> Marks:
    """Returns integers, or their texts, as an array in the given order."""
    return np.fromiter(map(int, numbers), np.int64)


def _packed(marks: Marks) -> bytes:
    # the first difference is the first mark itself
    gaps = np.diff(marks, prepend=np.int64(0)).astype("<i8")
    planes = np.ascontiguousarray(gaps.view(np.uint8).reshape(-1, 8).T)
    return planes[:_LOW_PLANES].tobytes() + zlib.compress(planes[_LOW_PLANES:].tobytes(), _COMPRESSION)


def _checksum(raw: bytes) -> str:
    return hashlib.sha1(raw, usedforsecurity=False).hexdigest()[:16]
