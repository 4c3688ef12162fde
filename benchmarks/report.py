"""The results of the side-by-side benchmark: medians, tables, and whether the targets are reached."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.command import Section, machine, measured_on, table, write_figures
from benchmarks.served import WEBS, Got

SECTION = Section("bench")


@dataclass(frozen=True, slots=True)
class Run:
    """One crawl: what it got and what it cost, CPU in seconds and memory in MB."""

    got: Got
    exit_code: int
    crawler_cpu: float
    engine_cpu: float
    crawler_peak: float
    engine_peak: float

    @property
    def cpu(self) -> float:
        return self.crawler_cpu + self.engine_cpu


@dataclass(frozen=True, slots=True)
class Result:
    """The medians of one contender: CPU in milliseconds a page, less that of `start_cpu` seconds; memory in MB."""

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


def result(name: str, title: str, starts: list[Run], runs: list[Run]) -> Result:
    """`starts` are crawls of a single page."""
    crawler_start = statistics.median(run.crawler_cpu for run in starts)
    engine_start = statistics.median(run.engine_cpu for run in starts)

    def a_page(cpu: float, pages: int) -> float:
        return round(1000 * cpu / max(pages, 1), 3)

    return Result(
        name,
        title,
        round(statistics.median(run.got.pages / max(run.got.seconds, 1e-3) for run in runs), 1),
        statistics.median(a_page(run.crawler_cpu - crawler_start, run.got.pages) for run in runs),
        max(0.0, statistics.median(a_page(run.engine_cpu - engine_start, run.got.pages) for run in runs)),
        round(statistics.median(run.crawler_peak for run in runs)),
        round(statistics.median(run.engine_peak for run in runs)),
        round(crawler_start + engine_start, 2),
        runs,
    )


def results_table(results: list[Result]) -> str:
    rows = []
    for result in results:
        got = result.runs[-1].got
        rows.append(
            (
                *(result.title, f"{result.pages_per_second:.0f}", f"{result.total_ms:.2f}"),
                *(f"{result.engine_ms:.2f}", f"{result.crawler_peak:.0f}", f"{result.engine_peak:.0f}"),
                *(got.pages, f"{got.kilobytes:.0f}", f"{got.links:.0f}", len(result.runs)),
            )
        )
    return table(
        "contender | pages/s: | CPU ms a page: | of it Valkey: | peak MB: | Valkey MB: | pages: | KB a page: "
        "| links a page: | runs:",
        rows,
    )


@dataclass(frozen=True, slots=True)
class Measured:
    """The results of one web, and when and where they were measured."""

    date: str
    machine: dict[str, str | int]
    results: list[Result]


@dataclass(frozen=True, slots=True)
class Bar:
    """The target of `ours` on a web: at least a ratio of pages/s to another's, or at most an amount of CPU or memory.

    CPU is in ms a page, or, with `other`, a ratio to the other's. Memory is in MB, of the crawler and its Valkey.
    """

    web: str
    ours: str
    other: str
    figure: str
    limit: float

    def row(self, measured: Mapping[tuple[str, str], Result]) -> list[str] | None:
        """A row of the table; None if one of the two did not run."""
        ours, other = measured.get((self.web, self.ours)), measured.get((self.web, self.other))
        if ours is None or (self.other and other is None):
            return None
        cpu, beside = ours.total_ms / (other.total_ms if other else 1), ""
        if self.figure == "pages/s":
            assert other is not None
            ratio = ours.pages_per_second / max(other.pages_per_second, 1e-3)
            is_reached, limit, value = ratio >= self.limit, f"at least {self.limit:g} x", f"{ratio:.2f} x"
            beside = f"{1 / cpu:.1f} x"
        elif self.figure == "CPU":
            unit = "x" if other else "ms"
            is_reached, limit, value = (
                cpu <= self.limit,
                f"at most {self.limit:g} {unit}",
                f"{cpu:.2f} {unit}",
            )
        else:
            memory = ours.crawler_peak + ours.engine_peak
            is_reached, limit, value = memory <= self.limit, f"at most {self.limit:g} MB", f"{memory:.0f} MB"
        against = f" against {other.title}" if other else ""
        what = {"CPU": "CPU a page"}.get(self.figure, self.figure)
        name = f"{ours.title}{against}, {what}" + ("" if self.web == "http" else f" ({WEBS[self.web]})")
        return [name, limit, value, beside, "yes" if is_reached else "**no**"]


BARS = [
    Bar("http", "links", "scrapy-redis", "pages/s", 15),
    Bar("http", "links", "scrapy", "pages/s", 8),
    Bar("http", "full", "scrapy", "pages/s", 4),
    Bar("http", "full-stored", "full", "CPU", 1.15),
    Bar("http", "links", "", "CPU", 3.0),
    Bar("many", "links", "scrapy", "pages/s", 4),
    Bar("http", "links-2", "links", "CPU", 1.1),
    Bar("polite", "links", "scrapy", "pages/s", 2.5),
    Bar("polite", "links", "", "CPU", 2.0),
    Bar("polite", "links", "", "memory", 400),
    Bar("small", "links", "scrapy", "pages/s", 2.5),
    Bar("small", "links", "", "CPU", 2.0),
    Bar("small", "links", "", "memory", 400),
]


def bars(webs: Mapping[str, list[Result]]) -> str:
    """A Markdown table: each target, what was measured, and the ratio of CPU."""
    measured = {(web, result.name): result for web, results in webs.items() for result in results}
    rows = [row for bar in BARS if (row := bar.row(measured))]
    return table("bar | | measured: | the same in CPU: | reached", rows) if rows else ""


def markdown(webs: Mapping[str, Measured]) -> str:
    """All tables, for docs/benchmarks.md."""
    parts = ["The figures are medians of the runs. The web server shares the cores."]
    for web, measured in webs.items():
        sentence = f"{measured_on(measured.date, measured.machine)}."
        parts += [f"### {WEBS[web]}", sentence, results_table(measured.results)]
    if reached := bars({web: measured.results for web, measured in webs.items()}):
        parts += ["### What it is meant to reach", reached]
    return "\n\n".join(parts)


def kept(file: Path | None) -> dict[str, Measured]:
    """The webs of an earlier benchmark, from its file of figures; {} without one."""
    if file is None or not file.exists():
        return {}
    known, webs = json.loads(file.read_text()), {}
    for web in known["webs"].keys() & WEBS.keys():
        when = known.get("when", {}).get(web, known)
        webs[web] = Measured(when["date"], when["machine"], list(map(_result_of, known["webs"][web])))
    return webs


def _result_of(figures: dict[str, Any]) -> Result:
    runs = [Run(**{**run, "got": Got(**run["got"])}) for run in figures["runs"]]
    return Result(**{**figures, "runs": runs})


def write(webs: Mapping[str, list[Result]], date: str, file: Path | None, page: Path | None) -> None:
    """Writes figures as JSON to a file, and tables into a page.

    Webs in the file that were not measured now are kept, in both.
    """
    known = kept(file) | {web: Measured(date, machine(), results) for web, results in webs.items()}
    known = {web: known[web] for web in WEBS if web in known}
    if file:
        when = {web: {"date": measured.date, "machine": measured.machine} for web, measured in known.items()}
        figures = {web: [asdict(result) for result in measured.results] for web, measured in known.items()}
        write_figures(file, date, when=when, webs=figures)
    if page:
        SECTION.replace(page, markdown(known))
