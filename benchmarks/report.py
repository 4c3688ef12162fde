"""The results of the side-by-side benchmark: medians, and whether the targets are reached."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from benchmarks.served import Got


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
    """The medians of one contender: CPU in milliseconds a page, less that of `start_cpu` seconds; memory in MB.

    `pages`, with their mean size and number of links, are those of the last run.
    """

    name: str
    title: str
    pages_per_second: float
    crawler_ms: float
    engine_ms: float
    crawler_peak: float
    engine_peak: float
    start_cpu: float
    pages: int
    kilobytes: float
    links: float
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

    got = runs[-1].got
    return Result(
        name,
        title,
        round(statistics.median(run.got.pages / max(run.got.seconds, 1e-3) for run in runs), 1),
        statistics.median(a_page(run.crawler_cpu - crawler_start, run.got.pages) for run in runs),
        max(0.0, statistics.median(a_page(run.engine_cpu - engine_start, run.got.pages) for run in runs)),
        round(statistics.median(run.crawler_peak for run in runs)),
        round(statistics.median(run.engine_peak for run in runs)),
        round(crawler_start + engine_start, 2),
        *(got.pages, got.kilobytes, got.links),
        runs,
    )


class Bar(NamedTuple):
    """The target of `ours` on a web: pages/s as a multiple of another's, or at most an amount.

    "seconds" are those of the crawl, "gap" is the 95th percentile of the seconds between two pages of a host.

    CPU is in ms a page, or, with `other`, a ratio to the other's. Memory is in MB, of the crawler and its Valkey.
    """

    web: str
    ours: str
    other: str
    figure: str
    limit: float

    def value(self, ours: Result, other: Result | None) -> float:
        if self.figure == "seconds":
            return statistics.median(run.got.seconds for run in ours.runs)
        if self.figure == "gap":
            return statistics.median(run.got.gaps[2] for run in ours.runs)
        if self.figure == "memory":
            return ours.crawler_peak + ours.engine_peak
        if self.figure == "CPU":
            return ours.total_ms / (other.total_ms if other else 1)
        assert other is not None
        return ours.pages_per_second / max(other.pages_per_second, 1e-3)

    def line(self, value: float) -> str:
        """The value beside the target, in words."""
        is_reached = value >= self.limit if self.figure == "pages/s" else value <= self.limit
        against = f" against {self.other}" if self.other else ""
        bar = f"bar {self.limit:g}" + ("" if is_reached else ": MISSED")
        return f"{self.web}: {self.ours}{against}, {self.figure}: {value:.2f}, {bar}"


_PEERS = ("CPU", 0.8), ("pages/s", 1)
BARS = [
    Bar("http", "links", "scrapy-redis", "pages/s", 15),
    Bar("http", "links", "scrapy", "pages/s", 8),
    Bar("http", "full", "scrapy", "pages/s", 4),
    Bar("http", "full-stored", "full", "CPU", 1.15),
    Bar("http", "links", "", "CPU", 3.0),
    *(Bar("http", "links", peer, *bar) for peer in ("colly", "spider") for bar in _PEERS),
    *(Bar("http", "full", peer, *bar) for peer in ("colly-full", "spider-full") for bar in _PEERS),
    Bar("http", "links", "", "memory", 180),
    Bar("http", "full", "", "memory", 230),
    Bar("http", "links", "links-reference", "CPU", 0.78),
    Bar("http", "full", "full-reference", "CPU", 0.85),
    Bar("many", "links", "scrapy", "pages/s", 4),
    Bar("http", "links-2", "links", "CPU", 1.1),
    Bar("thousand", "links", "", "seconds", 17),
    Bar("thousand", "links", "", "gap", 1.3),
    Bar("polite", "links", "scrapy", "pages/s", 2.5),
    Bar("polite", "links", "", "CPU", 2.0),
    Bar("polite", "links", "", "memory", 400),
    Bar("small", "links", "scrapy", "pages/s", 2.5),
    Bar("small", "links", "", "CPU", 2.0),
    Bar("small", "links", "", "memory", 400),
]


def bars(web: str, results: list[Result]) -> Iterator[str]:
    """Yields a line for each target of a web whose contenders ran."""
    measured = {result.name: result for result in results}
    for bar in BARS:
        ours, other = measured.get(bar.ours), measured.get(bar.other)
        if bar.web == web and ours and (other or not bar.other):
            yield bar.line(bar.value(ours, other))
