"""A long crawl of a generated web of very many hosts: do memory and pace stay the same?

    make bench-long [ARGS="--pages 100000 --json FILE"]

One worker with its embedded engine, all pipelines and the default delay of a second. On this web, a crawler is fast
only if it fetches from very many hosts at once. The exit status is 1 if, after the warm-up, the worker's
memory grew by more than a fifth or the pace fell by more than a quarter.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.command import ROOT, command_line, records_table, scrapy, web_crawl, write_figures
from benchmarks.generated_web import ZONE, serve
from benchmarks.measured import use_of
from benchmarks.servers import free_dns_port, free_port, serving

SEEDS, HOSTS = 300, 300_000
EVERY, POINTS = 5_000, 20
"""The most pages between two points, and the least number of points."""
WARM_UP = 0.4
"""Share of the pages after which everything that is bounded should be full."""
MOST_GROWTH, LEAST_PACE = 1.2, 0.75
POLL_SECONDS = 0.5
SILENCE_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Point:
    """The crawl after a number of pages.

    Seconds since the first page and memory in MB; pace, and CPU of all processes in ms a page, since the point before.
    """

    pages: int
    hosts: int
    seconds: float
    pages_per_second: float
    cpu_ms: float
    worker: float
    engine: float


def counts(port: int) -> dict[str, int]:
    """What the generated web has served so far."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/counts", timeout=10) as response:
        return dict(json.load(response))


def crawl(home: Path, port: int, names: int, pages: int) -> subprocess.Popen[bytes]:
    seeds = (f"http://h{number}.{ZONE}:{port}/p0" for number in range(SEEDS))
    command = web_crawl(home, seeds, names, CRAWL_MAX_PAGES=pages, DOWNLOAD_TIMEOUT=10, PROGRESS_INTERVAL=30)
    return subprocess.Popen(command, cwd=ROOT)


def watch(process: subprocess.Popen[bytes], port: int, every: int) -> Iterator[Point]:
    """Yields a point whenever `every` more pages were served, until the crawl ends or stops requesting."""
    begun = last = moved = spent = 0.0
    seen = marked = 0
    while process.poll() is None:
        time.sleep(POLL_SECONDS)
        served, now = counts(port), time.monotonic()
        pages = served.get("pages", 0)
        if pages > seen:
            seen, moved, begun, last = pages, now, begun or now, last or now
        elif moved and now > moved + SILENCE_SECONDS:
            return
        if pages >= marked + every:
            used, more = use_of(process.pid), pages - marked
            yield Point(
                pages,
                served["hosts"],
                round(now - begun, 1),
                round(more / max(now - last, POLL_SECONDS), 1),
                round(1000 * (used.cpu - spent) / more, 2),
                round(used.worker),
                round(used.engine),
            )
            marked, last, spent = pages, now, used.cpu


def verdict(points: Sequence[Point]) -> list[str]:
    """The faults in the points after the warm-up."""
    total = points[-1].pages if points else 0
    warm = [point for point in points if point.pages >= WARM_UP * total]
    if len(warm) < 4:
        return ["too short to tell"]
    half = len(warm) // 2
    faults = []
    growth = max(point.worker for point in warm[half:]) / max(point.worker for point in warm[:half])
    if growth > MOST_GROWTH:
        faults.append(f"the worker's memory grew to {growth:.2f} of what it was after the warm-up")
    pace = mean_pace(warm[half:]) / mean_pace(warm[:half])
    if pace < LEAST_PACE:
        faults.append(f"the pace fell to {pace:.2f} of what it was after the warm-up")
    return faults


def mean_pace(points: Sequence[Point]) -> float:
    return sum(point.pages_per_second for point in points) / len(points)


def main() -> int:
    options = command_line(__doc__, json=True, pages=100_000).parse_args()
    port, names, points = free_port("0.0.0.0"), free_dns_port(), []
    with (
        tempfile.TemporaryDirectory(prefix="bench-long-") as home,
        serving(serve, HOSTS, port, names),
    ):
        process = crawl(Path(home), port, names, options.pages)
        try:
            for point in watch(process, port, min(EVERY, options.pages // POINTS)):
                print(point, flush=True)
                points.append(point)
            if (ended := process.poll()) is None:
                print("It hangs:", flush=True)
                subprocess.run(scrapy("status", DATA_DIR=f"{home}/data"), cwd=ROOT, timeout=60)
        finally:
            process.terminate()
            process.wait()
        print(f"served: {counts(port)}")
    print(records_table(points))
    faults = verdict(points)
    if ended != 0:
        faults.append(
            f"no page was asked for in {SILENCE_SECONDS:.0f} s" if ended is None else f"it ended with {ended}"
        )
    print("\n".join(faults) or "memory flat, pace steady")
    write_figures(options.json, points=points, faults=faults)
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
