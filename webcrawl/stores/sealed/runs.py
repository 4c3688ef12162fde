"""Sealed runs: immutable sets of first texts and first payloads, as objects of a store.

Two SimHashes within a distance differ in one of their halves by at most half of it. So a run has its SimHashes twice,
sorted by their first and by their second half, and a look-up tries all halves that differ by so few bits (multi-index
hashing: Norouzi, Punjani and Fleet 2012; for distance 3, two tables and 66 probes). Four tables by blocks of 16 bits,
as in Manku, Jain and Das Sarma (2007), would compare n / 2**14 texts.

Names are lines in the order of the tables `texts` and `digests`. They stay in the store, and are read for duplicates
only.

    texts, rotated    SimHashes by their first and by their second half
    digests           the beginning of the digests of payloads
    urls              the beginning of the hashes of the URLs of texts
    superseded        hashes of URLs whose texts in older runs are outdated, 8 bytes each
    text_names        URLs, in compressed blocks; text_blocks has their offsets
    payload_names     digest, time, URL and reading, in compressed blocks; payload_blocks has their offsets
    run.json          the shapes of the tables, and sizes and checksums of all files but the names

Sizes are checked when a run is opened. Checksums of whole tables are checked when they are copied to a machine, and
before runs are merged, so that damage never passes into a new run. Compressed blocks have checksums of their own.
"""

from __future__ import annotations

import json
import logging
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xxhash
from zlib_ng import zlib_ng

from webcrawl.errors import RunDamaged, StoreError
from webcrawl.stores.objects.store import ObjectStore, never
from webcrawl.stores.sealed.tables import (
    MOST_LOWER,
    Numbers,
    NumberSorter,
    Positions,
    SortedTable,
    TableShape,
    TableWriter,
)

logger = logging.getLogger(__name__)

TABLES = {"texts": MOST_LOWER, "rotated": MOST_LOWER, "digests": 18, "urls": 12}
"""The tables, and how many of the lower bits of their numbers they keep at most."""
CACHED = (*TABLES, "superseded", "text_blocks", "payload_blocks")
"""The objects of a run of which each machine has a copy."""
_OTHERS = ("text_names", "payload_names")
_FORMAT = 2
_LINES = 64
_COMPRESSION = 2
_CACHED_BLOCKS = 32
_CANDIDATES_AT_ONCE = 1 << 20
_HASHED_AT_ONCE = 1 << 20
DIGEST = 12
"""The bytes by which digests are compared: among 15 billion, two are equal with a probability of 1 to 700 million."""

SortedTexts = tuple[Numbers, list[bytes]]
"""SimHashes in ascending order, and the URL of each."""


class NearText(NamedTuple):
    """A text of a run, with its URL and SimHash, that differs in `bits` bits from the text number `query`."""

    query: int
    bits: int
    url: bytes
    simhash: int


def rotated(simhashes: Numbers) -> Numbers:
    """Returns SimHashes with their halves exchanged."""
    return simhashes << np.uint64(32) | simhashes >> np.uint64(32)


def url_number(url: bytes) -> int:
    """Returns the hash of a URL, 64 bits."""
    return xxhash.xxh3_64_intdigest(url)


def digest_number(digest: bytes) -> int:
    """Returns the first 64 bits of a digest."""
    return int.from_bytes(digest[:8].ljust(8, b"\0"), "big")


def payload_line(digest: bytes, first: bytes) -> bytes:
    """Returns the line of a payload; `first` has time, URL and reading."""
    return digest[:DIGEST].ljust(DIGEST, b"\0").hex().encode() + b" " + first


class _NamesWriter:
    """Writes lines in compressed blocks."""

    def __init__(self, folder: Path, kind: str) -> None:
        self._file = (folder / f"{kind}_names").open("wb")
        self._offsets = (folder / f"{kind}_blocks").open("wb")
        self._size = 0
        self._lines: list[bytes] = []

    def add(self, lines: Sequence[bytes]) -> None:
        self._lines += lines
        whole = len(self._lines) // _LINES * _LINES
        for start in range(0, whole, _LINES):
            self._write(self._lines[start : start + _LINES])
        del self._lines[:whole]

    def _write(self, lines: Sequence[bytes]) -> None:
        block = zlib_ng.compress(b"\n".join(lines), _COMPRESSION)
        self._file.write(block)
        self._offsets.write(self._size.to_bytes(8, "little"))
        self._size += len(block)

    def close(self) -> None:
        if self._lines:
            self._write(self._lines)
        self._file.close()
        self._offsets.write(self._size.to_bytes(8, "little"))
        self._offsets.close()


