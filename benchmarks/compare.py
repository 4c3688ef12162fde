"""Crawl the same real pages with this project and with others, side by side in one run.

    make bench [ARGS="--only links,scrapy --repeat 5 --pages 500 --json FILE"]

Needs nginx and Debian's packages python3-doc, postgresql-doc-15 and rust-doc; what is not installed is left out. The
contenders take turns, and each figure is the median of its runs. CPU is user and system time of all processes, less
what crawling a single page costs; the servers of the pages are not in it. Pages a second are counted by the server,
from its first answer to its last.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.contender import CONTENDERS, ROOT, Contender, Task
from benchmarks.sites import Got, Web, available

LIMIT_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Run:
    """One crawl: what it got and what it cost, CPU in seconds and memory in MB."""

    got: Got
    exit_code: int
    crawler_cpu: float
    engine_cpu: float
    crawler_peak: float
    engine_peak: float


@dataclass(frozen=True, slots=True)
class Result:
    """The medians of one contender: CPU in milliseconds a page, memory in MB."""

    name: str
    title: str
    pages_per_second: float
    crawler_ms: float
    engine_ms: float
    crawler_peak: float
    engine_peak: float
    start_cpu: float
    runs: list[Run]

    @property
    def total_ms(self) -> float:
        return self.crawler_ms + self.engine_ms


def crawl(contender: Contender, web: Web, seeds: list[str], pages: int) -> Run:
    """Run one crawl in an empty folder; what it says is kept for when it fails."""
    home = Path(tempfile.mkdtemp(prefix="bench-"))
    web.forget()
    command = [sys.executable, str(ROOT / "benchmarks" / "measured.py"), *contender.server(home), "--"]
    command += contender.command(Task(seeds, pages, home))
    with (home / "output").open("wb") as output:
        # Scrapy takes the project that the folder is in: that of the others is none
        process = subprocess.Popen(
            command,
            cwd=home if contender.venv else ROOT,
            stdout=subprocess.PIPE,
            stderr=output,
            start_new_session=True,
        )
        try:
            said = process.communicate(timeout=LIMIT_SECONDS)[0]
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    cost = json.loads(said.splitlines()[-1])
    if cost["exit_code"]:
        sys.stdout.write((home / "output").read_text(errors="replace")[-3000:])
    shutil.rmtree(home)
    return Run(
        web.got(),
        cost["exit_code"],
        cost["crawler_cpu"],
        cost["engine_cpu"],
        cost["crawler_peak_kib"] / 1024,
        cost["engine_peak_kib"] / 1024,
    )


def result(contender: Contender, start: list[Run], runs: list[Run]) -> Result:
    crawler_start = statistics.median(run.crawler_cpu for run in start)
    engine_start = statistics.median(run.engine_cpu for run in start)

    def a_page(cpu: float, pages: int) -> float:
        return round(1000 * cpu / max(pages, 1), 3)

    return Result(
        contender.name,
        contender.title,
        round(statistics.median(run.got.pages / max(run.got.seconds, 1e-3) for run in runs), 1),
        statistics.median(a_page(run.crawler_cpu - crawler_start, run.got.pages) for run in runs),
        statistics.median(a_page(run.engine_cpu - engine_start, run.got.pages) for run in runs),
        round(statistics.median(run.crawler_peak for run in runs)),
        round(statistics.median(run.engine_peak for run in runs)),
        round(crawler_start + engine_start, 2),
        runs,
    )


def table(results: list[Result]) -> str:
    """Markdown, one line a contender."""
    lines = [
        "| contender | pages/s | CPU ms a page | of it Valkey | peak MB | Valkey MB "
        "| pages | KB a page | links a page |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for one in results:
        got = one.runs[-1].got
        lines.append(
            f"| {one.title} | {one.pages_per_second:.0f} | {one.total_ms:.2f} | {one.engine_ms:.2f} "
            f"| {one.crawler_peak:.0f} | {one.engine_peak:.0f} "
            f"| {got.pages} | {got.kilobytes:.0f} | {got.links:.0f} |"
        )
    return "\n".join(lines)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", help="contenders, commas between: " + ",".join(CONTENDERS))
    parser.add_argument("--repeat", type=int, default=3, help="runs of each contender")
    parser.add_argument("--pages", type=int, default=0, help="end each crawl after about so many (0: all)")
    parser.add_argument("--json", type=Path, help="write everything into this file")
    return parser.parse_args()


def take_turns(chosen: list[Contender], web: Web, repeat: int, pages: int) -> list[Result]:
    """Each contender once, then each once again, so that what disturbs the machine disturbs all."""
    starts: dict[str, list[Run]] = {contender.name: [] for contender in chosen}
    runs: dict[str, list[Run]] = {contender.name: [] for contender in chosen}
    for turn in range(repeat):
        for contender in chosen:
            starts[contender.name].append(crawl(contender, web, [web.start], 0))
            run = crawl(contender, web, web.seeds, pages)
            runs[contender.name].append(run)
            told = f"{run.got.pages} pages in {run.got.seconds:.1f} s, {run.got.again} again, {run.got.other} other"
            cpu = run.crawler_cpu + run.engine_cpu
            print(
                f"{turn + 1}/{repeat} {contender.title}: {told}, {cpu:.1f} s of CPU, exit {run.exit_code}",
                flush=True,
            )
    return [result(contender, starts[contender.name], runs[contender.name]) for contender in chosen]


def main() -> int:
    said = arguments()
    names = said.only.split(",") if said.only else list(CONTENDERS)
    if unknown := [name for name in names if name not in CONTENDERS]:
        raise SystemExit(f"There is no contender {', '.join(unknown)}; there are {', '.join(CONTENDERS)}")
    chosen = [CONTENDERS[name] for name in names]
    for contender in chosen:
        contender.prepare()
    with tempfile.TemporaryDirectory(prefix="bench-web-") as home:
        web = Web(Path(home), available())
        with web.served():
            results = take_turns(chosen, web, said.repeat, said.pages)
    print(table(results))
    if said.json:
        machine = {
            "python": platform.python_version(),
            "cores": os.cpu_count(),
            "system": platform.platform(),
        }
        told = {"machine": machine, "results": [asdict(one) for one in results]}
        said.json.write_text(json.dumps(told, indent=1) + "\n")
    return max(run.exit_code for one in results for run in one.runs)


if __name__ == "__main__":
    sys.exit(main())
