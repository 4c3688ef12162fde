"""Tables of sorted 64-bit numbers in files, which are read in place.

The upper bits of a number follow from its position: a directory has the position of the first number of each value of
the upper bits. The lower bits follow one after the other, with no bits between them. This is the quotienting of
Cleary (1984); Manku, Jain and Das Sarma (2007) compress sorted SimHashes for the same reason. A number of a table with
n numbers takes about 64 - log2(n) + 6 bits.
"""

from __future__ import annotations

import mmap
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from webcrawl.errors import RunDamaged

Numbers = npt.NDArray[np.uint64]
Positions = npt.NDArray[np.int64]

MOST_LOWER = 57
"""The most lower bits: with up to 7 bits before them, they are in 8 bytes."""
_AT_ONCE = 1 << 18
_PADDING = 8
_PARTITIONS = 64
_TEST_EVERY = 32
_READ_SHARE = 0.1
"""The share of pages that are not in memory from which on reading ahead costs less than waiting."""


@dataclass(frozen=True, slots=True)
class TableShape:
    """The number of entries, and how many upper, lower and dropped bits their numbers have."""

    count: int
    upper: int
    lower: int

    @classmethod
    def of(cls, count: int, most_lower: int = MOST_LOWER) -> TableShape:
        """Returns the shape for at most `count` numbers, which keep `most_lower` bits below those of the directory.

        A part of the directory has 12 to 24 numbers, or 48 to 96 if bits are dropped.
        """
        # smaller parts save fewer bytes than they add to the directory, which stays in memory
        part = 12 if most_lower == MOST_LOWER else 48
        upper = min(28, max(64 - MOST_LOWER, (count // part).bit_length() - 1))
        return cls(count, upper, min(64 - upper, most_lower))

    @property
    def dropped(self) -> int:
        return 64 - self.upper - self.lower

    @property
    def position(self) -> np.dtype[Any]:
        """The type of the positions in the directory."""
        return np.dtype("<u4" if self.count < 1 << 32 else "<u8")

    @property
    def packed_bytes(self) -> int:
        """The bytes of the lower bits, which come before the directory."""
        return -(-self.count // 8) * self.lower + _PADDING


class TableWriter:
    """Writes numbers, which must arrive in ascending order, to a file."""

    def __init__(self, path: Path, most: int, most_lower: int = MOST_LOWER) -> None:
        self._shape = TableShape.of(most, most_lower)
        self._file = path.open("wb")
        self._left = np.empty(0, np.uint64)
        self._counts = np.zeros(1 << self._shape.upper, np.uint32)
        self._count = 0

    def add(self, numbers: Numbers) -> None:
        """Adds the next numbers."""
        shape = self._shape
        upper = (numbers >> np.uint64(64 - shape.upper)).astype(np.int64)
        if len(upper):
            first = int(upper[0])
            counts = np.bincount(upper - first)
            self._counts[first : first + len(counts)] += counts.astype(np.uint32)
        self._count += len(numbers)
        mask = np.uint64((1 << shape.lower) - 1)
        lower = np.concatenate([self._left, (numbers >> np.uint64(shape.dropped)) & mask])
        whole = len(lower) & ~7
        for start in range(0, whole, _AT_ONCE):
            self._file.write(packed(lower[start : min(start + _AT_ONCE, whole)], shape.lower))
        self._left = lower[whole:]

    def close(self) -> TableShape:
        """Writes the rest; returns the shape, without which the file cannot be read."""
        if len(self._left):
            rest = np.zeros(8, np.uint64)
            rest[: len(self._left)] = self._left
            self._file.write(packed(rest, self._shape.lower))
        self._file.write(bytes(_PADDING))
        shape = TableShape(self._count, self._shape.upper, self._shape.lower)
        directory = np.zeros(len(self._counts) + 1, shape.position)
        np.cumsum(self._counts, out=directory[1:])
        self._file.write(directory.tobytes())
        self._file.close()
        return shape


def packed(lower: Numbers, width: int) -> bytes:
    """Returns numbers of `width` bits, at most 57, one after the other; their count must be a multiple of 8."""
    groups = len(lower) // 8
    out = np.zeros((groups, width + 8), np.uint8)
    for number in range(8):
        at, shift = divmod(number * width, 8)
        shifted = (lower[number::8] << np.uint64(shift)).astype("<u8")
        out[:, at : at + 8] |= shifted.view(np.uint8).reshape(groups, 8)
    return out[:, :width].tobytes()


class SortedTable:
    """A file of a TableWriter, mapped into memory: only the pages that are read take memory."""

    def __init__(self, path: Path, shape: TableShape) -> None:
        self.shape = shape
        self._path = path
        self._calls = 0
        self._reads_ahead = False
        with path.open("rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        content = np.frombuffer(self._map, np.uint8)
        size = shape.packed_bytes + shape.position.itemsize * ((1 << shape.upper) + 1)
        if len(content) != size:
            raise ValueError(f"{path} has {len(content)} bytes instead of {size}")
        # a word of 8 bytes begins at each byte, so one look-up reads any bits
        self._words: Numbers = np.ndarray(shape.packed_bytes - 7, "<u8", content, strides=(1,))
        self._directory = np.ndarray((1 << shape.upper) + 1, shape.position, content, shape.packed_bytes)
        if int(self._directory[-1]) != shape.count:
            raise ValueError(f"{path} has {self._directory[-1]} numbers instead of {shape.count}")
        if whole_pages := shape.packed_bytes // mmap.PAGESIZE * mmap.PAGESIZE:
            # otherwise the kernel reads 128 KiB where a look-up needs 4
            self._map.madvise(mmap.MADV_RANDOM, 0, whole_pages)

    def __len__(self) -> int:
        return self.shape.count

    def _lower(self, positions: Positions) -> Numbers:
        bits = positions * self.shape.lower
        words: Numbers = self._words[bits >> 3] >> (bits & 7).astype(np.uint64)
        return words & np.uint64((1 << self.shape.lower) - 1)

    def numbers(self, start: int, stop: int) -> Numbers:
        """Returns the numbers from one position to another; dropped bits are 0."""
        self._read_ahead(start, stop)
        positions = np.arange(start, stop)
        upper = np.searchsorted(self._directory, positions, "right") - 1
        return self._joined(upper.astype(np.uint64), positions)

    def _read_ahead(self, start: int, stop: int) -> None:
        """Asks the kernel to read a range of numbers together."""
        first = start * self.shape.lower // 8 // mmap.PAGESIZE * mmap.PAGESIZE
        last = min(stop * self.shape.lower // 8 + _PADDING, self.shape.packed_bytes)
        if last > first:
            self._map.madvise(mmap.MADV_WILLNEED, first, last - first)

    def _joined(self, upper: Numbers, positions: Positions) -> Numbers:
        shape = self.shape
        return (upper << np.uint64(shape.lower) | self._lower(positions)) << np.uint64(shape.dropped)

    def ranges(self, numbers: Numbers, bits: int) -> tuple[Positions, Positions]:
        """Returns for each of `numbers` where the numbers with the same first `bits` bits begin and end.

        `bits` is at least the directory's; dropped bits do not count. Raises RunDamaged for a damaged directory.
        """
        shape = self.shape
        bits = min(bits, shape.upper + shape.lower)
        upper = (numbers >> np.uint64(64 - shape.upper)).astype(np.int64)
        wanted = (numbers >> np.uint64(64 - bits)) & np.uint64((1 << (bits - shape.upper)) - 1)
        starts, stops = (self._directory[upper + after].astype(np.int64) for after in (0, 1))
        if np.any(starts > stops) or np.any(stops > shape.count):
            raise RunDamaged(f"{self._path} is damaged: its directory is not in order")
        ignored = np.uint64(shape.upper + shape.lower - bits)
        with self._reading(starts, stops):
            starts = self._bisected(starts, stops, wanted, ignored, equal=False)
            equal = np.flatnonzero(starts < stops)
            equal = equal[self._lower(starts[equal]) >> ignored == wanted[equal]]
            ends = starts.copy()
            ends[equal] = self._bisected(starts[equal] + 1, stops[equal], wanted[equal], ignored, equal=True)
        return starts, ends

    @contextmanager
    def _reading(self, starts: Positions, stops: Positions) -> Iterator[None]:
        """Has the kernel read the pages of many ranges at once, if pages of this table are rarely in memory.

        A look-up would wait for one page after the other. Now and then it does, which tells how many are not in memory.
        """
        self._calls += 1
        is_test = self._calls % _TEST_EVERY == 1
        if self._reads_ahead and not is_test:
            for page in self._pages(starts, stops).tolist():
                self._map.madvise(mmap.MADV_WILLNEED, page * mmap.PAGESIZE, mmap.PAGESIZE)
        before = _page_reads() if is_test else 0
        yield
        if is_test:
            reads = _page_reads() - before
            self._reads_ahead = reads > 1 and reads > _READ_SHARE * len(self._pages(starts, stops))

    def _pages(self, starts: Positions, stops: Positions) -> Positions:
        """Returns the numbers of the pages with the first and the last number of each range that is not empty."""
        filled = starts < stops
        positions = np.concatenate([starts[filled], stops[filled] - 1])
        return np.unique(positions * self.shape.lower // (8 * mmap.PAGESIZE))

    def _bisected(
        self, starts: Positions, stops: Positions, wanted: Numbers, ignored: np.uint64, *, equal: bool
    ) -> Positions:
        """Returns the first positions whose lower bits are greater than `wanted`, or else at least `wanted`."""
        starts, stops = starts.copy(), stops.copy()
        left = np.flatnonzero(starts < stops)
        while len(left):
            middles = (starts[left] + stops[left]) >> 1
            lower = self._lower(middles) >> ignored
            before = lower <= wanted[left] if equal else lower < wanted[left]
            starts[left[before]] = middles[before] + 1
            stops[left[~before]] = middles[~before]
            left = left[starts[left] < stops[left]]
        return starts

    def at(self, positions: Positions, prefixes: Numbers) -> Numbers:
        """Returns the numbers at these positions; `prefixes` have at least their upper bits."""
        return self._joined(prefixes >> np.uint64(64 - self.shape.upper), positions)

    def starts(self, numbers: Numbers) -> Positions:
        """Returns the position of the first number that is not below each of `numbers`."""
        return self.ranges(numbers, 64)[0]


def _page_reads() -> int:
    """Returns for how many pages of files this thread has waited; on macOS, the process."""
    return resource.getrusage(getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)).ru_majflt


class NumberSorter:
    """Sorts more numbers than fit into memory: numbers with the same first six bits share a file."""

    def __init__(self, folder: Path, name: str) -> None:
        self._paths = [folder / f"{name}.{number:02}" for number in range(_PARTITIONS)]
        self._waiting: list[Numbers] = []

    def add(self, numbers: Numbers) -> None:
        """Adds numbers in any order."""
        self._waiting.append(numbers)
        if sum(map(len, self._waiting)) >= _AT_ONCE:
            self._write()

    def _write(self) -> None:
        numbers = np.sort(np.concatenate(self._waiting))
        self._waiting = []
        bounds = np.arange(_PARTITIONS, dtype=np.uint64) << np.uint64(58)
        ends = [*np.searchsorted(numbers, bounds[1:]), len(numbers)]
        start = 0
        for path, end in zip(self._paths, ends, strict=True):
            if end > start:
                with path.open("ab") as file:
                    file.write(numbers[start:end].tobytes())
            start = end

    def sorted(self) -> Iterator[Numbers]:
        """Yields all numbers in ascending order, and deletes the files."""
        if self._waiting:
            self._write()
        for path in self._paths:
            if path.exists():
                yield np.sort(np.fromfile(path, np.uint64))
                path.unlink()
