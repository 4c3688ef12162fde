"""Crawls the same pages with each option beside the default, by turns, and prints the ratios of speed, CPU and memory.

    make bench-options [ARGS="--only feed --rounds 3 --json FILE"]

Needs what the side-by-side benchmark needs; an option whose server is not installed is left out. Each run of an
option follows one of what it is compared with, and each ratio is the median over the rounds, so that a disturbance of
the machine affects both. Figures are for each request that was answered: a page, robots.txt, or what a
page loads.
"""

from __future__ import annotations

import compileall
import statistics
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from benchmarks.command import ROOT, command_line, records_table, write_figures
from benchmarks.compare import crawl
from benchmarks.contender import Contender
from benchmarks.option_table import OPTIONS, Option
from benchmarks.option_webs import Servers
from benchmarks.report import Run

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
    answers = max(run.got.answers, 1)
    speed = answers / max(run.got.seconds, 1e-3)
    return Figures(speed, 1000 * (run.cpu - start.cpu) / answers, run.crawler_peak + run.engine_peak)


def summed_up(option: Option, start: float, pairs: list[Pair]) -> Measured:
    """Ratios are those of pairs, not of medians: the two runs of a pair saw the same minute."""

    def ratio(field: int) -> float:
        return round(
            statistics.median(pair.option[field] / max(pair.beside[field], 1e-6) for pair in pairs), 3
        )

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


def chosen(parts: list[str] | None) -> list[Option]:
    """The options whose names contain one of these words; all without words."""
    options = [
        option
        for option in OPTIONS.values()
        if option.beside and (not parts or any(part.lower() in option.name.lower() for part in parts))
    ]
    if not options:
        raise SystemExit(f"There is no option {', '.join(parts or [])}; there are {', '.join(OPTIONS)}")
    return options


def main() -> int:
    parser = command_line(__doc__, json=True)
    parser.add_argument(
        "--only", action="append", metavar="NAME", help="options whose names contain this; may be repeated"
    )
    parser.add_argument("--rounds", type=int, default=3, help="rounds, in each of which all options run")
    said = parser.parse_args()
    compileall.compile_dir(ROOT / "webcrawl", quiet=1)
    with tempfile.TemporaryDirectory(prefix="bench-options-") as home, ExitStack() as stack:
        servers = Servers(Path(home), stack)
        options = [option for option in chosen(said.only) if servers.has(option)]
        turns = Turns(servers)
        pairs: dict[str, list[Pair]] = {option.name: [] for option in options}
        for number in range(said.rounds):
            print(f"Round {number + 1} of {said.rounds}:", flush=True)
            for option in options:
                pairs[option.name].append(turns.pair(option))
        starts = {option.name: turns.start(option).cpu for option in options}
    measured = [summed_up(option, starts[option.name], pairs[option.name]) for option in options]
    slow = [option.name for option in measured if option.speed_ratio < BAR]
    print(records_table(measured), f"Slower than {BAR}: {', '.join(slow) or 'none'}", sep="\n")
    write_figures(said.json, options=measured)
    return 1 if turns.failures else 0


if __name__ == "__main__":
    sys.exit(main())
