"""The full-text index: how long making it takes, how long searches take, and what is found in documentation.

    make bench-search ARGS="--pages 1e4"
    make bench-search ARGS="--only documentation"

1. Pages of words with the frequencies of a natural language (Zipf), and links to them, are stored as a crawl stores
   them; then they are indexed, and searched.
2. The documentation that is installed is crawled, indexed, and searched as a person would.
"""

from __future__ import annotations

import random
import resource
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pyarrow
import pyarrow.parquet

from benchmarks.command import ROOT, command_line, print_figure, scrapy, seconds_of
from benchmarks.served import crawl_documentation
from benchmarks.sites import SITES
from tests.metadata import row as metadata_row
from webcrawl.search.copies import copies_of
from webcrawl.search.query import Filters
from webcrawl.search.searching import Search
from webcrawl.stores.metadata import Metadata

BARS = {"seconds to index": 300.0, "median, ms": 50.0, "95 of 100 within, ms": 50.0}
START = datetime(2026, 2, 3, tzinfo=UTC)
VOCABULARY = 300_000
MEDIAN_WORDS, SPREAD = 400, 1.0
"""Of the log-normal lengths of pages, whose mean is 660 words."""
LANGUAGES = ["en"] * 10 + ["de", "fr", "es", "ru", "it", "pt", "nl", "sv", "ja", "pl"]
"""Of one page after the other."""
BATCH = 2_000
ROUNDS = 200
QUESTIONS = (
    "read a file line by line",
    "asyncio timeout",
    "regular expression groups",
    "create index concurrently",
    "left join",
    "vacuum full",
    "borrow checker",
    "trait objects",
    "virtual environment",
    '"connection refused"',
)
"""Ten searches of a person who looks something up in the documentation of Python, PostgreSQL and Rust."""


