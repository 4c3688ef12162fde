"""The sealed runs of the index of duplicates: bytes a page, look-ups a second, recall (`make bench-duplicates`).

It writes runs of synthetic fingerprints as a crawl seals them, merges them, and looks pages up in batches as workers
do. The URLs are generated; a tenth of the looked-up pages are near-duplicates, each in exactly 0 to 3 bits. Recall is
compared with the present index for a sample: the texts that share a block with the query, compared one by one.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.command import command_line, write_figures
from webcrawl.documents.simhash_blocks import blocks
from webcrawl.stores.objects.folder import FolderStore
from webcrawl.stores.sealed.merging import merge_runs, to_merge
from webcrawl.stores.sealed.runs import CACHED, DIGEST, TABLES, SealedRun, payload_line, store_run, write_run
from webcrawl.stores.sealed.tables import Numbers, TableShape

_RUN = 2_000_000
_BATCH = 200
_DISTANCE = 3


def main() -> None:
    parser = command_line(
        __doc__,
        json=True,
        texts=(100e6, "texts, and as many payloads"),
        lookups=20_000,
        checked=(50, "look-ups that are compared with all texts"),
        folder=(Path, "where to write; default: the folder for temporary files"),
    )
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="duplicates-", dir=chosen.folder) as folder:
        figures = measured(Path(folder), int(chosen.texts), chosen.lookups, chosen.checked)
    for name, value in figures.items():
        print(f"{name:44} {value:,.3f}" if isinstance(value, float) else f"{name:44} {value:,}")
    write_figures(chosen.json, **figures)


def measured(folder: Path, texts: int, lookups: int, checked: int) -> dict[str, float | int]:
    """Returns the figures of an index with so many texts and payloads."""
    figures: dict[str, float | int] = {"texts": texts, "payloads": texts}
    store, random = FolderStore((folder / "store").as_uri()), np.random.default_rng(39)
    simhashes = random.integers(0, 2**64, texts, np.uint64, endpoint=False)
    began = time.process_time()
    parts = [Part(simhashes[start : start + _RUN], start) for start in range(0, texts, _RUN)]
    runs = [stored(store, folder, f"part{number}", part.write) for number, part in enumerate(parts)]
    made = sum(part.made for part in parts)
    figures["sealing, us of CPU an entry"] = (time.process_time() - began - made) / texts / 2 * 1e6
    began = time.process_time()
    run = stored(store, folder, "all", lambda files: merge_runs(runs, files, is_oldest=True))
    figures["merging, us of CPU an entry"] = (time.process_time() - began) / texts / 2 * 1e6
    figures["times that an entry is written, up to 15 G"] = writes(30_000_000_000 // 250_000)
    sizes = {file: (folder / "store" / "all" / file).stat().st_size / texts for file in CACHED}
    figures |= {f"bytes a page: {file}": size for file, size in sizes.items()}
    figures["bytes a page on each machine"] = sum(sizes.values())
    names = ((folder / "store" / "all" / f"{kind}_names").stat().st_size for kind in ("text", "payload"))
    figures["bytes a page in the store only (URLs)"] = sum(names) / texts
    figures["bytes a page in memory: directories, offsets"] = directories(texts) + sum(
        sizes[f"{kind}_blocks"] for kind in ("text", "payload")
    )
    for runs_of in ([run], runs[: min(5, len(runs))]):
        label = f"in {len(runs_of)} runs"
        figures |= look_up(runs_of, simhashes, lookups, random, label)
    figures["recall at distance 3"], figures["same answers as by blocks of 16 bits"] = recall(
        run, simhashes, checked, random
    )
    figures["bytes a page at 15 G, by arithmetic"] = arithmetic(15_000_000_000)
    figures["bytes a page of this size, by arithmetic"] = arithmetic(texts)
    return figures


def stored(store: FolderStore, folder: Path, name: str, write: Callable[[Path], None]) -> SealedRun:
    with tempfile.TemporaryDirectory(dir=folder) as files:
        write(Path(files))
        store_run(store, name, Path(files))
    return SealedRun(store, name, folder / "copies")


class Part:
    """A run with some texts and as many payloads; `made` has the seconds that its URLs and digests took."""

    def __init__(self, simhashes: Numbers, seed: int) -> None:
        self._simhashes, self._seed = simhashes, seed
        self.made = 0.0

    def write(self, files: Path) -> None:
        """Writes the files of the run."""
        began = time.process_time()
        texts = np.sort(self._simhashes)
        urls = [
            b"https://www.example%d.org/section/%d/article-%d.html" % (number % 9_973, number % 31, number)
            for number in texts.tolist()
        ]
        digests = np.random.default_rng(self._seed).bytes(DIGEST * len(urls))
        lines = [
            payload_line(
                digests[DIGEST * n : DIGEST * n + DIGEST], b"1764460000.%06d %b text/html" % (n, url)
            )
            for n, url in enumerate(urls)
        ]
        lines.sort()
        self.made = time.process_time() - began
        write_run(files, [(texts, urls)], [lines], (len(urls), len(urls)), texts[:0])


def look_up(
    runs: Sequence[SealedRun], simhashes: Numbers, lookups: int, random: np.random.Generator, label: str
) -> dict[str, float | int]:
    """Looks up new texts in batches, a tenth of which are near-duplicates, and as many payloads."""
    queries = random.integers(0, 2**64, lookups, np.uint64, endpoint=False)
    queries[::10] = flipped(simhashes[: runs[0].texts * len(runs)], len(queries[::10]), random)
    digests = [random.bytes(20) for _ in range(lookups)]
    began, cpu = time.perf_counter(), time.process_time()
    for start in range(0, lookups, _BATCH):
        for run in runs:
            run.near(queries[start : start + _BATCH].tolist(), _DISTANCE)
            run.payload_firsts(digests[start : start + _BATCH])
    spent, cpu = time.perf_counter() - began, time.process_time() - cpu
    return {
        f"look-ups a second {label}": lookups / spent,
        f"us of CPU a look-up {label}": cpu / lookups * 1e6,
    }


def flipped(simhashes: Numbers, count: int, random: np.random.Generator) -> Numbers:
    """Returns texts that differ in up to three bits from some of these."""
    chosen = random.choice(simhashes, count)
    for flips in range(_DISTANCE):
        some = random.random(count) < (flips + 1) / 4
        chosen[some] ^= np.uint64(1) << random.integers(0, 64, int(some.sum()), np.uint64)
    return chosen


def recall(
    run: SealedRun, simhashes: Numbers, checked: int, random: np.random.Generator
) -> tuple[float, float]:
    """Returns the share of near texts that the run finds, and of look-ups with exactly the texts that blocks give."""
    queries = flipped(simhashes, checked, random).tolist()
    answers: list[set[int]] = [set() for _ in queries]
    for text in run.near(queries, _DISTANCE):
        answers[text.query].add(text.simhash)
    near = same = wanted = 0
    for query, answer in zip(queries, answers, strict=True):
        mine = blocks(query)
        shares = np.zeros(len(simhashes), np.bool_)
        for number, block in enumerate(mine):
            shares |= simhashes >> np.uint64(16 * number) & np.uint64(0xFFFF) == np.uint64(block & 0xFFFF)
        candidates = simhashes[shares]
        by_blocks = set(candidates[np.bitwise_count(candidates ^ np.uint64(query)) <= _DISTANCE].tolist())
        near += len(by_blocks & answer)
        wanted += len(by_blocks)
        same += by_blocks == answer
    return near / wanted, same / checked


def directories(texts: int) -> float:
    """Returns the bytes a page of the directories of the four tables."""
    shapes = [TableShape.of(texts, bits) for bits in TABLES.values()]
    return sum(shape.position.itemsize * (1 << shape.upper) for shape in shapes) / texts


def arithmetic(texts: int) -> float:
    """Returns the bytes a page on each machine."""
    shapes = [TableShape.of(texts, bits) for bits in TABLES.values()]
    tables = sum(shape.packed_bytes + shape.position.itemsize * (1 << shape.upper) for shape in shapes)
    return (tables + 2 * 8 * texts / 64) / texts


def writes(seals: int) -> float:
    """Returns how often an entry is written, on average, while so many runs of equal size are sealed and merged."""
    sizes: list[int] = []
    written = 0
    for _ in range(seals):
        sizes.append(1)
        written += 1
        if newest := to_merge(sizes):
            written += (merged := sum(sizes[-newest:]))
            sizes[-newest:] = [merged]
    return written / seals


if __name__ == "__main__":
    main()
