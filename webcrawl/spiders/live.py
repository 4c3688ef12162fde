"""`scrapy crawl live`: fetches URLs from a stream as soon as their hosts may be asked; it does not end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import replace
from typing import Any

from scrapy import Request, signals
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.settings import BaseSettings

from webcrawl.config import read
from webcrawl.crawler.access import tasks_of
from webcrawl.crawler.scheduling.requests import link_extra
from webcrawl.crawler.session import Session
from webcrawl.frontier import LeasedURL, Settlement
from webcrawl.live.answering import Answering
from webcrawl.live.asks import LiveAsk
from webcrawl.live.events import DEAD, LiveAnswer
from webcrawl.live.feeding import LiveFeeding
from webcrawl.live.sweeping import keep_sweeping
from webcrawl.spiders.base import BroadSpider
from webcrawl.urls.scope import Scope


class Live(BroadSpider):
    """Takes URLs from LIVE_STREAM, follows their redirects, stores each hop, and publishes an event for each URL.

    It follows no links. A URL is fetched each time it is asked for, unless its page is young enough.
    """

    name = "live"
    custom_settings = {
        # an answer is wanted soon
        "FRONTIER_MAX_ATTEMPTS": 3,
        "FRONTIER_RETRY_DELAY": 2,
        "LISTENERS_MAXLEN": 10_000,
        "CRAWL_WEIGHT": 0,
        # what these learn of URLs grows without end, and costs requests
        "DUST": False,
        "HOST_BUDGETS": False,
        "IMPORTANCE": "off",
        "SOFT_404": False,
    }

    @classmethod
    def update_settings(cls, settings: BaseSettings) -> None:
        super().update_settings(settings)
        pipelines = {
            # each page is read, and nothing is kept in the engine for a page
            "webcrawl.pipelines.checksum.ChecksumPipeline": None,
            "webcrawl.pipelines.near_duplicates.NearDuplicatesPipeline": None,
            "webcrawl.pipelines.pattern_records.PatternRecordsPipeline": None,
            # the events have the rows
            "webcrawl.pipelines.listeners.ListenersPipeline": None,
            "webcrawl.live.pipeline.LivePipeline": 955,
        }
        pipelines = {**settings.getwithbase("ITEM_PIPELINES"), **pipelines}
        settings.set("ITEM_PIPELINES", pipelines, priority="spider")
        middlewares = {
            **settings.getwithbase("DOWNLOADER_MIDDLEWARES"),
            "webcrawl.live.middleware.LiveMiddleware": 95,
        }
        settings.set("DOWNLOADER_MIDDLEWARES", middlewares, priority="spider")

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._tasks = set[asyncio.Future[None]]()

    async def start(self) -> AsyncIterator[Request]:
        session, tasks = Session.of(self.crawler), tasks_of(self.crawler)
        await session.scope.set(Scope("web"), remember=False)
        stream = read(self.settings, "LIVE_STREAM")
        self.answering = Answering(
            session,
            stream=stream,
            most_hops=self.settings.getint("REDIRECT_MAX_TIMES"),
            look=tasks.worker.look,
            extra=self._extra,
            counters=tasks.worker.tally.counters,
        )
        self.crawler.signals.connect(self._refuse_redirect, signals.request_scheduled)
        tasks.worker.on_given_up, tasks.bury_differently = self._give_up_host, self._bury
        connection, limits = session.connection, ("HOST_MAX_PAGES", "HOST_MAX_BYTES")
        if not any(read(self.settings, name) for name in limits):
            cold_hosts = connection.cold_hosts if connection.tails.has_store else None
            counters = tasks.worker.tally.counters
            self._begin(lambda: keep_sweeping(connection.engine, connection.keys, cold_hosts, counters))
        try:
            await LiveFeeding(session, tasks.worker, self.answering, stream).run()
        finally:
            for task in self._tasks:
                task.cancel()
            await self.answering.close()
        return
        yield  # makes it a generator

    def parse(self, response: Response, **kwargs: Any) -> Any:
        yield self.page(response)

    def _extra(self, ask: LiveAsk) -> bytes | None:
        return link_extra(self, {"playwright": True}) if ask.render else None

    def _give_up_host(self, host: str) -> None:
        reason = "the host was given up after too many failures in a row"
        self._begin(lambda: self.answering.give_up_host(host, reason))

    def _bury(self, url: LeasedURL, settlement: Settlement) -> Settlement:
        """Answers with the reason instead of a dead letter, which nobody would look at."""
        answer = LiveAnswer(url.url, DEAD, settlement.reason)
        self._begin(lambda: self.answering.finish(url.url, answer))
        return replace(settlement, verdict="done", failed=True)

    def _begin(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Does this while the crawl goes on. If it cannot be done, the message is looked at again later."""
        task = asyncio.ensure_future(Session.of(self.crawler).connection.retry_until_available(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _refuse_redirect(self, request: Request) -> None:
        """Keeps the target of a redirect from being queued twice: those who wait for it are moved to it."""
        if request.meta.get("redirect_times"):
            raise IgnoreRequest("the live lane follows the redirect")
