"""The results of the side-by-side benchmark: medians, tables, and whether the targets are reached."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.served import WEBS, Got

BEGIN, END = "<!-- the benchmark writes from here -->", "<!-- to here -->"


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


def table(results: list[Result]) -> str:
    """A Markdown table, one line a contender."""
    lines = [
        "| contender | pages/s | CPU ms a page | of it Valkey | peak MB | Valkey MB "
        "| pages | KB a page | links a page | runs |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for one in results:
        got = one.runs[-1].got
        lines.append(
            f"| {one.title} | {one.pages_per_second:.0f} | {one.total_ms:.2f} | {one.engine_ms:.2f} "
            f"| {one.crawler_peak:.0f} | {one.engine_peak:.0f} "
            f"| {got.pages} | {got.kilobytes:.0f} | {got.links:.0f} | {len(one.runs)} |"
        )
    return "\n".join(lines)


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

    def told(self, measured: Mapping[tuple[str, str], Result]) -> list[str] | None:
        """A line of the table; None if one of the two did not run."""
        ours, other = measured.get((self.web, self.ours)), measured.get((self.web, self.other))
        if ours is None or (self.other and other is None):
            return None
        cpu, beside = ours.total_ms / (other.total_ms if other else 1), ""
        if self.figure == "pages/s":
            assert other is not None
            ratio = ours.pages_per_second / max(other.pages_per_second, 1e-3)
            good, limit, told = ratio >= self.limit, f"at least {self.limit:g} x", f"{ratio:.2f} x"
            beside = f"{1 / cpu:.1f} x"
        elif self.figure == "CPU":
            unit = "x" if other else "ms"
            good, limit, told = cpu <= self.limit, f"at most {self.limit:g} {unit}", f"{cpu:.2f} {unit}"
        else:
            memory = ours.crawler_peak + ours.engine_peak
            good, limit, told = memory <= self.limit, f"at most {self.limit:g} MB", f"{memory:.0f} MB"
        against = f" against {other.title}" if other else ""
        what = {"CPU": "CPU a page"}.get(self.figure, self.figure)
        name = f"{ours.title}{against}, {what}" + ("" if self.web == "http" else f" ({WEBS[self.web]})")
        return [name, limit, told, beside, "yes" if good else "**no**"]


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
    measured = {(web, one.name): one for web, results in webs.items() for one in results}
    lines = [told for bar in BARS if (told := bar.told(measured))]
    if not lines:
        return ""
    head = "| bar | | measured | the same in CPU | reached |\n|---|---|---:|---:|---|\n"
    return head + "\n".join("| " + " | ".join(line) + " |" for line in lines)


def machine() -> dict[str, str | int]:
    """The properties of the machine on which the figures depend."""
    model, memory = platform.processor() or platform.machine(), 0
    if (cpus := Path("/proc/cpuinfo")).exists():
        names = [line for line in cpus.read_text().splitlines() if line.startswith("model name")]
        model = names[0].partition(":")[2].strip() if names else model
        memory = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9)
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": memory,
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
        "python": platform.python_version(),
    }


def named_machine(on: Mapping[str, str | int] | None = None) -> str:
    """The same in words, of this machine unless that of an earlier run is given."""
    on = on or machine()
    return f"{on['cpu']}, {on['cores']} cores, {on['memory_gb']} GB, {on['system']}, Python {on['python']}"


def measured_on(date: str, on: Mapping[str, str | int] | None = None) -> str:
    """When and where the figures were measured, as a sentence for a page."""
    return f"Measured on {date}: {named_machine(on)}"


def put_figures(file: Path, date: str, **figures: object) -> None:
    """Writes figures as JSON, with the day and the machine."""
    file.write_text(json.dumps({"date": date, "machine": machine(), **figures}, indent=1) + "\n")


def page_with(begin: str) -> Callable[[str], Path]:
    """A type of argument: a page that has this mark. It is checked before an hour of work, not after it."""

    def parse(said: str) -> Path:
        page = Path(said)
        if not page.is_file() or begin not in page.read_text():
            raise argparse.ArgumentTypeError(f"{page} is no page with a line {begin}")
        return page

    return parse


def put_between(page: Path, begin: str, end: str, text: str) -> None:
    """Replaces the text between two marks of a Markdown page."""
    before, _, rest = page.read_text().partition(begin)
    after = rest.partition(end)[2]
    page.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}")


def markdown(webs: Mapping[str, Measured]) -> str:
    """All tables, for docs/benchmarks.md."""
    parts = ["The figures are medians of the runs. The web server shares the cores."]
    for web, measured in webs.items():
        parts += [
            f"### {WEBS[web]}",
            f"{measured_on(measured.date, measured.machine)}.",
            table(measured.results),
        ]
    if reached := bars({web: measured.results for web, measured in webs.items()}):
        parts += ["### What it is meant to reach", reached]
    return "\n\n".join(parts)


def kept(file: Path | None) -> dict[str, Measured]:
    """The webs of an earlier benchmark, from its file of figures; {} without one."""
    if file is None or not file.exists():
        return {}
    known = json.loads(file.read_text())
    found = {}
    for web, results in known["webs"].items():
        if web in WEBS:
            when = known.get("when", {}).get(web, known)
            found[web] = Measured(when["date"], when["machine"], [_result_of(one) for one in results])
    return found


def _result_of(one: dict[str, Any]) -> Result:
    runs = [
        Run(Got(**run["got"]), **{name: run[name] for name in run if name != "got"}) for run in one["runs"]
    ]
    return Result(**{**one, "runs": runs})


def write(webs: Mapping[str, list[Result]], date: str, file: Path | None, page: Path | None) -> None:
    """Writes figures as JSON to a file, and tables between the two marks of a page.

    Webs in the file that were not measured now are kept, in both.
    """
    found = kept(file) | {web: Measured(date, machine(), results) for web, results in webs.items()}
    found = {web: found[web] for web in WEBS if web in found}
    if file:
        when = {web: {"date": one.date, "machine": one.machine} for web, one in found.items()}
        told = {web: [asdict(result) for result in one.results] for web, one in found.items()}
        put_figures(file, date, when=when, webs=told)
    if page:
        put_between(page, BEGIN, END, markdown(found))
