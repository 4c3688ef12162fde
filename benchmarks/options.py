"""Crawls the same pages with each option beside the default, by turns, and prints the ratios of speed, CPU and memory.

    make bench-options [ARGS="--only feed --rounds 3 --json FILE --page FILE"]

Needs what the side-by-side benchmark needs; an option whose server is not installed is left out. Each run of an
option follows one of what it is compared with, and each ratio is the median over the rounds, so that a disturbance of
the machine affects both. Figures are for each request that was answered: a page, robots.txt, or what a
page loads.
"""

from __future__ import annotations

import argparse
import compileall
import datetime
import statistics
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from benchmarks.compare import crawl
from benchmarks.contender import ROOT, Contender
from benchmarks.option_table import OPTIONS, Option
from benchmarks.option_webs import Servers
from benchmarks.report import Run, measured_on, page_with, put_between, put_figures

BEGIN, END = "<!-- bench-options writes from here -->", "<!-- bench-options writes to here -->"
BAR = 0.85
"""The least speed of an option, as a part of that of what it is compared with, unless its documentation says why."""


class Figures(NamedTuple):
    """What one crawl achieved: answers a second, milliseconds of CPU an answer without the start, memory in MB."""

    speed: float
    cpu: float
    memory: float


class Pair(NamedTuple):
    """A run of an option and the one before it, without the option."""

    option: Figures
    beside: Figures


@dataclass(frozen=True, slots=True)
class Measured:
    """The medians of the pairs of an option; `start` is the CPU in seconds of a crawl of one page."""

    name: str
    beside: str
    speed_ratio: float
    cpu_ratio: float
    memory_ratio: float
    speed: float
    cpu: float
    memory: float
    start: float
    pairs: list[Pair]


def figures(run: Run, start: Run) -> Figures:
    """Figures of a crawl, less the CPU of a crawl of one page."""
    cpu = run.crawler_cpu + run.engine_cpu - start.crawler_cpu - start.engine_cpu
    answers = max(run.got.answers, 1)
    speed = answers / max(run.got.seconds, 1e-3)
    return Figures(speed, 1000 * cpu / answers, run.crawler_peak + run.engine_peak)


def summed_up(option: Option, start: float, pairs: list[Pair]) -> Measured:
    """Ratios are those of pairs, not of medians: the two runs of a pair saw the same minute."""

    def ratio(field: int) -> float:
        return round(statistics.median(one[field] / max(other[field], 1e-6) for one, other in pairs), 3)

    def median(field: int) -> float:
        return round(statistics.median(pair.option[field] for pair in pairs), 2)

    return Measured(
        *(option.name, option.beside, ratio(0), ratio(1), ratio(2)),
        *(median(0), median(1), median(2), round(start, 2), pairs),
    )


class Turns:
    """Runs options on the webs; `failures` counts crawls that did not exit with 0."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self._starts: dict[str, Run] = {}
        self.failures = 0

    def pair(self, option: Option) -> Pair:
        """A run of what the option is compared with, and one of the option right after it."""
        without, own = self._figures(OPTIONS[option.beside]), self._figures(option)
        print(
            f"{option.name}: {own.speed:.0f} pages/s, {own.cpu:.2f} ms, {own.memory:.0f} MB "
            f"beside {without.speed:.0f}, {without.cpu:.2f}, {without.memory:.0f}",
            flush=True,
        )
        return Pair(own, without)

    def start(self, option: Option) -> Run:
        """A crawl of one page, which costs as much as starting and ending all processes."""
        if option.name not in self._starts:
            web = self._servers.web(option)
            self._starts[option.name] = self._run(option, [web.start])
        return self._starts[option.name]

    def _figures(self, option: Option) -> Figures:
        start = self.start(option)
        return figures(self._run(option, self._servers.web(option).seeds), start)

    def _run(self, option: Option, seeds: list[str]) -> Run:
        contender = Contender(option.name, option.name, lambda task: self._servers.command(option, task))
        run = crawl(contender, self._servers.web(option), seeds, 0)
        self.failures += run.exit_code != 0
        return run


def table(measured: list[Measured]) -> str:
    """A Markdown table, one line an option."""
    lines = [
        "| option | beside | speed | CPU a page | memory | pages/s | CPU ms a page | MB | CPU s to start | rounds |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for one in measured:
        speed = f"{one.speed_ratio:.2f}" if one.speed_ratio >= BAR else f"**{one.speed_ratio:.2f}**"
        lines.append(
            f"| {one.name} | {one.beside} | {speed} | {one.cpu_ratio:.2f} | {one.memory_ratio:.2f} "
            f"| {one.speed:.0f} | {one.cpu:.2f} | {one.memory:.0f} | {one.start:.2f} | {len(one.pairs)} |"
        )
    return "\n".join(lines)


def chosen(parts: list[str] | None) -> list[Option]:
    """The options whose names contain one of these words; all without words."""
    found = [
        one
        for one in OPTIONS.values()
        if one.beside and (not parts or any(part.lower() in one.name.lower() for part in parts))
    ]
    if not found:
        raise SystemExit(f"There is no option {', '.join(parts or [])}; there are {', '.join(OPTIONS)}")
    return found


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", action="append", metavar="NAME", help="options whose names contain this; may be repeated"
    )
    parser.add_argument("--rounds", type=int, default=3, help="rounds, in each of which all options run")
    parser.add_argument("--json", type=Path, help="write everything into this file")
    parser.add_argument(
        "--page", type=page_with(BEGIN), help="write the table into this Markdown page, between its marks"
    )
    return parser.parse_args()


def main() -> int:
    said = arguments()
    compileall.compile_dir(ROOT / "webcrawl", quiet=1)
    with tempfile.TemporaryDirectory(prefix="bench-options-") as home, ExitStack() as stack:
        servers = Servers(Path(home), stack)
        options = [one for one in chosen(said.only) if servers.has(one)]
        turns = Turns(servers)
        pairs: dict[str, list[Pair]] = {one.name: [] for one in options}
        for number in range(said.rounds):
            print(f"Round {number + 1} of {said.rounds}:", flush=True)
            for one in options:
                pairs[one.name].append(turns.pair(one))
        starts = {one.name: turns.start(one) for one in options}
    measured = [
        summed_up(one, starts[one.name].crawler_cpu + starts[one.name].engine_cpu, pairs[one.name])
        for one in options
    ]
    print(table(measured))
    today = datetime.date.today().isoformat()
    if said.json:
        put_figures(said.json, today, options=[asdict(one) for one in measured])
    if said.page:
        put_between(said.page, BEGIN, END, f"{measured_on(today)}.\n\n{table(measured)}")
    return 1 if turns.failures else 0


if __name__ == "__main__":
    sys.exit(main())
