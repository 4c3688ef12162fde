"""`scrapy graph`: seconds of each step and peak memory on generated links, and how they grow with the edges.

make bench-graph ARGS="--edges 1e6,1e7 --memory 8"
"""

from __future__ import annotations

import functools
import re
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.command import command_line, table
from benchmarks.links import generate
from webcrawl.config import StoreConfig
from webcrawl.graph import building, measures
from webcrawl.graph.database import LinkDatabase
from webcrawl.links.sources import link_files

Pool = get_context("spawn").Pool
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
    with tempfile.TemporaryDirectory(prefix="graph-") as folder, Pool(1, maxtasksperchild=1) as processes:
        processes.apply(generate, (Path(folder) / "links", edges))
        return processes.apply(build, (Path(folder), memory))


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
    options = parser.parse_args()
    sizes = [int(float(size)) for size in options.edges.split(",")]
    report([measure(size, int(options.memory * 1e9)) for size in sizes])


if __name__ == "__main__":
    main()