def write_run(
    folder: Path,
    texts: Iterable[SortedTexts],
    payloads: Iterable[list[bytes]],
    most: tuple[int, int],
    superseded: Numbers,
) -> None:
    """Writes the files of a run into a folder; `most` bounds the number of texts and of payloads.

    The texts come in ascending order of their SimHashes, the lines of payloads in ascending order.
    """
    counts = {"texts": most[0], "rotated": most[0], "digests": most[1], "urls": most[0]}
    writers = {name: TableWriter(folder / name, counts[name], bits) for name, bits in TABLES.items()}
    halves, urls = NumberSorter(folder, "rotated"), NumberSorter(folder, "urls")
    names = _NamesWriter(folder, "text")
    for simhashes, lines in texts:
        writers["texts"].add(simhashes)
        halves.add(rotated(simhashes))
        urls.add(np.fromiter(map(url_number, lines), np.uint64, len(lines)))
        names.add(lines)
    names.close()
    for name, sorter in (("rotated", halves), ("urls", urls)):
        for numbers in sorter.sorted():
            writers[name].add(numbers)
    names = _NamesWriter(folder, "payload")
    for lines in payloads:
        digests = bytes.fromhex(b"".join([line[:16] for line in lines]).decode())
        writers["digests"].add(np.frombuffer(digests, ">u8").astype(np.uint64))
        names.add(lines)
    names.close()
    (folder / "superseded").write_bytes(np.unique(superseded).astype("<u8").tobytes())
    shapes = {name: writer.close() for name, writer in writers.items()}
    tables = {name: [shape.count, shape.upper, shape.lower] for name, shape in shapes.items()}
    files = {name: [(folder / name).stat().st_size, _checksum(folder / name)] for name in CACHED}
    (folder / "run.json").write_text(json.dumps({"format": _FORMAT, "tables": tables, "files": files}))


def store_run(store: ObjectStore, name: str, folder: Path, interrupted: Callable[[], bool] = never) -> None:
    """Stores the files that `write_run` wrote; "run.json" comes last, so a run that has it is complete.

    Raises StoreError once `interrupted` returns True.
    """
    for file in (*CACHED, *_OTHERS, "run.json"):
        store.put_file(f"{name}/{file}", folder / file, interrupted)


def _checksum(path: Path) -> str:
    hashed = xxhash.xxh3_64()
    with path.open("rb") as file:
        while piece := file.read(_HASHED_AT_ONCE):
            hashed.update(piece)
    return hashed.hexdigest()


@dataclass(frozen=True, slots=True)
class _Description:
    """What run.json says of the files of a run."""

    where: str
    shapes: Mapping[str, TableShape]
    files: Mapping[str, tuple[int, str]]

    @classmethod
    def parse(cls, where: str, text: bytes) -> _Description:
        try:
            described: dict[str, Any] = json.loads(text)
            if described["format"] != _FORMAT:
                raise ValueError(f"its format is {described['format']}, not {_FORMAT}")
            shapes = {table: TableShape(*described["tables"][table]) for table in TABLES}
            files = {name: (int(size), str(known)) for name, (size, known) in described["files"].items()}
            if missing := set(CACHED) - files.keys():
                raise ValueError(f"it says nothing of {', '.join(sorted(missing))}")
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise RunDamaged(f"{where} is damaged: {error}") from error
        return cls(where, shapes, files)

    def check(self, name: str, path: Path, *, whole: bool) -> None:
        """Raises RunDamaged if the size of a file differs, or with `whole` its checksum."""
        size, known = self.files[name]
        if (actual := path.stat().st_size) != size:
            raise RunDamaged(f"{self.where} is damaged: {name} has {actual} bytes instead of {size}")
        if whole and _checksum(path) != known:
            raise RunDamaged(f"{self.where} is damaged: the checksum of {name} differs")


def _copied(store: ObjectStore, name: str, folder: Path, check: Callable[[Path, bool], object]) -> Path:
    """Returns the path of a sound local copy of an object, or of the object if the store is a folder.

    `check` raises RunDamaged for a damaged file, which may be a new copy; an older damaged copy is replaced.
    """
    path = folder / name
    if path.exists():
        try:
            check(path, False)
        except RunDamaged as error:
            logger.warning("%s, the copy of a sealed run, is copied again: %s", path, error)
            path.unlink(missing_ok=True)
        else:
            return path
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="copy-", dir=folder) as unfinished:
        copy = store.fetch(name, Path(unfinished))
        is_copy = copy.is_relative_to(unfinished)
        check(copy, is_copy)
        if not is_copy:
            return copy
        path.parent.mkdir(parents=True, exist_ok=True)
        return copy.replace(path)


