"""The index of many pages: how long it takes to make and to bring up to date, its memory and its size.

    make bench-index ARGS="--pages 100000"

The pages are generated from paragraphs of the documentation that is installed, each page with words of its own. Table
`pages` and the files of texts are written as a crawl leaves them; commands of the project do the rest. Memory is the
largest resident size of the command and its processes.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow
import pyarrow.parquet
from lxml import html

from benchmarks.command import ROOT, command_line, scrapy, size_of, table, write_figures
from benchmarks.sites import available
from webcrawl.documents.page import Page
from webcrawl.results.exports.parts import exported_rows
from webcrawl.stores.columns import pages
from webcrawl.stores.metadata import Metadata
from webcrawl.stores.tables import texts

PAGES = 1_000_000
CHANGED = 0.01
CHARACTERS = 3_000
"""The mean number of characters of a page."""
BATCH, PAGES_A_FILE, PAGES_A_HOST = 2_000, 20_000, 500
START = datetime(2026, 2, 3, tzinfo=UTC)


EMPTY = dict.fromkeys(pages.columns.keys())
"""The columns of a row that a crawl does not set."""


class Step(NamedTuple):
    """A command: its seconds, its processor time, its highest resident memory in MB, and the bytes of the index."""

    step: str
    seconds: float
    cpu: float
    peak_mb: float
    index_mb: float


def paragraphs() -> list[str]:
    """Returns the paragraphs of the documentation that is installed, without repetitions."""
    known = dict[str, None]()
    for site in available():
        for path in sorted(site.folder.rglob("*.html")):
            for element in html.fromstring(path.read_bytes()).iter("p", "pre", "dd", "li"):
                text = " ".join(element.text_content().split())
                if 80 <= len(text) <= 2_000:
                    known[text] = None
    return list(known)


class GeneratedPages:
    """Pages by number. The same number and version give the same page."""

    def __init__(self) -> None:
        self._paragraphs = paragraphs()
        self.words = len({word for text in self._paragraphs for word in text.split()})

    def __len__(self) -> int:
        return len(self._paragraphs)

    def texts(self, number: int, version: int) -> tuple[str, str]:
        """Returns title and text of a page."""
        chance = random.Random(number * 16 + version)
        own = f"{chance.randrange(1 << 40):x}"
        parts, length, wanted = [f"Item {own}."], 0, chance.expovariate(1 / CHARACTERS) + 200
        while length < wanted:
            part = chance.choice(self._paragraphs)
            parts.append(part)
            length += len(part)
        title = " ".join(parts[1].split()[:8])
        return f"{title} {own}", "\n".join(parts)


def rows(
    generated: GeneratedPages, numbers: Sequence[int], version: int
) -> Iterator[tuple[dict[str, Any], str]]:
    """Yields rows of table `pages`, and the text of each."""
    for number in numbers:
        host = f"http://h{number // PAGES_A_HOST}.example"
        fetched_at = START + timedelta(days=version, milliseconds=number)
        title, text = generated.texts(number, version)
        page = Page(url=f"{host}/{number}", host=host, fetched_at=fetched_at)
        page.status, page.mime_type, page.title, page.language = 200, "text/html", title, "en"
        page.digest = f"{number:x}-{version}"
        yield page.row() | {"warc_file": "generated.warc.gz", "importance": 1.0, "crawl": "generated"}, text


def write_pages(home: Path, generated: GeneratedPages, numbers: Sequence[int], version: int) -> None:
    """Writes rows and texts as a crawl leaves them."""
    folder = home / "texts"
    folder.mkdir(exist_ok=True)
    with Metadata(f"sqlite:///{home / 'metadata.db'}") as metadata:
        for first in range(0, len(numbers), PAGES_A_FILE):
            path = folder / f"generated-{version}-{first:09}.parquet"
            with pyarrow.parquet.ParquetWriter(path, texts.schema(), compression="zstd") as writer:
                for start in range(first, min(first + PAGES_A_FILE, len(numbers)), BATCH):
                    end = min(start + BATCH, first + PAGES_A_FILE)
                    batch = list(rows(generated, numbers[start:end], version))
                    metadata.upsert([row for row, _ in batch])
                    stored = exported_rows({**EMPTY, **row} for row, _ in batch)
                    written = [{**row, "text": text} for row, (_, text) in zip(stored, batch, strict=True)]
                    writer.write_table(pyarrow.Table.from_pylist(written, schema=texts.schema()))


def run(step: str, home: Path, *words: str) -> Step:
    """Runs `scrapy search --update` in a process of its own, so that its peak is its own."""
    command = scrapy("search", "--update", "--json", *words, DATA_DIR=home)
    measured, began = [sys.executable, str(ROOT / "benchmarks/measured.py"), "--"], time.perf_counter()
    done = subprocess.run([*measured, *command], cwd=ROOT, check=True, capture_output=True, text=True)
    seconds, cost = time.perf_counter() - began, json.loads(done.stdout)
    figures = next(line for line in done.stderr.splitlines() if line.startswith("{"))
    print(f"{step}: {figures}", flush=True)
    if cost["exit_code"] or json.loads(figures)["unread"]:
        raise SystemExit(done.stderr)
    size = size_of(home / "index")
    return Step(
        step, round(seconds, 1), round(cost["crawler_cpu"], 1), round(cost["crawler_peak"]), round(size / 1e6)
    )


def main() -> None:
    folder = Path, "where to write; by default a folder that is deleted"
    args = command_line(__doc__, json=True, pages=PAGES, folder=folder).parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        home = args.folder or Path(temporary)
        generated, began = GeneratedPages(), time.perf_counter()
        print(f"{len(generated):,} paragraphs with {generated.words:,} words", flush=True)
        write_pages(home, generated, range(args.pages), 0)
        print(f"{args.pages:,} pages written in {time.perf_counter() - began:,.0f} s", flush=True)
        steps = [run("make", home), run("update without a change", home)]
        changed = random.Random(1).sample(range(args.pages), max(1, int(args.pages * CHANGED)))
        write_pages(home, generated, sorted(changed), 1)
        steps.append(run(f"update with {CHANGED:.0%} changed", home))
    print(table("step|seconds:|CPU seconds:|peak MB:|index MB:", steps))
    write_figures(args.json, pages=args.pages, steps=[step._asdict() for step in steps])


if __name__ == "__main__":
    main()
