"""A long crawl of a generated web of very many hosts: do memory and pace stay the same?

    make bench-long [ARGS="--pages 100000 --hosts 300000 --every 5000 --json FILE"]

One worker with its embedded engine, all pipelines and the default delay of a second. On this web, a crawler is fast
only if it fetches from very many hosts at once. The exit status is 1 if, after the warm-up, the worker's
memory grew by more than a fifth or the pace fell by more than a quarter.
"""

from __future__ import annotations

import argparse
import datetime
import json
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from benchmarks.contender import LINKS, ROOT, options
from benchmarks.generated_web import ZONE
from benchmarks.measured import ENGINES, tree
from benchmarks.report import measured_on, page_with, put_between, put_figures
from benchmarks.served import free_port

BEGIN, END = "<!-- bench-long writes from here -->", "<!-- bench-long writes to here -->"
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


@contextmanager
def generated_web(hosts: int) -> Iterator[Ports]:
    ports = Ports(free_port("0.0.0.0"), free_port("127.0.0.1", socket.SOCK_DGRAM))
    command = [sys.executable, "-m", "benchmarks.generated_web", "--hosts", str(hosts)]
    server = subprocess.Popen(
        [*command, "--port", str(ports.web), "--dns", str(ports.names)], cwd=ROOT, stdout=subprocess.PIPE
    )
    try:
        assert server.stdout is not None
        if server.stdout.readline() != b"ready\n":
            raise SystemExit("The generated web does not start")
        yield ports
    finally:
        server.kill()
        server.wait()


def counts(ports: Ports) -> dict[str, int]:
    with urllib.request.urlopen(f"http://127.0.0.1:{ports.web}/counts", timeout=10) as response:
        told: dict[str, int] = json.load(response)
    return told


@dataclass(frozen=True, slots=True)
class Use:
    """What a crawl and its engine use: memory in MB, seconds of CPU so far."""

    worker: float
    engine: float
    cpu: float


def use(pid: int) -> Use:
    processes = tree(pid).values()
    engine = sum(process.kib for process in processes if process.name in ENGINES)
    worker = sum(process.kib for process in processes) - engine
    return Use(worker / 1024, engine / 1024, sum(process.cpu for process in processes))


def crawl(home: Path, ports: Ports, pages: int, settings: dict[str, object]) -> subprocess.Popen[bytes]:
    seeds = home / "seeds"
    seeds.write_text("\n".join(f"http://h{number}.{ZONE}:{ports.web}/p0" for number in range(SEEDS)))
    own: dict[str, object] = {
        "DATA_DIR": home / "data",
        "CRAWL_MAX_PAGES": pages,
        "DNS_SERVERS": f"127.0.0.1:{ports.names}",
        "ALLOWED_NETWORKS": "127.0.0.0/8",
        "DOWNLOAD_TIMEOUT": 10,
        "PROGRESS_INTERVAL": 30,
    }
    return subprocess.Popen(
        [sys.executable, "-m", "scrapy", "crawl", "broad", "-a", f"seeds=@{seeds}", "-a", "scope=web"]
        + options({**own, **settings}),
        cwd=ROOT,
    )


def watch(process: subprocess.Popen[bytes], ports: Ports, every: int) -> Iterator[Point]:
    """Yields a point whenever `every` more pages were served, until the crawl ends or stops requesting."""
    begun = last = moved = spent = 0.0
    seen = marked = 0
    while process.poll() is None:
        time.sleep(POLL_SECONDS)
        told, now = counts(ports), time.monotonic()
        pages = told.get("pages", 0)
        if pages > seen:
            seen, moved, begun, last = pages, now, begun or now, last or now
        elif moved and now > moved + SILENCE_SECONDS:
            return
        if pages >= marked + every:
            used, more = use(process.pid), pages - marked
            yield Point(
                pages,
                told["hosts"],
                round(now - begun, 1),
                round(more / max(now - last, POLL_SECONDS), 1),
                round(1000 * (used.cpu - spent) / more, 2),
                round(used.worker),
                round(used.engine),
            )
            marked, last, spent = pages, now, used.cpu


def state(home: Path) -> str:
    """The counts of the frontier."""
    command = [sys.executable, "-m", "scrapy", "frontier", "--json", "-s", f"DATA_DIR={home / 'data'}"]
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


def table(points: Sequence[Point]) -> str:
    lines = [
        "| pages | hosts | seconds | pages/s | CPU ms a page | worker MB | engine MB |",
        "|---:|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {one.pages:,} | {one.hosts:,} | {one.seconds:.0f} | {one.pages_per_second:.0f} | {one.cpu_ms:.1f} "
        f"| {one.worker:.0f} | {one.engine:.0f} |"
        for one in points
    ]
    return "\n".join(lines)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pages", type=int, default=100_000)
    parser.add_argument("--hosts", type=int, default=300_000)
    parser.add_argument("--every", type=int, default=5_000, help="pages between two points")
    parser.add_argument("--links", action="store_true", help="without item pipelines")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the crawl"
    )
    parser.add_argument("--json", type=Path, help="write the points into this file")
    parser.add_argument(
        "--page", type=page_with(BEGIN), help="write the table into this Markdown page, between its marks"
    )
    return parser.parse_args()


def main() -> int:
    said = arguments()
    settings = {**(LINKS if said.links else {}), **dict(one.split("=", 1) for one in said.set)}
    points = []
    with tempfile.TemporaryDirectory(prefix="bench-long-") as home, generated_web(said.hosts) as ports:
        process = crawl(Path(home), ports, said.pages, settings)
        try:
            for point in watch(process, ports, said.every):
                print(point, flush=True)
                points.append(point)
            if (ended := process.poll()) is None:
                print(f"It hangs: {state(Path(home))}", flush=True)
        finally:
            process.terminate()
            process.wait()
        print(f"served: {counts(ports)}")
    print(table(points))
    faults = verdict(points)
    if ended != 0:
        faults.append(
            f"no page was asked for in {SILENCE_SECONDS:.0f} s" if ended is None else f"it ended with {ended}"
        )
    print("\n".join(faults) or "memory flat, pace steady")
    today = datetime.date.today().isoformat()
    if said.page:
        put_between(said.page, BEGIN, END, f"{measured_on(today)}.\n\n{table(points)}")
    if said.json:
        put_figures(said.json, today, points=[asdict(point) for point in points], faults=faults)
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
