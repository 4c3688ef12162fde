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
        self._checked: list[tuple[float, int]] = []

    def update(self, now: CrawlFigures, waits: Sequence[str]) -> None:
        """Shows the figures, and what the crawl waits for."""
        raise NotImplementedError

    def end(self) -> None:
        """Restores the terminal."""

    def speed(self, now: CrawlFigures) -> float:
        """Returns pages per second over the last 20 updates; at the first update, over the crawl so far."""
        self._pages = [*self._pages[-20:], (time.monotonic(), now.pages)]
        return _speed(self._pages, now.pages_per_second)

    def checks(self, now: CrawlFigures) -> float:
        """Returns repeated visits per second over the last 20 updates; 0 at the first update."""
        self._checked = [*self._checked[-20:], (time.monotonic(), now.checked)]
        return _speed(self._checked, 0.0)


def _speed(counts: Sequence[tuple[float, int]], at_first: float) -> float:
    (began, first), (ended, last) = counts[0], counts[-1]
    return (last - first) / (ended - began) if ended > began else at_first


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
        line = "; ".join([plain_line(now, self.speed(now), self.checks(now)), *waits])
        print(f"{name}: {line}" if name else line, file=sys.stderr, flush=True)


def plain_line(now: CrawlFigures, speed: float, checks: float = 0.0) -> str:
    """Returns one line for a log; `checks` are repeated visits a second."""
    state = "paused, " if now.paused else ""
    soft = f"{now.soft_404:,} soft 404, " if now.soft_404 else ""
    return f"{state}{holding(now)}" + (
        f"{counted(now.pages, 'page')} ({speed:.1f}/s), {_recrawl(now, checks)}{size(now.bytes)}, "
        f"{now.queued + now.leased:,} queued, "
        f"{counted(now.hosts, 'host')}, {counted(http_errors(now), 'HTTP error')}, {soft}{now.failed:,} failed, "
        f"{counted(duplicates(now), 'duplicate')}, {counted(now.retried, 'retry', 'retries')}, "
        f"{counted(now.unreachable, 'unreachable host')}"
    )


def _recrawl(now: CrawlFigures, checks: float) -> str:
    if not now.checked:
        return ""
    checked = f"{now.checked:,} checked again ({checks:.1f}/s), "
    if not now.revisits:  # with REVISIT, a page that has changed counts as a page
        return checked
    late = f"{now.late:,} late, " if now.late else ""
    return f"{checked}{now.revisits.get('changed', 0):,} changed, {late}"


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
