"""The outlook of a crawl, for the progress display: its waits, the hosts that hold it up, and its end."""

from __future__ import annotations

import math
import time
from collections import Counter

from scrapy.crawler import Crawler

from webcrawl.crawler.access import tasks_of
from webcrawl.crawler.report.causes import Look, Shares
from webcrawl.crawler.report.ending import Course, Point, SlowHost, SlowHosts, about, hosts_line
from webcrawl.crawler.report.stages import HostStages, LeasedHostState
from webcrawl.crawler.session import Session
from webcrawl.documents.html.outline_process import MAX_WAITING_BYTES
from webcrawl.frontier.figures import CrawlFigures
from webcrawl.worker.link_intake import MOST_DISCOVERED

_HOSTS_SECONDS = 2.0
"""Seconds between two look-ups of the queues of hosts."""


class Outlook:
    """Looks at one worker, and at the figures of its crawl."""

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
