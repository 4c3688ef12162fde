"""The display of a crawl as lines in a log, and the figures that the panel and the summary show too."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from webcrawl.documents.values import counted, size
from webcrawl.frontier.figures import CrawlFigures

_CRAWLS: set[str] = set()
"""The names of all crawls of this process, which a script may run at once or in turn."""


def note_crawl(name: str) -> None:
    """Notes that this process runs a crawl of this name."""
    _CRAWLS.add(name)


def name_among_several(name: str) -> str:
    """Returns the name of a crawl if this process runs crawls of other names too, otherwise ""."""
    return name if _CRAWLS - {name} else ""


class Display:
    """A way to show figures."""

    def begin(self) -> None:
        self._pages: list[tuple[float, int]] = []

    def update(self, now: CrawlFigures, waits: Sequence[str]) -> None:
        """Shows the figures, and what the crawl waits for."""
        raise NotImplementedError

    def end(self) -> None:
        """Restores the terminal."""

    def speed(self, now: CrawlFigures) -> float:
        """Returns pages per second over the last 20 updates; at the first update, over the crawl so far."""
        self._pages = [*self._pages[-20:], (time.monotonic(), now.pages)]
        (began, first), (ended, last) = self._pages[0], self._pages[-1]
        return (last - first) / (ended - began) if ended > began else now.pages_per_second


class Hidden(Display):
    """Shows nothing."""

    def update(self, now: CrawlFigures, waits: Sequence[str]) -> None:
        """Does nothing."""


class PlainLines(Display):
    """Prints a line for each update on standard error, for logs; it names the crawl if the process runs several."""

    def __init__(self, crawl: str) -> None:
        self._crawl = crawl

    def update(self, now: CrawlFigures, waits: Sequence[str]) -> None:
        name = name_among_several(self._crawl)
        line = "; ".join([plain_line(now, self.speed(now)), *waits])
        print(f"{name}: {line}" if name else line, file=sys.stderr, flush=True)


def plain_line(now: CrawlFigures, speed: float) -> str:
    """Returns one line for a log."""
    state = "paused, " if now.paused else ""
    soft = f"{now.soft_404:,} soft 404, " if now.soft_404 else ""
    return f"{state}{holding(now)}" + (
        f"{counted(now.pages, 'page')} ({speed:.1f}/s), {size(now.bytes)}, {now.queued + now.leased:,} queued, "
        f"{counted(now.hosts, 'host')}, {counted(http_errors(now), 'HTTP error')}, {soft}{now.failed:,} failed, "
        f"{counted(duplicates(now), 'duplicate')}, {counted(now.retried, 'retry', 'retries')}, "
        f"{counted(now.unreachable, 'unreachable host')}"
    )


def holding(now: CrawlFigures) -> str:
    """Returns the number of workers that hold because their stores accept nothing, and the reason of one."""
    if not now.holding:
        return ""
    holders = (
        "holding" if len(now.holding) >= now.workers else f"{len(now.holding)} of {now.workers} workers hold"
    )
    return f"{holders}: {next(iter(now.holding.values()))}; "


def http_errors(now: CrawlFigures) -> int:
    """Returns the number of responses with status 400 or above. A fetch without a response is not counted."""
    return sum(count for status, count in now.responses.items() if status >= "400")


def duplicates(now: CrawlFigures) -> int:
    """Returns the number of exact duplicates and near-duplicates."""
    return now.exact_duplicates + now.near_duplicates
