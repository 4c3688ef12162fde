"""How many changed copies of pages are put into the cluster of their original, beside other methods.

    make bench-copies

The pages are the main texts of installed documentation with 100 words or more. Of 500 of them there is a copy in which
1, 5 or 10 % of the words are replaced, dropped or preceded by others, or of which only the first half is left. Each
kind of copy is clustered with all pages. Recall is the share of copies that are with their original. Precision is the
share of originals among the pages that are with a copy: real near-duplicates of an original count as errors.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet
from datasketch import MinHash, MinHashLSH

from benchmarks.command import command_line, seconds_of, table
from benchmarks.main_parts import this_project
from benchmarks.sites import available
from webcrawl.clusters.clustering import write_clusters
from webcrawl.clusters.minhash import BANDS, ROWS, SHINGLE, signatures
from webcrawl.documents.simhash import hashed_shingles, simhash64
from webcrawl.documents.simhash_blocks import distance
from webcrawl.stores.tables.store import TableFile

LEAST = 0.37
"""The default of the command. It was chosen on 500 other pages than those of `report`."""
SIMILAR = 0.4
_HASHES = BANDS * ROWS
LEAST_WORDS = 100
_SEED = 38
_SIMHASH_DISTANCE = 3


class Found(NamedTuple):
    """The neighbours of each copy, by its number, and the seconds of CPU that it took."""

    neighbours: Mapping[int, set[int]]
    seconds: float


def page_texts() -> list[str]:
    """Returns the texts of installed documentation."""
    paths = (path for site in available() for path in sorted(site.folder.rglob("*.html")))
    texts = (this_project(path.read_bytes()) for path in paths)
    return [text for text in texts if len(text.split()) >= LEAST_WORDS]


def edited(text: str, share: float, chance: random.Random, vocabulary: Sequence[str]) -> str:
    """Returns a text in which a share of the words is replaced, dropped, or preceded by another word."""
    words = text.split(" ")
    for number in chance.sample(range(len(words)), max(1, round(share * len(words)))):
        other, way = chance.choice(vocabulary), chance.randrange(3)
        words[number] = (other, "", f"{other} {words[number]}")[way]
    return " ".join(words)


def first_half(text: str) -> str:
    words = text.split(" ")
    return " ".join(words[: len(words) // 2])


def clustered(texts: Sequence[str], copies: Sequence[int]) -> Found:
    """Finds neighbours by `scrapy copies --clusters`."""
    with tempfile.TemporaryDirectory() as folder:
        source, path = Path(folder, "texts.parquet"), Path(folder, "clusters.parquet")
        urls = [f"http://pages.example/{number}" for number in range(len(texts))]
        pyarrow.parquet.write_table(pyarrow.table({"url": urls, "text": texts}), source)
        began = time.process_time()
        write_clusters([partial(TableFile, str(source), source)], path, least=LEAST)
        seconds = time.process_time() - began
        rows = pyarrow.parquet.read_table(path, columns=["url", "cluster_id"]).to_pylist()
    clusters: dict[int, set[int]] = {}
    for row in rows:
        clusters.setdefault(row["cluster_id"], set()).add(int(row["url"].rpartition("/")[2]))
    cluster_of = {number: numbers for numbers in clusters.values() for number in numbers}
    return Found({copy: cluster_of[copy] - {copy} for copy in copies}, seconds)


def by_datasketch(texts: Sequence[str], copies: Sequence[int], *, least: float = 0) -> Found:
    """Finds neighbours by datasketch's MinHashLSH with the same shingles and bands."""
    began = time.process_time()
    index = MinHashLSH(num_perm=_HASHES, params=(BANDS, ROWS))
    sketches = []
    for number, text in enumerate(texts):
        sketch = MinHash(num_perm=_HASHES, seed=1)
        sketch.update_batch([shingle.tobytes() for shingle in hashed_shingles(text, SHINGLE)])
        index.insert(number, sketch)
        sketches.append(sketch)
    found = {
        copy: {
            other
            for other in index.query(sketches[copy])
            if other != copy and sketches[copy].jaccard(sketches[other]) >= least
        }
        for copy in copies
    }
    return Found(found, time.process_time() - began)


def by_simhash(texts: Sequence[str], copies: Sequence[int]) -> Found:
    """Finds neighbours by the SimHash that a crawl computes."""
    began = time.process_time()
    hashes = [simhash64(text) for text in texts]
    found: dict[int, set[int]] = {copy: set() for copy in copies}
    for copy in copies:
        own = hashes[copy]
        for other, value in enumerate(hashes):
            if other == copy or own is None or value is None:
                continue
            if distance(own, value) <= _SIMHASH_DISTANCE:
                found[copy].add(other)
    return Found(found, time.process_time() - began)


METHODS: Mapping[str, Callable[[Sequence[str], Sequence[int]], Found]] = {
    "`scrapy copies --clusters`": clustered,
    "datasketch, all candidates": by_datasketch,
    f"datasketch, similarity {SIMILAR}": partial(by_datasketch, least=SIMILAR),
    "SimHash, distance 3": by_simhash,
}


def kinds(chance: random.Random, vocabulary: Sequence[str]) -> Iterator[tuple[str, Callable[[str], str]]]:
    for percent in (1, 5, 10):
        yield f"{percent} %", partial(edited, share=percent / 100, chance=chance, vocabulary=vocabulary)
    yield "half", first_half


def report(number: int) -> None:
    texts = page_texts()
    chance = random.Random(_SEED)
    originals = chance.sample(range(len(texts)), min(number, len(texts)))
    vocabulary = [word for text in texts[:200] for word in text.split()]
    print(f"{len(texts):,} pages, {len(originals)} copies of each kind. Recall / precision:\n")
    results: dict[str, list[str]] = {method: [] for method in METHODS}
    for _, changed in kinds(chance, vocabulary):
        pages = [*texts, *(changed(texts[original]) for original in originals)]
        copies = range(len(texts), len(pages))
        for method, find in METHODS.items():
            results[method].append(_figures(find(pages, copies), originals, copies, len(pages)))
    print(table("method | 1 %: | 5 %: | 10 %: | half:", [[name, *row] for name, row in results.items()]))
    report_libraries(texts)


def _figures(found: Found, originals: Sequence[int], copies: Sequence[int], pages: int) -> str:
    original_of = dict(zip(copies, originals, strict=True))
    right = sum(original_of[copy] in others for copy, others in found.neighbours.items())
    pairs = sum(len(others) for others in found.neighbours.values())
    recall, precision = right / len(copies), right / pairs if pairs else 1.0
    return f"{recall:.3f} / {precision:.3f} ({1000 * found.seconds / pages:.2f} ms)"


def report_libraries(texts: Sequence[str]) -> None:
    """Prints the CPU time of signatures, without words and shingles."""
    shingles: list[Any] = [hashed_shingles(text, SHINGLE) for text in texts]

    def by_datasketch() -> None:
        for hashes in shingles:
            MinHash(num_perm=_HASHES, seed=1).update_batch([shingle.tobytes() for shingle in hashes])

    datasketch, words, rensa = (
        1e3 * seconds_of(work, time.process_time) / len(texts)
        for work in (
            by_datasketch,
            lambda: [hashed_shingles(text, SHINGLE) for text in texts],
            lambda: signatures(texts),
        )
    )
    print(f"\nSignatures of a page: datasketch {datasketch:.2f} ms", end="")
    print(f", rensa {rensa - words:.3f} ms; its shingles {words:.2f} ms")


def main() -> None:
    report(command_line(__doc__, copies=(500, "copies of each kind")).parse_args().copies)


if __name__ == "__main__":
    main()
