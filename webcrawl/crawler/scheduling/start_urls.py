"""Start URLs for a scrapy-redis spider, taken from its list while it works and not only when it is idle."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any, cast

from scrapy import Request
from scrapy.crawler import Crawler

from webcrawl.crawler.scheduling.start_url_claims import Claims
from webcrawl.crawler.session import Session
from webcrawl.engine.client import UNAVAILABLE
from webcrawl.worker.worker import Worker

logger = logging.getLogger(__name__)

_FEED_SECONDS = 0.5
_LOOK_FOR_DEAD_EVERY = 10
_ENDS_SECONDS = 5.0
"""How long a server may take that is asked for start URLs while the spider ends."""

_MOST_WAITING = 1000
"""With more that waits to be sent, as when the engine takes nothing, start URLs are safer in their list."""


def is_fed(spider: Any) -> bool:
    """Whether a spider takes its start URLs from a list, as scrapy-redis's RedisSpider does."""
    return hasattr(spider, "redis_key") and hasattr(spider, "next_requests")


class Feeding:
    """Crawls what is pushed to the spider's list, looking twice a second. It may be read at any time, until `end`.

    What was read leaves the list's server when the frontier has it. What a dead worker read is put back.
    """

    def __init__(self, crawler: Crawler, session: Session, worker: Worker) -> None:
        self._crawler = crawler
        self._session = session
        self._worker = worker
        self._spider = cast(Any, crawler.spider)
        self._ending = asyncio.Event()
        self._found: int | None = None
        """So many URLs the worker had found when it had those of the last batch."""
        self._claims = Claims.of(self._spider, session.connection.keys.crawl, session.connection.worker)
        if self._claims:
            self._spider.fetch_data = self._claims.take
        else:
            logger.warning("%s reads start URLs in a way of its own: a kill may lose some", self._spider.name)
        # the spider's own idle handler takes them this way too
        self._make = self._spider.make_request_from_data
        self._spider.make_request_from_data = self._admitted
        self._task = asyncio.create_task(self._run())

    async def end(self) -> None:
        """Take no more. Not cancelled: what is being read has to be crawled."""
        self._ending.set()
        await asyncio.wait([self._task], timeout=_ENDS_SECONDS)

    async def settle(self) -> None:
        """Drop the claims on what the frontier has by now."""
        claims = self._claims
        if claims and claims.outstanding:
            self._found = self._worker.discovered.total if self._found is None else self._found
            if self._worker.discovered.sent >= self._found:
                await asyncio.to_thread(claims.settle)
                self._found = None

    async def _run(self) -> None:
        turn = 0
        while not self._ending.is_set():
            try:
                await self.settle()
                if turn % _LOOK_FOR_DEAD_EVERY == 0:
                    await self._take_over()
                if self._worker.is_registered and len(self._worker.discovered) <= _MOST_WAITING:
                    turn += 1
                    for request in await asyncio.to_thread(lambda: list(self._spider.next_requests())):
                        self._crawler.engine.crawl(request)
            except UNAVAILABLE as error:
                logger.info("No start URLs just now: %s", error)
            except Exception:
                logger.exception("No start URLs can be read from %s", self._spider.redis_key)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), _FEED_SECONDS)

    async def _take_over(self) -> None:
        """Put back what dead workers have claimed."""
        if self._claims is None:
            return
        # first: who has claims, and lives, was known as a worker before
        owners = await asyncio.to_thread(self._claims.owners)
        dead = {*owners} - {
            *await self._session.connection.crawl.workers.names(),
            self._session.connection.worker,
        }
        if dead and (number := await asyncio.to_thread(self._claims.give_back, dead)):
            logger.warning(
                "%d start URLs of workers that died are back in %s", number, self._spider.redis_key
            )

    def _admitted(self, data: Any) -> Any:
        """What one entry of the list asks for; one that is no good must not take the others with it."""
        try:
            made = self._make(data)
            requests = [made] if isinstance(made, Request) else list(made or ())
            for request in requests:
                self._session.scope.admit_seed(request.url)
        except Exception as error:
            logger.error("Start URL left out: %r: %s", data, error)
            self._crawler.stats.inc_value("frontier/bad_start_urls")
            return []
        return requests
