"""What a person sees while a crawl runs: a live panel in a terminal, plain lines elsewhere."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from typing import Any, Self

from rich.console import Console
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.utils.log import get_scrapy_root_handler

from webcrawl.config import number
from webcrawl.engine import AWAY
from webcrawl.errors import ConfigurationError
from webcrawl.figures import Figures, figures
from webcrawl.session import Session

_LIVE_SECONDS = 0.5
_KINDS = ("auto", "live", "plain", "off")


class Progress:
    """Extension: PROGRESS says which kind, PROGRESS_INTERVAL how often a plain line is printed."""

    def __init__(self, session: Session, title: str, kind: str, interval: float) -> None:
        self._session = session
        self._display: _Display = _LivePanel(title) if kind == "live" else _PlainLines()
        self._interval = _LIVE_SECONDS if kind == "live" else interval
        self._task: asyncio.Task[None] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        kind = str(crawler.settings.get("PROGRESS"))
        if kind not in _KINDS:
            raise ConfigurationError(f"PROGRESS {kind!r}: use one of {', '.join(_KINDS)}")
        if kind == "off":
            raise NotConfigured
        if kind == "auto":
            kind = "live" if sys.stderr.isatty() else "plain"
        session = Session.of(crawler)
        interval = number(crawler.settings, "PROGRESS_INTERVAL", least=0.1)
        extension = cls(session, session.keys.crawl, kind, interval)
        crawler.signals.connect(extension.spider_opened, signals.spider_opened)
        crawler.signals.connect(extension.spider_closed, signals.spider_closed)
        return extension

    def spider_opened(self) -> None:
        if self._session.is_open:
            if self._session.resumed:
                print(f"Going on with crawl {self._session.keys.crawl!r}.", file=sys.stderr, flush=True)
            self._display.begin()
            self._task = asyncio.create_task(self._show())

    async def spider_closed(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._display.end()

    async def _show(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            try:
                self._display.update(await figures(self._session.frontier, self._session.crawl))
            except AWAY:
                continue


class _Display:
    """One way to show figures."""

    def begin(self) -> None:
        self._pages: list[tuple[float, int]] = []

    def update(self, now: Figures) -> None:
        raise NotImplementedError

    def end(self) -> None:
        """Leave the terminal as it was."""

    def _speed(self, pages: int) -> float:
        """Pages a second over the last ten seconds or so."""
        self._pages = [*self._pages[-20:], (time.monotonic(), pages)]
        (began, first), (ended, last) = self._pages[0], self._pages[-1]
        return (last - first) / (ended - began) if ended > began else 0.0


class _PlainLines(_Display):
    def update(self, now: Figures) -> None:
        print(plain_line(now, self._speed(now.pages)), file=sys.stderr, flush=True)


class _LivePanel(_Display):
    def __init__(self, title: str) -> None:
        self._title = title
        self._live = Live(console=Console(stderr=True), transient=True, refresh_per_second=4)
        self._stream: Any = None

    def begin(self) -> None:
        super().begin()
        self._live.start()
        # log lines go above the panel instead of through it
        handler = get_scrapy_root_handler()
        if isinstance(handler, logging.StreamHandler) and not isinstance(handler, logging.FileHandler):
            self._stream = handler.setStream(sys.stderr)

    def update(self, now: Figures) -> None:
        self._live.update(_panel(self._title, now, self._speed(now.pages)))

    def end(self) -> None:
        handler = get_scrapy_root_handler()
        self._live.stop()
        if isinstance(handler, logging.StreamHandler) and self._stream is not None:
            handler.setStream(self._stream)


def plain_line(now: Figures, speed: float) -> str:
    """One line for a log."""
    return (
        f"{now.pages:,} pages ({speed:.1f}/s), {size(now.bytes)}, {now.queued + now.leased:,} queued, "
        f"{now.hosts:,} hosts, {errors(now):,} errors, {now.exact_duplicates + now.near_duplicates:,} duplicates"
    )


def errors(now: Figures) -> int:
    """Responses of status 400 and above, and fetches that failed for good."""
    return now.failed + sum(count for status, count in now.responses.items() if status >= "400")


def size(number_of_bytes: float) -> str:
    """Bytes as people read them."""
    for unit in ("B", "kB", "MB", "GB"):
        if number_of_bytes < 1000:
            return f"{number_of_bytes:.0f} {unit}" if unit == "B" else f"{number_of_bytes:.1f} {unit}"
        number_of_bytes /= 1000
    return f"{number_of_bytes:.1f} TB"


def _panel(title: str, now: Figures, speed: float) -> Panel:
    table = Table.grid(padding=(0, 3))
    rows = [
        ("pages", f"{now.pages:,}", "queued", f"{now.queued:,}", "errors", f"{errors(now):,}"),
        ("pages/s", f"{speed:.1f}", "in work", f"{now.leased:,}", "robots.txt", f"{now.robots_denied:,}"),
        (
            "bytes",
            size(now.bytes),
            "seen",
            f"{now.seen_urls:,}",
            "duplicates",
            f"{now.exact_duplicates + now.near_duplicates:,}",
        ),
        ("hosts", f"{now.hosts:,}", "workers", f"{now.workers}", "dead letters", f"{now.dead_letters:,}"),
        ("retries", f"{now.retried:,}", "failed", f"{now.failed:,}", "refused", f"{now.addresses_refused:,}"),
    ]
    for _ in range(3):
        table.add_column(style="dim")
        table.add_column(justify="right", min_width=8)
    for row in rows:
        table.add_row(*row)
    return Panel.fit(table, title=f"crawl {title}", subtitle="Ctrl-C stops; the same command goes on")
