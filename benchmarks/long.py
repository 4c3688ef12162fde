"""A long crawl of a generated web of very many hosts: do memory and pace stay the same?

    make bench-long [ARGS="--pages 100000 --hosts 300000 --every 5000 --json FILE"]

One worker with its embedded engine, all pipelines and the default delay of a second. On this web, a crawler is fast
only if it fetches from very many hosts at once. The exit status is 1 if, after the warm-up, the worker's
memory grew by more than a fifth or the pace fell by more than a quarter.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from benchmarks.command import ROOT, Section, add_settings, command_line, scrapy, table, web_crawl
from benchmarks.contender import LINKS
from benchmarks.generated_web import ZONE, serve
from benchmarks.measured import use_of
from benchmarks.servers import free_dns_port, free_port, serving

SECTION = Section("bench-long")
SEEDS = 300
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


class Ports(NamedTuple):
    """The ports of the generated web and of its name server."""

    web: int
    names: int


def counts(ports: Ports) -> dict[str, int]:
    """What the generated web has served so far."""
    with urllib.request.urlopen(f"http://127.0.0.1:{ports.web}/counts", timeout=10) as response:
        return dict(json.load(response))


def crawl(home: Path, ports: Ports, pages: int, settings: dict[str, object]) -> subprocess.Popen[bytes]:
    seeds = (f"http://h{number}.{ZONE}:{ports.web}/p0" for number in range(SEEDS))
    own = {"CRAWL_MAX_PAGES": pages, "DOWNLOAD_TIMEOUT": 10, "PROGRESS_INTERVAL": 30}
    return subprocess.Popen(web_crawl(home, seeds, ports.names, {**own, **settings}), cwd=ROOT)


def watch(process: subprocess.Popen[bytes], ports: Ports, every: int) -> Iterator[Point]:
    """Yields a point whenever `every` more pages were served, until the crawl ends or stops requesting."""
    begun = last = moved = spent = 0.0
    seen = marked = 0
    while process.poll() is None:
        time.sleep(POLL_SECONDS)
        served, now = counts(ports), time.monotonic()
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


def state(home: Path) -> str:
    """The counts of the frontier."""
    command = scrapy("frontier", "--json", DATA_DIR=home / "data")
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60).stdout


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


def points_table(points: Sequence[Point]) -> str:
    return table(
        "pages: | hosts: | seconds: | pages/s: | CPU ms a page: | worker MB: | engine MB:",
        (
            (
                *(f"{point.pages:,}", f"{point.hosts:,}", f"{point.seconds:.0f}"),
                *(f"{point.pages_per_second:.0f}", f"{point.cpu_ms:.1f}"),
                *(f"{point.worker:.0f}", f"{point.engine:.0f}"),
            )
            for point in points
        ),
    )


def arguments() -> argparse.Namespace:
    parser = command_line(__doc__)
    parser.add_argument("--pages", type=int, default=100_000)
    parser.add_argument("--hosts", type=int, default=300_000)
    parser.add_argument("--every", type=int, default=5_000, help="pages between two points")
    parser.add_argument("--links", action="store_true", help="without item pipelines")
    add_settings(parser, "a setting of the crawl")
    SECTION.add_options(parser)
    return parser.parse_args()


def main() -> int:
    options = arguments()
    settings = {**(LINKS if options.links else {}), **dict(options.set)}
    ports, points = Ports(free_port("0.0.0.0"), free_dns_port()), []
    with (
        tempfile.TemporaryDirectory(prefix="bench-long-") as home,
        serving(serve, options.hosts, ports.web, ports.names),
    ):
        process = crawl(Path(home), ports, options.pages, settings)
        try:
            for point in watch(process, ports, options.every):
                print(point, flush=True)
                points.append(point)
            if (ended := process.poll()) is None:
                print(f"It hangs: {state(Path(home))}", flush=True)
        finally:
            process.terminate()
            process.wait()
        print(f"served: {counts(ports)}")
    print(points_table(points))
    faults = verdict(points)
    if ended != 0:
        faults.append(
            f"no page was asked for in {SILENCE_SECONDS:.0f} s" if ended is None else f"it ended with {ended}"
        )
    print("\n".join(faults) or "memory flat, pace steady")
    SECTION.report(options, points_table(points), points=list(map(asdict, points)), faults=faults)
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