class _Names:
    """The lines of a run, which are read from the store in blocks; the blocks that were used last are kept."""

    def __init__(self, read: Callable[[int, int], bytes], offsets: Path) -> None:
        self._read = read
        self._offsets = np.memmap(offsets, "<u8", "r")
        self._kept: OrderedDict[int, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def line(self, position: int) -> bytes:
        block, number = divmod(position, _LINES)
        return self.block(block)[number]

    def block(self, block: int) -> list[bytes]:
        with self._lock:
            if block in self._kept:
                self._kept.move_to_end(block)
                return self._kept[block].split(b"\n")
        lines = self._unpacked(block)
        with self._lock:
            self._kept[block] = lines
            if len(self._kept) > _CACHED_BLOCKS:
                self._kept.popitem(last=False)
        return lines.split(b"\n")

    def _unpacked(self, block: int) -> bytes:
        start, stop = (int(self._offsets[block + after]) for after in (0, 1))
        try:
            return zlib_ng.decompress(self._read(start, stop - start))
        except zlib_ng.error as error:  # type: ignore[misc]  # its stub has an instance
            raise RunDamaged(f"a block of names is damaged: {error}") from error

    def lines(self, start: int, stop: int) -> list[bytes]:
        """Returns lines from one position to another, without keeping their blocks."""
        lines: list[bytes] = []
        first = start // _LINES
        for block in range(first, -(-stop // _LINES)):
            lines += self._unpacked(block).split(b"\n")
        return lines[start - first * _LINES : stop - first * _LINES]


class SealedRun:
    """A run of which this machine has copies of the tables. Methods block, and raise StoreError."""

    def __init__(self, store: ObjectStore, name: str, folder: Path) -> None:
        """Copies the tables into `folder`, unless it has them; raises StoreError for a damaged or missing run."""
        self.name, where = name, store.uri(name)
        self._is_reported = False

        def described(path: Path, _: bool = True) -> _Description:
            return _Description.parse(where, path.read_bytes())

        def check(file: str, path: Path, is_new: bool) -> None:
            self._described.check(file, path, whole=is_new or file not in TABLES)

        self._described = described(_copied(store, f"{name}/run.json", folder, described))
        self._paths = {
            file: _copied(store, f"{name}/{file}", folder, partial(check, file)) for file in CACHED
        }
        self.is_copied = any(path.is_relative_to(folder) for path in self._paths.values())
        """Whether this machine has copies of the tables."""
        try:
            self._tables = {
                table: SortedTable(self._paths[table], shape)
                for table, shape in self._described.shapes.items()
            }
            self._superseded = np.fromfile(self._paths["superseded"], "<u8")
            self._text_names, self._payload_names = (
                _Names(partial(store.read, f"{name}/{kind}_names"), self._paths[f"{kind}_blocks"])
                for kind in ("text", "payload")
            )
        except (ValueError, OSError) as error:
            raise RunDamaged(f"{where} is damaged: {error}") from error

    def verify(self) -> None:
        """Reads all tables; raises RunDamaged if the checksum of any differs."""
        for file, path in self._paths.items():
            self._described.check(file, path, whole=True)

    def verify_names(self) -> None:
        """Reads all names from the store; raises RunDamaged if a block is damaged, or StoreError."""
        for names, count in ((self._text_names, self.texts), (self._payload_names, self.payloads)):
            for start in range(0, count, _LINES):
                most = min(_LINES, count - start)
                if len(names.lines(start, start + most)) != most:
                    raise RunDamaged(f"{self._described.where} is damaged: a block of names is too short")

    @property
    def texts(self) -> int:
        return len(self._tables["texts"])

    @property
    def payloads(self) -> int:
        return len(self._tables["digests"])

    @property
    def superseded(self) -> Numbers:
        """The hashes of URLs whose texts in older runs are outdated, in ascending order."""
        return self._superseded

    def near(self, texts: Sequence[int], distance: int) -> list[NearText]:
        """Returns all texts within `distance` bits of each of these SimHashes."""
        simhashes = np.array(texts, np.uint64)
        ranks: dict[tuple[int, int], int] = {}
        table = self._tables["texts"]
        for query, number in self._near_numbers(table, simhashes, distance):
            ranks[query, number] = (number ^ int(simhashes[query])).bit_count()
        for query, half in self._near_numbers(self._tables["rotated"], rotated(simhashes), distance):
            number = half >> 32 | (half & 0xFFFF_FFFF) << 32
            ranks[query, number] = (number ^ int(simhashes[query])).bit_count()
        if not ranks:
            return []
        numbers = np.fromiter((number for _, number in ranks), np.uint64, len(ranks))
        starts, stops = (positions.tolist() for positions in table.ranges(numbers, 64))
        return [
            NearText(query, bits, self._text_names.line(position), number)
            for ((query, number), bits), start, stop in zip(ranks.items(), starts, stops, strict=True)
            for position in range(start, stop)
        ]

    @staticmethod
    def _near_numbers(table: SortedTable, numbers: Numbers, distance: int) -> Iterable[tuple[int, int]]:
        """Yields pairs of a query and a near number of the table.

        They differ in at most `distance` bits, and in at most half as many in their first half.
        """
        masks = _masks(distance // 2)
        probes = (numbers[:, None] ^ masks).ravel()
        starts, stops = table.ranges(probes, 32)
        filled = np.flatnonzero(starts < stops)
        ends = np.cumsum(stops[filled] - starts[filled])
        while len(filled):
            # at least one range, however long
            some = max(1, int(np.searchsorted(ends, _CANDIDATES_AT_ONCE, "right")))
            chosen, filled = filled[:some], filled[some:]
            ends = ends[some:] - ends[some - 1]
            counts = stops[chosen] - starts[chosen]
            positions = _ranges(starts[chosen], counts)
            candidates = table.at(positions, np.repeat(probes[chosen], counts))
            queries = np.repeat(chosen // len(masks), counts)
            is_near = np.bitwise_count(candidates ^ numbers[queries]) <= distance
            yield from zip(queries[is_near].tolist(), candidates[is_near].tolist(), strict=True)

    def payload_firsts(self, digests: Sequence[bytes]) -> dict[int, bytes]:
        """Returns time, URL and reading of the payloads that the run has, by their number in `digests`."""
        table = self._tables["digests"]
        numbers = np.fromiter(map(digest_number, digests), np.uint64, len(digests))
        starts, stops = table.ranges(numbers, 64)
        firsts: dict[int, bytes] = {}
        for number in np.flatnonzero(starts < stops).tolist():
            key = payload_line(digests[number], b"")
            for position in range(starts[number], stops[number]):
                if (line := self._payload_names.line(position)).startswith(key):
                    firsts[number] = line[len(key) :]
        return firsts

    def may_have(self, urls: Numbers) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Returns for hashes of URLs whether the run may have a text of the URL; True for 2 % of all others.

        A damaged run may have all, which costs 8 bytes for each later text, but keeps no outdated text.
        """
        try:
            starts, stops = self._tables["urls"].ranges(urls, 64)
        except StoreError as error:
            if not self._is_reported:
                self._is_reported = True
                logger.error("%s: each URL counts as if it had a text there", error)
            return np.full(len(urls), True)
        return starts < stops

    def supersedes(self, url: bytes) -> bool:
        """Returns whether the texts of a URL in older runs are outdated."""
        number = np.uint64(url_number(url))
        at = int(np.searchsorted(self._superseded, number))
        return at < len(self._superseded) and bool(self._superseded[at] == number)

    def sorted_texts(self, bounds: Numbers) -> Iterable[SortedTexts]:
        """Yields the texts from each bound to the next; the first bound is 0."""
        table = self._tables["texts"]
        starts = [*table.starts(bounds).tolist(), self.texts]
        for start, stop in zip(starts, starts[1:], strict=False):
            yield table.numbers(start, stop), self._text_names.lines(start, stop)

    def payload_lines(self, bounds: Numbers) -> Iterable[list[bytes]]:
        """Yields the lines of payloads whose digests are from each bound to the next; the first bound is 0."""
        starts = [*self._tables["digests"].starts(bounds).tolist(), self.payloads]
        for start, stop in zip(starts, starts[1:], strict=False):
            yield self._payload_names.lines(start, stop)


def may_have(runs: Sequence[SealedRun], urls: Numbers) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Returns for hashes of URLs whether any of the runs may have a text of them; see `SealedRun.may_have`."""
    having = np.zeros(len(urls), np.bool_)
    for run in runs:
        having |= run.may_have(urls)
    return having


def _masks(bits: int) -> Numbers:
    """Returns all numbers with at most `bits` bits in their upper half, and none below."""
    return np.array(
        [
            sum(1 << 32 + bit for bit in chosen)
            for many in range(bits + 1)
            for chosen in combinations(range(32), many)
        ],
        np.uint64,
    )


def _ranges(starts: Positions, counts: Positions) -> Positions:
    """Returns the positions of ranges, one range after the other."""
    offsets = np.cumsum(counts) - counts
    return np.repeat(starts - offsets, counts) + np.arange(int(counts.sum()))
