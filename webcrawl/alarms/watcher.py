"""Watches a crawl: reads its figures every few seconds, and puts alarms into the outbox."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from webcrawl.alarms.judging import NOTIFIED, Alarm, judge
from webcrawl.alarms.outbox import Notice, Outbox, utc_now
from webcrawl.alarms.reading import CrawlReading
from webcrawl.alarms.state import WatcherState
from webcrawl.alarms.stuck import Kind, StuckPages, UntoldPages
from webcrawl.alarms.targets import Targets, deliver
from webcrawl.documents.values import counted
from webcrawl.engine.client import UNAVAILABLE
from webcrawl.engine.keys import job_of
from webcrawl.engine.lock import EngineLock
from webcrawl.errors import StoreError
from webcrawl.frontier import Crawl, Frontier
from webcrawl.frontier.figures import GIVEN_UP, CrawlFigures, figures

logger = logging.getLogger(__name__)

LOOK_SECONDS = 3.0
WATCHER_SECONDS = 15.0
"""Seconds without a sign of the watcher after which another process may watch."""
ENGINE_SECONDS = 30.0
"""The time without an answer of the engine after which there is an alarm."""
KEPT_DAYS = 90
"""How long sent notifications are kept."""
_EXAMPLES = 10


@dataclass(frozen=True, slots=True)
class About:
    """The subject of notifications: a crawl, its job, and its page of the dashboard; "" if unknown."""

    crawl: str
    job: str = ""
    link: str = ""

    @classmethod
    def of(cls, crawl: str, dashboard: str) -> About:
        """Returns the subject for a crawl, with a link to the dashboard at an address, or "" without a dashboard."""
        link = f"{dashboard.rstrip('/')}/crawls/{crawl}" if dashboard else ""
        return cls(crawl, job_of(crawl), link)

    @property
    def listing(self) -> str:
        """Returns a sentence with the command that lists the stuck pages."""
        return f"`scrapy {f'jobs records {self.job} --state STUCK' if self.job else f'stuck {self.crawl}'}` lists them."

    def notice(self, kind: str, mark: str, title: str, text: str, now: datetime) -> Notice:
        """Returns a notification. Of several with the same crawl, kind and mark, only the first is sent."""
        key = f"{self.crawl} {kind} {mark}"
        title = f"{self.job or self.crawl}: {title}"
        if self.job:
            text = f"{text}\n\nCrawl {self.crawl} of job {self.job}."
        return Notice(key, kind, title, text, now, self.crawl, self.job, self.link)


class Post:
    """The outbox and the stuck pages of a metadata database for coroutines: blocking calls run in threads."""

    def __init__(self, uri: str, urls: list[str]) -> None:
        """Raises ConfigurationError for an invalid Apprise URL, and StoreError."""
        self.targets = Targets(urls)
        self.outbox = Outbox(uri)
        self.outbox.forget(utc_now() - timedelta(days=KEPT_DAYS))
        self.stuck = StuckPages(uri)
        self._sending: asyncio.Task[None] | None = None
        self._is_closed = False

    async def put(self, notice: Notice) -> bool:
        """Stores a notification to be sent; returns False if it was stored before."""
        return await asyncio.to_thread(self.outbox.put, notice, self.targets.ids)

    def send_soon(self) -> None:
        """Begins to send due notices, unless notices are being sent."""
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send())

    async def close(self, seconds: float = 0.0) -> None:
        """Sends due notices for at most `seconds`, and closes the connections. The other notices stay in the outbox."""
        self.send_soon()
        assert self._sending is not None
        await asyncio.wait([self._sending], timeout=seconds)
        self._is_closed = True
        await asyncio.to_thread(self.outbox.close)
        await asyncio.to_thread(self.stuck.close)

    async def _send(self) -> None:
        try:
            await asyncio.to_thread(deliver, self.outbox, self.targets, is_over=lambda: self._is_closed)
        except StoreError as error:
            logger.warning("Notifications wait for the metadata database: %s", error)


@dataclass
class Watcher:
    """Watches one crawl while no other process does.

    The engine holds the lock and the state, so another process continues when this one dies. All methods
    may be called again after they raise.
    """

    frontier: Frontier
    crawl: Crawl
    post: Post
    about: About
    clock: Callable[[], float] = field(default=time.time, kw_only=True)
    _state: WatcherState | None = field(default=None, init=False)
    """The state of the watcher; None while another process watches."""
    _answered: float = field(default=0.0, init=False)
    """When the engine last answered; 0 before its first answer."""

    def __post_init__(self) -> None:
        keys = self.crawl.keys
        self._lock = EngineLock(
            self.crawl.engine, keys.own("watcher"), self.crawl.worker, WATCHER_SECONDS, keys.own("watched")
        )

    async def look(self) -> bool:
        """Reads the figures once, and puts alarms into the outbox; returns False if another process watches.

        Raises StoreError while the database is unavailable; a later call then puts the same alarms.
        """
        try:
            return await self._look()
        except UNAVAILABLE as error:
            await self._tell_of_engine(error)
            return self._state is not None

    async def finish(self, reason: str, text: str) -> None:
        """Puts the notification that the crawl finished or stopped, with its summary and problems without an alarm.

        `reason` is Scrapy's reason, such as "finished". Of workers that end at the same time, only one puts it.
        """
        now = await figures(self.frontier, self.crawl)
        state = "finished" if reason == "finished" else f"stopped ({reason})"
        title = f"crawl {state} with {counted(now.pages, 'page')}"
        lost = await self._untold_workers()
        lines = [text, *([f"Workers that ended without signing off: {', '.join(lost)}"] if lost else [])]
        untold = await asyncio.to_thread(self.post.stuck.count_untold, self.about.crawl)
        for kind, pages in sorted(untold.items()):
            lines.append(f"Stuck pages of kind {kind} without a notification: {pages.number:,}")
            lines += await self._examples(kind)
        # a run that fetched nothing since the previous run has no news
        mark = f"{reason} {sum(now.responses.values())} {now.failed} {now.retried} {now.dead_letters}"
        await self._put("FINISHED", mark, title, "\n".join(lines))
        for kind, pages in untold.items():
            await self._mark(kind, pages.until)
        await self.crawl.workers.bury(lost)

    async def leave(self) -> None:
        """Lets another process watch."""
        if self._state is not None:
            await self._lock.leave(self._state.encoded())
            self._state = None

    async def _look(self) -> bool:
        notes = await self._lock.claim()
        if notes is None:
            self._state = None
            return False
        if self._state is None:
            self._state = WatcherState.decoded(notes)
        untold = await asyncio.to_thread(self.post.stuck.count_untold, self.about.crawl)
        reading = await self._read({kind: pages.number for kind, pages in untold.items()})
        self._answered = reading.now
        state, alarms = judge(self._state, reading)
        for alarm in alarms:
            await self._tell(alarm, untold)
        # last: an alarm that was not stored is raised again
        self._state = state
        await self._lock.claim(state.encoded())
        return True

    async def _read(self, untold: Mapping[Kind, int]) -> CrawlReading:
        workers = self.crawl.workers
        now, totals = await figures(self.frontier, self.crawl), await self.crawl.totals()
        alive = await workers.count_alive()
        engine_now, lost = await workers.lost()
        return reading_of(
            now,
            totals,
            now_seconds=self.clock(),
            engine_now=engine_now,
            alive=alive,
            lost=lost,
            untold=untold,
        )

    async def _tell(self, alarm: Alarm, untold: Mapping[Kind, UntoldPages]) -> None:
        lines = [alarm.text]
        if alarm.kind == "HOSTS":
            lines += await self._hosts()
        kind: Any = alarm.about
        if kind:
            lines = [self.about.listing, *await self._examples(kind)]
        await self._put(alarm.kind, alarm.mark, alarm.title, "\n".join(lines))
        if kind:
            await self._mark(kind, untold[kind].until)
        await self.crawl.workers.bury(alarm.lost)

    async def _tell_of_engine(self, error: BaseException) -> None:
        """Puts an alarm about the lost engine, if this process watched until then."""
        silent = self.clock() - self._answered
        if self._state is None or not self._answered or silent < ENGINE_SECONDS:
            return
        text = (
            f"The engine has not answered for {silent:.0f} seconds: {error}. Workers wait for it; nothing is lost. "
            "No other alarm is possible without the engine."
        )
        await self._put("ENGINE", f"{self._answered:.0f}", "the engine does not answer", text)

    async def _put(self, kind: str, mark: str, title: str, text: str) -> None:
        now = datetime.fromtimestamp(self.clock(), UTC)
        await self.post.put(self.about.notice(kind, mark, title, text, now))

    async def _untold_workers(self) -> list[str]:
        """Returns the workers that died too recently to be in an alarm."""
        _, lost = await self.crawl.workers.lost()
        known = {} if self._state is None else self._state.lost
        return sorted(worker for worker in lost if known.get(worker) != NOTIFIED)

    async def _mark(self, kind: Kind, until: datetime) -> None:
        await asyncio.to_thread(self.post.stuck.mark_notified, self.about.crawl, kind, utc_now(), until)

    async def _hosts(self) -> list[str]:
        """Returns some of the hosts that were given up."""
        names = sorted(name for name in await self.crawl.totals() if name.startswith(GIVEN_UP))
        return [name.removeprefix(GIVEN_UP) for name in names[:_EXAMPLES]]

    async def _examples(self, kind: Kind) -> list[str]:
        """Returns some stuck pages of a kind without a notification."""
        pages = await asyncio.to_thread(self.post.stuck.untold, self.about.crawl, kind, _EXAMPLES)
        return [f"{page.url}: {page.reason}" for page in pages]


def reading_of(
    now: CrawlFigures,
    totals: Mapping[str, int],
    *,
    now_seconds: float,
    engine_now: float = 0.0,
    alive: int,
    lost: Mapping[str, float],
    untold: Mapping[Any, int],
) -> CrawlReading:
    """Returns the reading from figures and totals of a crawl at a time in seconds since 1970; see `CrawlReading`."""
    error_answers = sum(number for status, number in now.responses.items() if status >= "400")
    return CrawlReading(
        now=now_seconds,
        fine=sum(now.responses.values()) - error_answers - now.soft_404,
        bad=error_answers + now.soft_404 + now.failed,
        retried=now.retried,
        open=max(0, now.queued + now.leased - now.parked),
        workers=alive,
        paused=now.paused,
        given_up=totals.get("hosts_given_up", 0),
        engine_now=engine_now,
        holding=now.holding,
        checkpoint=now.checkpoint,
        lost=lost,
        untold=untold,
    )
