"""What weights that `scrapy mine` has learned change, and what mining costs: `make bench-mining [ARGS="--edges 1e6"]`.

Crawls two sites on loopback, of which half of the pages are wanted: breadth-first; then again with what was learned
from the first pages of a crawl. Prints which part of the value, the length of main texts, the first half of the fetches
had. Then mines generated links of 2,000 hosts.
"""

from __future__ import annotations

import json
import random
import resource
import subprocess
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.command import ROOT, command_line, scrapy, seconds_of
from benchmarks.links import generated
from benchmarks.wanted_web import SITES, fill, first_half
from tests.crawls import Crawl, CrawlResult
from tests.web import LocalWeb
from webcrawl.documents.page import Page
from webcrawl.links.store import LinkStore
from webcrawl.stores.metadata import Metadata
from webcrawl.urls.canonical import split

LEAST = 0.85


def crawled(folder: Path, seeds: list[str], data_dir: Path, **settings: Any) -> CrawlResult:
    """Crawls the sites; raises SystemExit if that fails."""
    settings = {"DOWNLOAD_DELAY": 0, "LINKS": True, "IMPORTANCE": "off", **settings}
    crawl = Crawl.start(
        "broad", seeds, folder=folder, data_dir=data_dir, arguments={"scope": "host"}, **settings
    )
    result = crawl.wait(600)
    if result.returncode:
        raise SystemExit(result.stderr)
    return result


def mine(data_dir: Path, *words: str) -> str:
    """Runs `scrapy mine`; returns its output."""
    command = scrapy("mine", *words, DATA_DIR=data_dir)
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def share(result: CrawlResult, crawl: str) -> float:
    """Returns the part of the value of a crawl that its first half had."""
    rows = [row for row in result.rows() if row["crawl"] == crawl and row["status"] == 200]
    valued = [{**row, "value": json.loads(row["details"] or "{}").get("text_length", 0)} for row in rows]
    return first_half(valued)


def order(pages: int, learn: float) -> float:
    """Crawls breadth-first and with what was learned; returns the part of the value of the first half of the latter."""
    with LocalWeb(*SITES) as web, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        seeds = fill(web, pages)
        plain = share(crawled(folder, seeds, folder / "plain"), "broad")
        data, part = folder / "data", int(pages * learn)
        crawled(folder, seeds, data, CRAWL_ID="part", CRAWL_MAX_PAGES=part)
        print(mine(data), end="")
        learned = share(crawled(folder, seeds, data, CRAWL_ID="all", MINED=True), "all")
    print(f"the first half of the fetches of {pages:,} pages had")
    print(f"  breadth-first                 {plain:6.1%} of the value")
    print(f"  learned from {part:5,} pages      {learned:6.1%} of the value")
    return learned


def cost(edges: int) -> None:
    """Prints what mining generated links takes."""
    dice = random.Random(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store, rows = LinkStore(folder / "links", "broad"), []
        for entry in generated(edges):
            store.write([entry])
            host = split(entry.url)[0]
            details = {"text_length": dice.randrange(5_000)}
            page = Page(url=entry.url, host=host, fetched_at=datetime.now(UTC), status=200, depth=entry.depth)
            rows.append(page.row() | {"details": details})
        store.close()
        with Metadata(f"sqlite:///{folder}/metadata.db") as metadata:
            for start in range(0, len(rows), 1_000):
                metadata.upsert(rows[start : start + 1_000])
        seconds = seconds_of(lambda: print(mine(folder), end=""))
        memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3
        print(f"{edges:,} links of {len(rows):,} pages: {seconds:.0f} s, {memory:,.0f} MB of memory at most")
        for path in sorted((folder / "mined").iterdir()):
            print(f"  {path.name:30} {path.stat().st_size / 1e6:8.2f} MB")


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--pages", type=int, default=2_000)
    parser.add_argument("--learn", type=float, default=0.1, help="the part of the pages that is learned from")
    parser.add_argument("--edges", type=float, default=1e6, help="generated links")
    options = parser.parse_args()
    learned = order(options.pages, options.learn) if options.pages else 1.0
    if options.edges:
        cost(int(options.edges))
    if learned < LEAST:
        raise SystemExit(f"less than {LEAST:.0%}")


if __name__ == "__main__":
    main()
