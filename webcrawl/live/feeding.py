"""Feeds the live lane's messages to the frontier while the spider `live` works."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from collections.abc import Sequence

from webcrawl.crawler.session import Session
from webcrawl.engine.backoff import Backoff
from webcrawl.engine.channel import hear
from webcrawl.engine.client import UNAVAILABLE
from webcrawl.engine.keys import ASKED
from webcrawl.errors import StoreError
from webcrawl.live.answering import Answering
from webcrawl.live.asks import LiveAsk
from webcrawl.live.messages import Delivered, LiveMessages
from webcrawl.worker.worker import Worker

logger = logging.getLogger(__name__)

_CLAIM_SECONDS = 2.0
_LONG_LEASES = 2.0
"""After so many times FRONTIER_LEASE_SECONDS, a worker looks whether the frontier still has what a message asks for."""


class LiveFeeding:
    """Reads messages until the crawl ends, and asks for their URLs. Waits while the engine or a store is away."""

    def __init__(self, session: Session, worker: Worker, answering: Answering, stream: str) -> None:
        connection = session.connection
        self._session, self._worker, self._answering = session, worker, answering
        self.messages = LiveMessages(connection.engine, stream, connection.worker, worker.tally.counters)
        self._long_seconds = _LONG_LEASES * session.config.lease_seconds
        self._claimed = self._reviewed = -math.inf
        self._may_lack = False
        """Whether messages may have been delivered in replies that were lost."""

    async def run(self) -> None:
        # another worker may have queued URLs whose hosts this worker serves
        hearing = asyncio.create_task(
            hear(self._session.connection.engine, ASKED, lambda _: self._worker.look())
        )
        try:
            await self._run()
        finally:
            hearing.cancel()

    async def _run(self) -> None:
        backoff, has_begun = self._backoff(), False
        while not self._session.connection.ending.is_set():
            try:
                if not has_begun:
                    await self.messages.begin()
                    has_begun = True
                await self._claim_if_due()
                if self._worker.waits:
                    await backoff.pause()
                else:
                    await self._take_new()
                    backoff = self._backoff()
            except (*UNAVAILABLE, StoreError) as error:
                logger.info("The live lane waits: %s", error)
                # a server that has lost its latest writes may have lost the group
                has_begun = False
                self._may_lack = True
                self._reviewed = self._claimed = -math.inf
                await backoff.pause()

    def _backoff(self) -> Backoff:
        return Backoff(math.inf, self._session.connection.ending, longest=2.0)

    async def _claim_if_due(self) -> None:
        now = time.monotonic()
        if now - self._reviewed >= self._long_seconds / 4:
            self._reviewed = now
            await self._take(await self.messages.long_pending(self._long_seconds), again=True)
        if now - self._claimed >= _CLAIM_SECONDS and self._worker.heartbeat.is_registered:
            living = {*await self._session.connection.crawl.workers.names()}
            while messages := await self.messages.claim(living):
                await self._take(messages, again=True)
            self._claimed = now

    async def _take_new(self) -> None:
        """Takes new messages, after those of replies that were lost."""
        while self._may_lack:
            messages = await self.messages.untaken()
            # some of their URLs may have been asked for
            await self._take(messages, again=True)
            self.messages.taken(messages)
            self._may_lack = bool(messages)
        messages = await self.messages.read()
        await self._take(messages)
        self.messages.taken(messages)

    async def _take(self, messages: Sequence[Delivered], *, again: bool = False) -> None:
        """Asks for the URLs of messages; `again`: they were delivered before."""
        asks, left = [ask for message in messages for ask in asks_of(message)], self._answering.asks
        for message in messages:
            number, of = message.number, len(message.request.urls)
            # a worker may have died before it began, or after the last URL and before the message was acknowledged
            if of > 1 and not (again and await left.has_begun(number)):
                await left.begin(number, of)
        await self._answering.want(asks, again=again)


def asks_of(message: Delivered) -> list[LiveAsk]:
    """Returns an ask for each URL of a message."""
    request = message.request
    return [
        LiveAsk(
            message.number,
            number,
            len(request.urls),
            url,
            message.put,
            request.id,
            request.tag,
            json.dumps(request.meta) if request.meta else "",
            request.level,
            request.max_age,
            tuple(sorted(request.related)),
            request.render,
        )
        for number, url in enumerate(request.urls)
    ]
