"""The live panel of a crawl in a terminal."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from scrapy.utils.log import get_scrapy_root_handler

from webcrawl.config.program import as_typed
from webcrawl.crawler.report.displays import Display, duplicates, holding, http_errors
from webcrawl.crawler.report.waiting import STOPPING, duration
from webcrawl.documents.values import size
from webcrawl.frontier.figures import CrawlFigures

_FRAME = 4
"""The number of columns that the border of a panel takes."""


class LivePanel(Display):
    """Shows a panel that changes in its place on a terminal; log lines are printed above it."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._live = Live(console=Console(stderr=True), transient=True, refresh_per_second=4)
        self._stream: Any = None

    def begin(self) -> None:
        super().begin()
        self._live.start()
        # log lines are printed above the panel
        handler = get_scrapy_root_handler()
        if isinstance(handler, logging.StreamHandler) and not isinstance(handler, logging.FileHandler):
            self._stream = handler.setStream(sys.stderr)

    def update(self, now: CrawlFigures, waits: Sequence[str]) -> None:
        speeds = self.speed(now), self.checks(now)
        self._live.update(panel(self._live.console, self._title, now, speeds[0], waits, speeds[1]))

    def end(self) -> None:
        handler = get_scrapy_root_handler()
        self._live.stop()
        if isinstance(handler, logging.StreamHandler) and self._stream is not None:
            handler.setStream(self._stream)


def panel(
    console: Console,
    title: str,
    now: CrawlFigures,
    speed: float,
    waits: Sequence[str] = (),
    checks: float = 0.0,
) -> Panel:
    """Returns the figures in up to three columns that fit the console, above the lines about waits."""
    cells = _cells(now, speed) + _recrawl_cells(now, checks)
    cells += [
        (name, f"{share:.1%}" if wanted is None else f"{share:.1%} of {wanted:.0%}")
        for name, (share, wanted) in now.fetch_shares().items()
    ]
    for columns in (3, 2, 1):
        table = _table(cells, columns)
        if (width := console.measure(table).maximum + _FRAME) <= console.width:
            break
    if now.holding:
        waits = [holding(now).removesuffix("; "), *waits]
    if now.paused:
        waits = [as_typed("paused: `scrapy resume` continues it"), *waits]
    # as wide as the terminal while there are lines, because they change
    lines = [Text(line, style="yellow", no_wrap=True, overflow="ellipsis") for line in waits]
    room = console.width if lines else width
    ending = any(line.startswith(STOPPING) for line in waits)
    subtitle = "Ctrl-C again drops what is under way" if ending else "Ctrl-C stops; the same command resumes"
    return Panel(
        Group(table, *lines) if lines else table,
        title=f"crawl {title}{_state(now, ending)}",
        subtitle=subtitle if len(subtitle) + _FRAME < room else "Ctrl-C stops",
        expand=bool(lines),
    )


def _cells(now: CrawlFigures, speed: float) -> list[tuple[str, str]]:
    """Returns names and figures: first the work done, then the URLs left or left out, then the errors."""
    return [
        ("pages", f"{now.pages:,}"),
        ("pages/s", f"{speed:.1f}"),
        ("received", size(now.bytes)),
        ("hosts", f"{now.hosts:,}"),
        ("duplicates", f"{duplicates(now):,}"),
        ("workers", f"{now.workers}"),
        ("queued", f"{now.queued:,}"),
        ("leased", f"{now.leased:,}"),
        ("seen URLs", f"{now.seen_urls:,}"),
        ("cache hits", f"{now.cache_hit_ratio:.1%}"),
        ("robots.txt", f"{now.robots_denied:,}"),
        ("refused", f"{now.addresses_refused:,}"),
        ("HTTP errors", f"{http_errors(now):,}"),
        ("soft 404", f"{now.soft_404:,}"),
        ("retries", f"{now.retried:,}"),
        ("unreachable", f"{now.unreachable:,}"),
        ("failed", f"{now.failed:,}"),
        ("dead letters", f"{now.dead_letters:,}"),
    ]


def _recrawl_cells(now: CrawlFigures, checks: float) -> list[tuple[str, str]]:
    if not now.checked:
        return []
    checked = [("checked again", f"{now.checked:,}"), ("checks/s", f"{checks:.1f}")]
    if not now.revisits:
        return checked
    late = f" ({duration(now.late_seconds)})" if now.late else ""
    return [
        *checked,
        ("changed", f"{now.revisits.get('changed', 0):,}"),
        ("unchanged", f"{now.revisits.get('unchanged', 0):,}"),
        ("late", f"{now.late:,}{late}"),
        ("fresh", "" if now.freshness is None else f"{now.freshness:.0%}"),
    ]


def _state(now: CrawlFigures, ending: bool) -> str:
    if ending:
        return " (stopping)"
    return " (paused)" if now.paused else " (holding)" if now.holding else ""


def _table(cells: Sequence[tuple[str, str]], columns: int) -> Table:
    """Returns a table of names and numbers, filled column by column."""
    table = Table.grid(padding=(0, 2))
    for _ in range(columns):
        table.add_column(style="dim", no_wrap=True)
        table.add_column(justify="right", min_width=8, no_wrap=True)
    height = -(-len(cells) // columns)
    for row in range(height):
        table.add_row(*(word for cell in cells[row::height] for word in cell))
    return table
