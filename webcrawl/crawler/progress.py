"""Shows the progress of a crawl: a live panel in a terminal, plain lines elsewhere."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.utils.log import get_scrapy_root_handler

from webcrawl.config import read
from webcrawl.crawler.outlook import Outlook
from webcrawl.crawler.session import Session
from webcrawl.crawler.waiting import STOPPING, Waiting
from webcrawl.documents.values import counted, size
from webcrawl.engine.client import UNAVAILABLE
from webcrawl.frontier.figures import Figures, figures

_LIVE_SECONDS = 0.5
_STOPPING_SECONDS = 1.0
_READ_SECONDS = 2.0
"""How long a look at the engine may take before the display says that it waits for the engine."""
_FRAME = 4
"""Columns that the border of a panel takes."""


class Progress:
    """Extension that prints the figures of the crawl; PROGRESS sets the kind, PROGRESS_INTERVAL the pace of lines."""

    def __init__(
        self, session: Session, outlook: Outlook, waiting: Waiting, title: str, kind: str, interval: float
    ) -> None:
        self._session = session
        self._outlook = outlook
        self._waiting = waiting
        self._display: _Display = _LivePanel(title) if kind == "live" else _PlainLines()
        self._interval = _LIVE_SECONDS if kind == "live" else interval
        self._task: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[tuple[Figures, list[str]]] | None = None
        """A look at the engine that is not over."""
        self._last: Figures | None = None
        self._engine_answers = True

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        kind = read(crawler.settings, "PROGRESS")
        if kind == "off":
            raise NotConfigured
        if kind == "auto":
            kind = "live" if sys.stderr.isatty() else "plain"
        session = Session.of(crawler)
        interval = read(crawler.settings, "PROGRESS_INTERVAL")
        outlook, waiting = Outlook(crawler, session), Waiting(crawler, session)
        extension = cls(session, outlook, waiting, session.connection.keys.crawl, kind, interval)
        crawler.signals.connect(extension.spider_opened, signals.spider_opened)
        crawler.signals.connect(extension.spider_closed, signals.spider_closed)
        return extension

    def spider_opened(self) -> None:
        if self._session.connection.is_open:
            if self._session.connection.joined.resumed:
                paused = (
                    " It is paused: `scrapy resume` continues it."
                    if self._session.connection.joined.paused
                    else ""
                )
                print(
                    f"Resuming crawl {self._session.connection.keys.crawl!r}.{paused}",
                    file=sys.stderr,
                    flush=True,
                )
            self._task = asyncio.create_task(self._show())

    async def spider_closed(self) -> None:
        tasks = [task for task in (self._task, self._reading) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _show(self) -> None:
        """Runs until cancelled by the end of the spider or a second Ctrl-C."""
        self._display.begin()
        try:
            while True:
                await self._pause()
                await self._look()
        finally:
            self._display.end()

    async def _pause(self) -> None:
        """Waits for the next update; Ctrl-C ends that, and from then on there is an update each second."""
        ending = self._session.turns.ending
        if ending.is_set():
            await asyncio.sleep(min(self._interval, _STOPPING_SECONDS))
            return
        until = time.monotonic() + self._interval
        while (left := until - time.monotonic()) > 0 and not ending.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left, _LIVE_SECONDS)):
                    await ending.wait()
            self._outlook.sample(self._last, engine_answers=self._engine_answers)

    async def _look(self) -> None:
        """Shows the current figures, or the last ones while the engine does not answer."""
        if self._reading is None:
            self._reading = asyncio.create_task(self._read())
        await asyncio.wait([self._reading], timeout=_READ_SECONDS)
        error, self._engine_answers = None, False
        if self._reading.done():
            reading, self._reading = self._reading, None
            try:
                self._last, waits = reading.result()
            except UNAVAILABLE as unavailable:
                error = unavailable
            else:
                self._engine_answers = True
                self._display.update(self._last, waits)
                return
        if self._last is not None:
            self._display.update(self._last, self._waiting.without_engine(error))

    async def _read(self) -> tuple[Figures, list[str]]:
        connection = self._session.connection
        now = await figures(connection.frontier, connection.crawl)
        return now, [*await self._outlook.lines(now), *await self._waiting.lines(now)]


class _Display:
    """A way to show figures."""

    def begin(self) -> None:
        self._pages: list[tuple[float, int]] = []

    def update(self, now: Figures, waits: Sequence[str]) -> None:
        """Show the figures, and what the crawl waits for."""
        raise NotImplementedError

    def end(self) -> None:
        """Restore the terminal."""

    def _speed(self, now: Figures) -> float:
        """Pages a second over the last 20 updates; at the first one, over the crawl so far."""
        self._pages = [*self._pages[-20:], (time.monotonic(), now.pages)]
        (began, first), (ended, last) = self._pages[0], self._pages[-1]
        return (last - first) / (ended - began) if ended > began else now.pages_per_second


class _PlainLines(_Display):
    def update(self, now: Figures, waits: Sequence[str]) -> None:
        print("; ".join([plain_line(now, self._speed(now)), *waits]), file=sys.stderr, flush=True)


class _LivePanel(_Display):
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

    def update(self, now: Figures, waits: Sequence[str]) -> None:
        self._live.update(panel(self._live.console, self._title, now, self._speed(now), waits))

    def end(self) -> None:
        handler = get_scrapy_root_handler()
        self._live.stop()
        if isinstance(handler, logging.StreamHandler) and self._stream is not None:
            handler.setStream(self._stream)


def plain_line(now: Figures, speed: float) -> str:
    """One line for a log."""
    state = "paused, " if now.paused else ""
    return f"{state}{_holding(now)}" + (
        f"{counted(now.pages, 'page')} ({speed:.1f}/s), {size(now.bytes)}, {now.queued + now.leased:,} queued, "
        f"{counted(now.hosts, 'host')}, {counted(errors(now), 'HTTP error')}, {now.failed:,} failed, "
        f"{counted(duplicates(now), 'duplicate')}, {counted(now.retried, 'retry', 'retries')}, "
        f"{counted(now.unreachable, 'unreachable host')}"
    )


def _holding(now: Figures) -> str:
    """The number of workers that hold because their stores accept nothing, and the reason of one of them."""
    if not now.holding:
        return ""
    holders = (
        "holding" if len(now.holding) >= now.workers else f"{len(now.holding)} of {now.workers} workers hold"
    )
    return f"{holders}: {next(iter(now.holding.values()))}; "


def http_errors(now: Figures) -> int:
    """Responses of status 400 and above. Fetches without a response are counted as failed instead."""
    return sum(count for status, count in now.responses.items() if status >= "400")


def errors(now: Figures) -> int:
    """HTTP errors, and error pages that answered with 200."""
    return http_errors(now) + now.soft_404


def duplicates(now: Figures) -> int:
    """Exact and near-duplicates."""
    return now.exact_duplicates + now.near_duplicates


def panel(console: Console, title: str, now: Figures, speed: float, waits: Sequence[str] = ()) -> Panel:
    """The figures in three columns, or in as many as fit the console, above what the crawl waits for."""
    cells = _cells(now, speed)
    for columns in (3, 2, 1):
        table = _table(cells, columns)
        if (width := console.measure(table).maximum + _FRAME) <= console.width:
            break
    if now.holding:
        waits = [_holding(now).removesuffix("; "), *waits]
    if now.paused:
        waits = ["paused: `scrapy resume` continues it", *waits]
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


def _cells(now: Figures, speed: float) -> list[tuple[str, str]]:
    """Names and figures. In the first column is what was done, then what is left or left out, then what went wrong."""
    return [
        ("pages", f"{now.pages:,}"),
        ("pages/s", f"{speed:.1f}"),
        ("bytes", size(now.bytes)),
        ("hosts", f"{now.hosts:,}"),
        ("duplicates", f"{duplicates(now):,}"),
        ("workers", f"{now.workers}"),
        ("queued", f"{now.queued:,}"),
        ("leased", f"{now.leased:,}"),
        ("seen", f"{now.seen_urls:,}"),
        ("cache hits", f"{now.cache_hit_ratio:.1%}"),
        ("robots.txt", f"{now.robots_denied:,}"),
        ("refused", f"{now.addresses_refused:,}"),
        ("HTTP errors", f"{errors(now):,}"),
        ("retries", f"{now.retried:,}"),
        ("unreachable", f"{now.unreachable:,}"),
        ("failed", f"{now.failed:,}"),
        ("dead letters", f"{now.dead_letters:,}"),
    ]


def _state(now: Figures, ending: bool) -> str:
    if ending:
        return " (stopping)"
    return " (paused)" if now.paused else " (holding)" if now.holding else ""


def _table(cells: Sequence[tuple[str, str]], columns: int) -> Table:
    """A table of names and numbers, filled column by column."""
    table = Table.grid(padding=(0, 2))
    for _ in range(columns):
        table.add_column(style="dim", no_wrap=True)
        table.add_column(justify="right", min_width=8, no_wrap=True)
    height = -(-len(cells) // columns)
    for row in range(height):
        table.add_row(*(word for cell in cells[row::height] for word in cell))
    return table