def vocabulary() -> list[str]:
    """Words of two to five syllables, the frequent ones short."""
    dice = random.Random(1)
    syllables = [a + b for a in "bdfghklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "er", "in", "or")]
    words: dict[str, None] = {}
    while len(words) < VOCABULARY:
        words["".join(dice.choices(syllables, k=2 if len(words) < 500 else dice.randrange(3, 6)))] = None
    return list(words)


def texts(pages: int, words: np.ndarray) -> Iterator[str]:
    dice = np.random.default_rng(1)
    shares = 1 / np.arange(1, len(words) + 1)
    edges = np.cumsum(shares / shares.sum())
    for length in dice.lognormal(np.log(MEDIAN_WORDS), SPREAD, pages).astype(int) + 5:
        yield " ".join(words[np.searchsorted(edges, dice.random(min(length, 20_000)))])


def store(folder: Path, pages: int, words: list[str]) -> int:
    """Stores generated pages; returns the bytes of their texts."""
    time = pyarrow.timestamp("us", tz="UTC")
    schema = pyarrow.schema({"url": pyarrow.string(), "fetched_at": time, "text": pyarrow.string()})
    (folder / "texts").mkdir(parents=True)
    path, size = folder / "texts" / "generated.parquet", 0
    numbered = enumerate(texts(pages, np.array(words, dtype=object)))
    with (
        Metadata(f"sqlite:///{folder}/metadata.db") as metadata,
        pyarrow.parquet.ParquetWriter(path, schema, compression="zstd") as file,
    ):
        while batch := list(islice(numbered, BATCH)):
            rows = [row(number, text) for number, text in batch]
            metadata.upsert(rows)
            size += sum(len(text) for _, text in batch)
            stored = [page | {"text": text} for page, (_, text) in zip(rows, batch, strict=True)]
            file.write_table(pyarrow.Table.from_pylist(stored, schema=schema))
    return size


def row(number: int, text: str) -> dict[str, object]:
    facts = {
        "fetched_at": START + timedelta(seconds=number),
        "status": 200,
        "mime_type": "text/html",
        "language": LANGUAGES[number % len(LANGUAGES)],
        "title": " ".join(text.split()[:5]),
        "importance": (number % 97) / 48,
    }
    location = {"warc_file": "generated.warc.gz", "warc_offset": number, "warc_length": 1}
    return metadata_row(f"https://www.site-{number % 500}.example.org/{number}") | facts | location


def generated(folder: Path, pages: int) -> None:
    words = vocabulary()
    size = store(folder, pages, words)
    print(f"{pages:,} generated pages, {size / 1e6:,.0f} MB of text")
    for name in ("to index", "again, nothing new"):
        report(f"seconds {name}", seconds_of(lambda: index(folder)))
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3
    stored = sum(path.stat().st_size for path in (folder / "index").rglob("*") if path.is_file())
    report("MB of memory to index", most)
    report("bytes on disk for a byte of text", stored / size)
    searches(folder, words)
    copies(folder)


def index(folder: Path, *options: str) -> None:
    subprocess.run(scrapy("search", "--update", *options, DATA_DIR=folder), check=True, cwd=ROOT)


def searches(folder: Path, words: list[str]) -> None:
    """Prints how long searches take: words of all frequencies, phrases, and filters."""
    dice, search = random.Random(2), Search(folder / "index")

    def word() -> str:
        return words[int(len(words) ** dice.random() * 0.999)]

    kinds = {
        "one word": lambda: (word(), Filters()),
        "two words": lambda: (f"{word()} {word()}", Filters()),
        "four words": lambda: (" ".join(word() for _ in range(4)), Filters()),
        "two frequent words": lambda: (" ".join(dice.sample(words[:50], 2)), Filters()),
        "a phrase of frequent words": lambda: (f'"{" ".join(dice.sample(words[:50], 2))}"', Filters()),
        "two words on a host": lambda: (f"{word()} {word()}", Filters(host="www.site-7.example.org")),
        "a word since a day": lambda: (word(), Filters(since=START + timedelta(hours=12))),
    }
    for name, make in kinds.items():
        times = []
        for _ in range(ROUNDS):
            times.append(1e3 * seconds_of(partial(search.find, *make())))
        print(f"  {name}")
        report("  median, ms", statistics.median(times))
        report("  95 of 100 within, ms", statistics.quantiles(times, n=20)[-1])


def copies(folder: Path) -> None:
    """Prints how long it takes to find the copies of a page, and of a quarter of it."""
    dice, search = random.Random(3), Search(folder / "index")
    for name, share in (("copies of a page", 1.0), ("copies of a quarter of a page", 0.25)):
        times, recalled = [], 0
        for _ in range(ROUNDS // 10):
            number = dice.randrange(search.searcher.num_docs)
            url = f"https://www.site-{number % 500}.example.org/{number}"
            text = search.text_of(url) or ""
            text = text[: int(len(text) * share)]
            began = time.perf_counter()
            # words without sense have nothing in common but phrases of frequent ones
            hits = copies_of(search, text, "en", least=0.9, bits=3)
            times.append((time.perf_counter() - began) * 1e3)
            recalled += any(hit.entry.url == url for hit in hits)
        print(f"  {name}: {recalled} of {len(times)} found")
        report("  median, ms", statistics.median(times))


def documentation(folder: Path) -> None:
    """Crawls the documentation, and prints the first five results of ten searches."""
    result = crawl_documentation(folder, TEXT="parquet", LINKS=True)
    names = {site.address: site.name for site in SITES}
    report("seconds to index the documentation", seconds_of(lambda: index(result.data_dir)))
    shutil.rmtree(result.data_dir / "texts")
    report("seconds from the archive", seconds_of(lambda: index(result.data_dir, "--again")))
    search = Search(result.data_dir / "index")
    for question in QUESTIONS:
        print(f"\n{question}")
        for hit in search.find(question, limit=5).hits:
            url = urlsplit(hit.entry.url)
            print(f"  {names[str(url.hostname)]}: {hit.entry.title}  {url.path}  {hit.score:.1f}")


def report(name: str, value: float) -> None:
    print_figure(name, value, BARS.get(name.strip()))


def main() -> None:
    parser = command_line(__doc__, ("generated", "documentation"))
    parser.add_argument("--pages", type=float, default=1e5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if "generated" in options.only:
            generated(Path(folder) / "generated", int(options.pages))
        if "documentation" in options.only:
            documentation(Path(folder))


if __name__ == "__main__":
    main()
