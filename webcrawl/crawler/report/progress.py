"""Shows the progress of a crawl: a live panel in a terminal, plain lines elsewhere, the outlook in the dashboard."""

from __future__ import annotations

import asyncio
import math
import sys
import time
from collections import Counter
from contextlib import suppress

from scrapy import signals
from scrapy.crawler import Crawler

from webcrawl.config import read
from webcrawl.config.program import as_typed
from webcrawl.crawler.access import tasks_of
from webcrawl.crawler.report.causes import Look, Shares
from webcrawl.crawler.report.displays import Display, Hidden, PlainLines
from webcrawl.crawler.report.ending import Course, Point, SlowHost, SlowHosts, about, hosts_line
from webcrawl.crawler.report.stages import HostStages, LeasedHostState
from webcrawl.crawler.report.waiting import Waiting
from webcrawl.crawler.session import Session, SessionComponent
from webcrawl.documents.html.outline_process import MAX_WAITING_BYTES
from webcrawl.engine.client import UNAVAILABLE
from webcrawl.frontier.figures import CrawlFigures, figures
from webcrawl.frontier.workers import WorkerOutlook
from webcrawl.worker.link_intake import MOST_DISCOVERED

_LIVE_SECONDS = 0.5
_STOPPING_SECONDS = 1.0
_READ_SECONDS = 2.0
"""Seconds that a look at the engine may take before the display says that it waits for the engine."""
_LOOK_SECONDS = 5.0
"""The most seconds between two looks at the engine, whose results the dashboard shows too."""
_HOSTS_SECONDS = 2.0
"""Seconds between two look-ups of the queues of hosts."""


