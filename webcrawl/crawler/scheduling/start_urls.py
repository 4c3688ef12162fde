"""Reads start URLs from a scrapy-redis spider's list while it works, not only when it is idle."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any, cast

from scrapy import Request
from scrapy.crawler import Crawler

from webcrawl.crawler.scheduling.start_url_claims import StartURLClaims
from webcrawl.crawler.session import Session
from webcrawl.engine.client import UNAVAILABLE
from webcrawl.errors import InvalidURL
from webcrawl.urls.canonical import normalize
from webcrawl.worker.worker import Worker

logger = logging.getLogger(__name__)

_FEED_SECONDS = 0.5
_LOOK_FOR_DEAD_EVERY = 10
_ENDS_SECONDS = 5.0
"""How long to wait for a pending read of the list when the spider ends."""

_MOST_WAITING = 1000
"""Above this number of unsent URLs, as when the engine is unavailable, start URLs stay in their list."""


def is_fed(spider: Any) -> bool:
    """Whether a spider reads its start URLs from a list, like scrapy-redis's RedisSpider."""
    return hasattr(spider, "redis_key") and hasattr(spider, "next_requests")


class StartURLFeeding:
    """Crawls the URLs that are pushed to the spider's list, which it reads twice a second until `end`.

    An entry is removed from the server when the frontier has it. Entries that a dead worker read are put back.
    """

    def __init__(self, crawler: Crawler, session: Session, worker: Worker) -> None:
        self._crawler = crawler
        self._session = session
        self._worker = worker
        self._spider = cast(Any, crawler.spider)
        self._ending = asyncio.Event()
        self._discovered: int | None = None
        """The worker's number of discovered URLs after the last batch was added."""
        self._claims = StartURLClaims.of(
            self._spider, session.connection.keys.crawl, session.connection.worker
        )
        if self._claims:
            self._spider.fetch_data = self._claims.take
        else:
            logger.warning(
                "Spider %s overrides how its list is read: start URLs may be lost if the worker is killed",
                self._spider.name,
            )
        self._make = self._spider.make_request_from_data
        self._spider.make_request_from_data = self._valid
        # the spider's idle handler finds nothing, because it cannot wait until all workers know their hosts
        self._read = self._spider.next_requests
        self._spider.next_requests = list
        self._is_between = False
        """Whether URLs may have left the list that the worker has not discovered."""
        self._task = asyncio.create_task(self._run())

    async def end(self) -> None:
        """Stop reading. A pending read is awaited, because its URLs have left the list."""
        self._ending.set()
        await asyncio.wait([self._task], timeout=_ENDS_SECONDS)

    async def settle(self) -> None:
        """Drop the claims once the frontier has their URLs."""
        claims = self._claims
        if claims and claims.outstanding and not self._is_between:
            self._discovered = self._worker.intake.total if self._discovered is None else self._discovered
            if self._worker.intake.sent >= self._discovered:
                await asyncio.to_thread(claims.settle)
                self._discovered = None

    async def _run(self) -> None:
        turn = 0
        while not self._ending.is_set():
            try:
                await self.settle()
                if turn % _LOOK_FOR_DEAD_EVERY == 0:
                    await self._take_over()
                if self._worker.is_registered and len(self._worker.intake) <= _MOST_WAITING:
                    turn += 1
                    await self._feed()
            except UNAVAILABLE as error:
                logger.info("Cannot read start URLs at the moment: %s", error)
            except Exception:
                logger.exception("Cannot read start URLs from %s", self._spider.redis_key)
            with suppress(TimeoutError):
                async with asyncio.timeout(_FEED_SECONDS):
                    await self._ending.wait()

    async def _feed(self) -> None:
        """Read a batch, tell all workers that the operator named its hosts, and crawl it."""
        self._is_between = True
        try:
            requests = await asyncio.to_thread(lambda: list(self._read()))
            try:
                # before the frontier has the URLs, because any worker may lease them then
                await self._session.scope.admit_seeds(
                    filter(_is_valid, (request.url for request in requests))
                )
            finally:
                for request in requests:
                    self._crawler.engine.crawl(request)
        finally:
            self._is_between = False

    async def _take_over(self) -> None:
        """Put the claims of dead workers back."""
        if self._claims is None:
            return
        # before the workers: a living owner of claims was registered before it claimed
        owners = await asyncio.to_thread(self._claims.owners)
        dead = {*owners} - {
            *await self._session.connection.crawl.workers.names(),
            self._session.connection.worker,
        }
        if dead and (number := await asyncio.to_thread(self._claims.give_back, dead)):
            logger.warning("Put %d start URLs of dead workers back into %s", number, self._spider.redis_key)

    def _valid(self, data: Any) -> Any:
        """The requests of one entry; an invalid entry must not affect the others."""
        try:
            made = self._make(data)
            requests = [made] if isinstance(made, Request) else list(made or ())
            for request in requests:
                normalize(request.url)
        except Exception as error:
            logger.error("Skipping the start URL %r: %s", data, error)
            self._crawler.stats.inc_value("frontier/bad_start_urls")
            return []
        return requests


def _is_valid(url: str) -> bool:
    try:
        normalize(url)
    except InvalidURL:
        return False
    return True
