"""The metadata database: upserts, repeated fetches with history, random reads; in SQLite, and in PostgreSQL at a URI.

make bench-metadata ARGS="--uri postgresql://crawler@/crawl"
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.command import command_line
from webcrawl.documents.page import Page
from webcrawl.stores.metadata import Metadata

BATCH = 500
HOSTS = 1_000
BARS = {"first fetches": 5_000, "fetched again, with history": 5_000, "random reads": 10_000}
START = datetime(2026, 1, 1, tzinfo=UTC)


def row(number: int, visit: int) -> dict[str, Any]:
    """A page as a crawl stores it, with the fields that most pages have."""
    host = f"https://www{number % HOSTS}.example.org"
    page = Page(
        url=f"{host}/articles/2026/{number}/a-title-of-some-words.html",
        host=host,
        fetched_at=START + timedelta(days=visit, milliseconds=number),
        status=200,
        depth=3,
        referrer=f"{host}/articles/2026/",
        mime_type="text/html",
        charset="utf-8",
        length=60_000 + visit,
        digest=f"sha1:{number:028d}{visit:04d}",
        simhash=random.getrandbits(64),
        title=f"An article with the number {number}",
        description="What an author says of it in a sentence or two, of about a hundred and fifty characters. "
        * 2,
        language="en",
        etag=f'"{number:x}-{visit}"',
        last_modified="Thu, 01 Jan 2026 00:00:00 GMT",
        warc_file="broad-20260101000000000-00001-4711-worker.warc.gz",
        warc_offset=number * 12_345,
        warc_length=12_345,
        latency=0.123,
    )
    return page.row()


class Rate(NamedTuple):
    """Operations a second, and microseconds of CPU in this process for each."""

    each_second: float
    cpu: float


def rate(count: int, work: Callable[[], object]) -> Rate:
    began = time.perf_counter(), time.process_time()
    work()
    return Rate(count / (time.perf_counter() - began[0]), (time.process_time() - began[1]) / count * 1e6)


def write(metadata: Metadata, rows: list[dict[str, Any]]) -> None:
    for start in range(0, len(rows), BATCH):
        metadata.upsert(rows[start : start + BATCH])


def measure(uri: str, count: int, reads: int) -> dict[str, Rate]:
    """The rates, by the names in `BARS`."""
    dice = random.Random(1)
    figures = {}
    with Metadata(uri) as metadata:
        first = [row(number, 0) for number in range(count)]
        figures["first fetches"] = rate(count, lambda: write(metadata, first))
        again = [row(number, 1) for number in dice.sample(range(count), count)]
        figures["fetched again, with history"] = rate(count, lambda: write(metadata, again))
        urls = [dice.choice(first)["url"] for _ in range(reads)]
        figures["random reads"] = rate(reads, lambda: [metadata.get(url) for url in urls])
        figures["scanned in host order"] = rate(count, lambda: sum(1 for _ in metadata.scan()))
    return figures


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--uri", help="an empty database; a SQLite file in a temporary folder by default")
    parser.add_argument("--pages", type=int, default=50_000)
    parser.add_argument("--reads", type=int, default=50_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "metadata.db"
        figures = measure(options.uri or f"sqlite:///{file}", options.pages, options.reads)
        for name, value in figures.items():
            bar = f"   bar {BARS[name]:,}" if name in BARS else ""
            print(f"{name:28} {value.each_second:10,.0f} /s {value.cpu:6.1f} us CPU{bar}")
        if not options.uri:
            size = sum(path.stat().st_size for path in Path(folder).glob("*.db"))
            print(f"{'bytes a page, both fetches':28} {size / options.pages:10,.0f}")


if __name__ == "__main__":
    main()