class Progress(SessionComponent):
    """Extension that prints the figures of the crawl; PROGRESS sets the kind, PROGRESS_INTERVAL the pace of lines.

    It also sends the outlook with the worker's heartbeats, if PROGRESS is off too.
    """

    def __init__(self, crawler: Crawler, session: Session) -> None:
        super().__init__(crawler, session)
        kind = read(crawler.settings, "PROGRESS")
        if kind == "auto":
            kind = "live" if sys.stderr.isatty() else "plain"
        self._outlook, self._waiting = Outlook(crawler, session), Waiting(crawler, session)
        self._display = _display(kind, session.connection.keys.crawl)
        self._shown_each = _LIVE_SECONDS if kind == "live" else read(crawler.settings, "PROGRESS_INTERVAL")
        self._interval = min(self._shown_each, _LOOK_SECONDS)
        self._shown = time.monotonic()
        self._task: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[tuple[CrawlFigures, list[str]]] | None = None
        """The look at the engine that is under way."""
        self._last: CrawlFigures | None = None
        self._engine_answers = True
        crawler.signals.connect(self.spider_opened, signals.spider_opened)
        crawler.signals.connect(self.spider_closed, signals.spider_closed)

    def spider_opened(self) -> None:
        if self._session.connection.is_open:
            if self._session.joined.resumed and not isinstance(self._display, Hidden):
                paused = " It is paused: `scrapy resume` continues it." if self._session.joined.paused else ""
                print(
                    as_typed(f"Resuming crawl {self._session.connection.keys.crawl!r}.{paused}"),
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
        """Waits for the next update; Ctrl-C ends the wait, and from then on there is an update each second."""
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
        """Shows the current figures, or the last figures while the engine does not answer."""
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
                self._update(self._last, waits)
                return
        if self._last is not None:
            self._update(self._last, self._waiting.without_engine(error))

    def _update(self, now: CrawlFigures, waits: list[str]) -> None:
        """Updates the display if it is time, and lets the next heartbeat send the outlook."""
        tasks_of(self._crawler).worker.heartbeat.vitals.outlook = self._outlook.now()
        passed = time.monotonic() - self._shown
        if passed > self._shown_each - _LIVE_SECONDS or self._session.turns.ending.is_set():
            self._shown += passed
            self._display.update(now, waits)

    async def _read(self) -> tuple[CrawlFigures, list[str]]:
        connection = self._session.connection
        now = await figures(connection.frontier, connection.crawl)
        return now, [*await self._outlook.lines(now), *await self._waiting.lines(now)]


def _display(kind: str, title: str) -> Display:
    if kind != "live":
        return Hidden() if kind == "off" else PlainLines(title)
    from webcrawl.crawler.report.live_panel import LivePanel  # Rich is slow to import

    return LivePanel(title)


class Outlook:
    """The outlook of a crawl, from one worker and the figures of the crawl: waits, slow hosts, and the end."""

    def __init__(self, crawler: Crawler, session: Session) -> None:
        self._crawler = crawler
        self._session = session
        self._shares = Shares()
        self._course = Course(session.config.max_pages, session.config.max_bytes)
        self._slow_hosts = SlowHosts()
        self._slow: list[SlowHost] = []
        self._looked = -math.inf
        self._stages = HostStages()
        self._states: list[LeasedHostState] = []
        """The leased hosts at the last sample."""

    def sample(self, now: CrawlFigures | None, *, engine_answers: bool) -> None:
        """Counts what the worker waits for at this moment. `now`: the last known figures of the crawl."""
        if self._session.turns.ending.is_set() or (now is not None and now.paused):
            self._shares.clear()
        else:
            self._shares.add(self._look(now, engine_answers=engine_answers))

    async def lines(self, now: CrawlFigures) -> list[str]:
        """Returns lines about waits, hosts that hold the crawl up, and its end, as far as known; raises UNAVAILABLE.

        Call it at each update of the display.
        """
        if self._session.turns.ending.is_set() or now.paused or now.holding:
            self._course.clear()
            self._slow = []
            return []
        moment = time.monotonic()
        if moment - self._looked >= _HOSTS_SECONDS:
            self._looked = moment
            self._slow = await self._slow_hosts.look(self._session.connection.frontier, self._states)
        unfinished = now.queued - now.retrying - now.parked + now.leased
        slowest = self._slow[0].seconds if self._slow else 0.0
        retries = self._session.config.longest_retries if now.retrying else 0.0
        self._course.add(Point(moment, now.pages, now.bytes, unfinished), slowest, retries)
        lines = [hosts_line(self._slow)] if self._slow else []
        if share := self._shares.line():
            lines.insert(0, share)
        if ending := self._course.ending(moment):
            lines.append(f"ends in {about(ending.seconds)}: {ending.grounds}")
        return lines

    def now(self) -> WorkerOutlook:
        """Returns the outlook as the last `lines` have told it."""
        ending = self._course.ending(time.monotonic())
        return WorkerOutlook(
            {str(cause): share for cause, share in self._shares.mean().items()},
            [(host.host, host.urls, host.gap) for host in self._slow],
            time.time() + ending.seconds if ending else None,
            ending.grounds if ending else "",
        )

    def _look(self, now: CrawlFigures | None, *, engine_answers: bool) -> Look:
        session, tasks = self._session, tasks_of(self._crawler)
        worker = tasks.worker
        self._states = self._stages.next(worker.hosts, time.monotonic())
        scraper, outlines = self._crawler.engine.scraper.slot, session.outlines
        is_full = outlines is not None and outlines.bytes > MAX_WAITING_BYTES
        return Look(
            hosts=Counter(state.stage for state in self._states),
            processed=len(tasks.processing),
            written=session.backpressure.writes,
            has_connections=session.turns.has_room,
            is_full=is_full or (scraper is not None and scraper.needs_backout()),
            holds=bool(session.backpressure.reason),
            engine_is_away=not engine_answers or len(worker.intake) > MOST_DISCOVERED,
            queued=max(0, now.queued - now.retrying - now.parked) if now else 0,
            retrying=now.retrying if now else 0,
        )
