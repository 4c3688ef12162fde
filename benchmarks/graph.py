"""`scrapy graph`: seconds of each step and peak memory on generated webs, and how they grow with the edges.

make bench-graph ARGS="--edges 1e6,1e7 --memory 8"
"""

from __future__ import annotations

import argparse
import functools
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.compute
import pyarrow.parquet

from benchmarks.command import command_line, table
from benchmarks.linked_web import linked_web
from webcrawl.config import StoreConfig
from webcrawl.graph import building, measures
from webcrawl.graph.database import LinkDatabase
from webcrawl.links.arrow import schema
from webcrawl.links.sources import link_files

FETCHED = 0.4
"""Part of the pages that was fetched; to the others there are only links."""
LINKS_A_PAGE = 16.8
FILE_LINKS = 500_000
GROUP_ROWS = 1 << 16
STEPS = {
    "read links": (LinkDatabase, "add"),
    "number pages": (LinkDatabase, "number"),
    "sort edges": (LinkDatabase, "graph"),
    "fold hosts and domains": (building, "folded"),
    "PageRank": (measures, "pagerank"),
    "harmonic centrality": (measures, "harmonic"),
    "components": (measures, "components"),
    "write Parquet": (building, "write_vertices"),
    "write texts": (building, "write_texts"),
}


def joined(*parts: Any) -> Any:
    """Strings that are joined element by element; numbers and constants are made strings."""
    texts = [part if isinstance(part, str) else pyarrow.array(part).cast(pyarrow.string()) for part in parts]
    return pyarrow.compute.binary_join_element_wise(*texts, "")


def generate(folder: Path, edges: int) -> None:
    """Writes a link store with about so many links between pages of a generated web, each once."""
    pages = int(edges / (LINKS_A_PAGE * FETCHED))
    web, dice = linked_web(pages), np.random.default_rng(2)
    numbers = np.arange(pages)
    hosts = joined("org.example-", web.host % 97, ".site-", web.host)
    urls = joined(
        "https://site-", web.host, ".example-", web.host % 97, ".org/articles/2026/", numbers, ".html"
    )
    order = pyarrow.compute.sort_indices(
        pyarrow.table({"host": hosts, "url": urls}), [("host", "ascending"), ("url", "ascending")]
    )
    ranks = np.empty(pages, dtype=np.int64)
    ranks[order.to_numpy()] = numbers
    fetched = np.flatnonzero(dice.random(pages) < FETCHED)
    dice.shuffle(fetched)
    ends = np.cumsum(np.diff(web.first)[fetched])
    cuts = np.searchsorted(ends, np.arange(FILE_LINKS, int(ends[-1]), FILE_LINKS))
    folder.mkdir(parents=True)
    for number, some in enumerate(np.split(fetched, cuts)):
        lengths = np.diff(web.first)[some]
        sources = np.repeat(some, lengths)
        shifts = np.repeat(web.first[some] - (np.cumsum(lengths) - lengths), lengths)
        targets = web.targets[shifts + np.arange(len(sources))]
        by_target = np.argsort(ranks[targets], kind="stable")
        sources, targets = sources[by_target], targets[by_target]
        write(folder / f"broad-{number:05}.parquet", hosts, urls, sources, targets)


def write(path: Path, hosts: Any, urls: Any, sources: Any, targets: Any) -> None:
    rows = len(sources)
    columns = {
        "from_host": hosts.take(pyarrow.array(sources)),
        "from_url": urls.take(pyarrow.array(sources)),
        "to_host": hosts.take(pyarrow.array(targets)),
        "to_url": urls.take(pyarrow.array(targets)),
        "text": joined("page ", targets),
        "rel": pyarrow.nulls(rows, pyarrow.string()),
        "element": pyarrow.repeat("a", rows),
        "block": np.full(rows, 7),
        "place": np.zeros(rows, dtype=np.int32),
        "nofollow": np.zeros(rows, dtype=bool),
        "depth": np.zeros(rows, dtype=np.int32),
        "crawl": pyarrow.repeat("broad", rows),
        "time": pyarrow.repeat(1_770_000_000_000_000, rows).cast(pyarrow.timestamp("us", tz="UTC")),
        "read_at": pyarrow.nulls(rows, pyarrow.timestamp("us", tz="UTC")),
    }
    options = {"compression": "zstd", "row_group_size": GROUP_ROWS, "write_page_checksum": True}
    pyarrow.parquet.write_table(pyarrow.table(columns, schema=schema()), path, **options)


def timed(work: Callable[..., Any], name: str, seconds: dict[str, float]) -> Callable[..., Any]:
    @functools.wraps(work)
    def run(*words: Any, **options: Any) -> Any:
        began = time.perf_counter()
        try:
            return work(*words, **options)
        finally:
            seconds[name] += time.perf_counter() - began

    return run


def build(folder: Path, memory: int) -> dict[str, Any]:
    """Makes the graphs of a link store in this process; returns seconds, peak memory in bytes, and the summary."""
    seconds: dict[str, float] = defaultdict(float)
    for name, (owner, attribute) in STEPS.items():
        setattr(owner, attribute, timed(getattr(owner, attribute), name, seconds))
    config = StoreConfig(folder.as_uri(), "sqlite://", folder, links=(folder / "links").as_uri())
    before, began = peak(), time.perf_counter()
    wanted = building.GraphOptions(memory=memory)
    summary = building.build(link_files(config), folder / "graph", wanted, lambda *_: None)
    seconds["all"] = time.perf_counter() - began
    return {"seconds": seconds, "before": before, "peak": peak(), "summary": summary}


def peak() -> int:
    """The largest resident memory of this process so far, files that are mapped included."""
    high = re.search(r"^VmHWM:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert high
    return int(high[1]) * 1024


def measure(edges: int, memory: int) -> dict[str, Any]:
    """Runs generator and build in processes of their own."""
    with tempfile.TemporaryDirectory(prefix="graph-") as folder:
        for step in ("generate", "build"):
            words = [sys.executable, "-m", "benchmarks.graph", "--step", step, "--folder", folder]
            words += ["--edges", str(edges), "--memory", str(memory / 1e9)]
            done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
        return dict(json.loads(done.stdout))


def report(results: list[dict[str, Any]]) -> None:
    """Prints a table with a column for each size."""
    pages = [result["summary"]["pages"] for result in results]
    rows: list[list[str]] = [["pages", *(f"{page['vertices']:,}" for page in pages)]]
    for name in (*STEPS, "all"):
        rows.append([f"{name}, s", *(f"{result['seconds'][name]:.1f}" for result in results)])
    rows.append(["peak memory, MB", *(f"{result['peak'] / 1e6:,.0f}" for result in results)])
    rows.append(["registers", *(str(page["harmonic"]["registers"]) for page in pages)])
    print(table(" | ".join(["", *(f"{page['edges']:,} edges:" for page in pages)]), rows))


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--edges", default="1e6,3e6,1e7", help="sizes, by default 1e6,3e6,1e7")
    parser.add_argument("--memory", type=float, default=8.0, help="GB, by default 8")
    parser.add_argument("--step", choices=("generate", "build"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    sizes, memory = [int(float(size)) for size in options.edges.split(",")], int(options.memory * 1e9)
    if options.step == "generate":
        generate(options.folder / "links", sizes[0])
    elif options.step == "build":
        print(json.dumps(build(options.folder, memory)))
    else:
        report([measure(size, memory) for size in sizes])


if __name__ == "__main__":
    main()
