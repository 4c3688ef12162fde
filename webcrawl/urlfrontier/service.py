"""The methods of the protocol. Each name is that of a method: `get_urls` answers GetURLs."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import wraps
from itertools import islice
from typing import Any, TypeVar

from webcrawl.engine.client import UNAVAILABLE
from webcrawl.errors import CallRefused, ConfigurationError, EngineError, WrongField, brief
from webcrawl.urlfrontier import messages
from webcrawl.urlfrontier.calls import GrpcStatus
from webcrawl.urlfrontier.conversion import (
    DISCOVERED,
    MOST_DATE,
    ContainedText,
    Row,
    crawl_id,
    host_name,
    item_row,
    queue_key,
    row,
)
from webcrawl.urlfrontier.incoming import batches
from webcrawl.urlfrontier.queues import NO_LIMIT, ClientQueues

logger = logging.getLogger(__name__)

T = TypeVar("T")

_TRANSIT_SECONDS = 30
"""How long URLs are in transit unless the client says otherwise."""
_PAGE = 100
"""Queues or URLs of a page unless the client says otherwise."""
_DAY = 86_400
_LOGGER = "webcrawl.urlfrontier"
_LEVELS = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
}


def _status(error: Exception) -> GrpcStatus:
    if isinstance(error, WrongField):
        return GrpcStatus.INVALID_ARGUMENT
    if isinstance(error, ConfigurationError):
        return GrpcStatus.FAILED_PRECONDITION
    return GrpcStatus.UNAVAILABLE if isinstance(error, UNAVAILABLE) else GrpcStatus.INTERNAL


_REPORTED = (ConfigurationError, EngineError, *UNAVAILABLE)
"""What a client is told of; other errors are defects, and the answer is UNKNOWN."""


def answers(method: Callable[[Any, Any], Awaitable[T]]) -> Callable[[Any, Any], Awaitable[T]]:
    """A method with one answer, whose errors become statuses."""

    @wraps(method)
    async def answer(service: Any, request: Any) -> T:
        try:
            return await method(service, request)
        except _REPORTED as error:
            raise CallRefused(_status(error), brief(error)) from error

    return answer


def streams(
    method: Callable[[Any, Any], AsyncGenerator[list[T]]],
) -> Callable[[Any, Any], AsyncGenerator[list[T]]]:
    """A method with a stream of answers, in lists of those that are sent together, whose errors become statuses."""

    @wraps(method)
    async def stream(service: Any, request: Any) -> AsyncGenerator[list[T]]:
        try:
            async with aclosing(method(service, request)) as parts:
                async for messages in parts:
                    yield messages
        except _REPORTED as error:
            raise CallRefused(_status(error), brief(error)) from error

    return stream


class FrontierService:
    """Answers clients from the queues in the engine. Several services may use one engine."""

    def __init__(self, queues: ClientQueues) -> None:
        self._queues = queues
        self._turn = 0

    @streams
    async def put_urls(self, requests: AsyncIterator[list[Any]]) -> AsyncGenerator[list[Any]]:
        async with aclosing(batches(requests)) as some:
            async for items in some:
                names = [item.ID or _url_of(item) for item in items]
                statuses = await self._store([item_row(item) for item in items])
                yield [
                    messages.AckMessage(ID=name, status=status)
                    for name, status in zip(names, statuses, strict=True)
                ]

    @streams
    async def put_discovered(self, requests: AsyncIterator[list[Any]]) -> AsyncGenerator[list[Any]]:
        async with aclosing(batches(requests, weight=lambda batch: len(batch.items))) as parts:
            async for some in parts:
                rows = [row(info, DISCOVERED) for batch in some for info in batch.items]
                statuses = iter(await self._store(rows))
                yield [
                    messages.BatchAck(ID=batch.ID, statuses=islice(statuses, len(batch.items)))
                    for batch in some
                ]

    @streams
    async def get_urls(self, request: Any) -> AsyncGenerator[list[Any]]:
        queue = queue_key(request.key, needed=False)
        seconds = request.delay_requestable or _TRANSIT_SECONDS
        left = request.max_queues or NO_LIMIT
        for crawl in await self._crawls(request) if (await self._queues.control()).active else ():
            if await self._queues.is_paused(crawl):
                continue
            async for delivery in self._queues.get(crawl, queue, left, request.max_urls_per_queue, seconds):
                yield [stored.info() for stored in delivery.stored()]
                left -= 1
            if left <= 0:
                break

    @answers
    async def list_nodes(self, request: Any) -> Any:
        return messages.StringList(values=await self._queues.nodes())

    @answers
    async def list_crawls(self, request: Any) -> Any:
        return messages.StringList(values=await self._queues.crawls())

    @answers
    async def delete_crawl(self, request: Any) -> Any:
        return messages.Long(value=await self._queues.delete_crawl(crawl_id(request.value)))

    @answers
    async def list_queues(self, request: Any) -> Any:
        crawl, size, total = crawl_id(request.crawlID), request.size or _PAGE, 0
        values: list[str] = []
        async for state in self._queues.states(crawl):
            if state.is_active or request.include_inactive:
                if total >= request.start and len(values) < size:
                    values.append(state.queue)
                total += 1
        return messages.QueueList(
            values=values, total=total, start=request.start, size=len(values), crawlID=crawl
        )

    @answers
    async def get_stats(self, request: Any) -> Any:
        crawl, key = crawl_id(request.crawlID), queue_key(request.key, needed=False)
        size = out = queues = 0
        counts = dict.fromkeys(("completed", "active_queues", "due"), 0)
        async for state in self._queues.states(crawl, key):
            size += state.waiting + state.out
            out += state.out
            queues += state.urls > 0
            counts["completed"] += state.completed
            counts["active_queues"] += state.is_active
            counts["due"] += state.due
        return messages.Stats(
            size=size, inProcess=min(out, 2**32 - 1), counts=counts, numberOfQueues=queues, crawlID=crawl
        )

    @answers
    async def get_crawl_stats(self, request: Any) -> Any:
        total, completed = await self._queues.totals(crawl_id(request.crawlID))
        return messages.GetCrawlStatsResponse(
            totalURL=messages.Long(value=total), completedURL=messages.Long(value=completed)
        )

    @answers
    async def delete_queue(self, request: Any) -> Any:
        deleted = await self._queues.delete(crawl_id(request.crawlID), queue_key(request.key))
        return messages.Long(value=deleted)

    @answers
    async def block_queue_until(self, request: Any) -> Any:
        if request.time > MOST_DATE:
            raise WrongField(f"time {request.time}: give seconds since 1970, not milliseconds")
        await self._queues.set(
            crawl_id(request.crawlID), queue_key(request.key), "blocked", request.time * 1000
        )
        return messages.Empty()

    @answers
    async def set_active(self, request: Any) -> Any:
        await self._queues.set_active(request.state)
        return messages.Empty()

    @answers
    async def get_active(self, request: Any) -> Any:
        return messages.Boolean(state=(await self._queues.control()).active)

    @answers
    async def set_delay(self, request: Any) -> Any:
        key = queue_key(request.key, needed=False)
        crawl = crawl_id(request.crawlID)
        if key:
            await self._queues.set(crawl, key, "delay", request.delay_requestable * 1000)
        else:
            await self._queues.set_default_delay(request.delay_requestable)
        return messages.Empty()

    @answers
    async def set_log_level(self, request: Any) -> Any:
        if request.level not in messages.LEVELS.values():
            raise WrongField(f"level {request.level}: use 0 (TRACE) to 4 (ERROR)")
        name = request.package
        logging.getLogger(name if name.startswith("webcrawl") else _LOGGER).setLevel(
            _LEVELS[messages.LEVELS.Name(request.level)]
        )
        return messages.Empty()

    @answers
    async def set_crawl_limit(self, request: Any) -> Any:
        crawl, key = crawl_id(request.crawlID), queue_key(request.key)
        if not await self._queues.set(crawl, key, "limit", request.limit):
            raise CallRefused(GrpcStatus.NOT_FOUND, f"key {key!r}: crawl {crawl!r} has no such queue")
        return messages.Empty()

    @answers
    async def get_url_status(self, request: Any) -> Any:
        crawl, url = crawl_id(request.crawlID), request.url
        if not url:
            raise WrongField("url: name a URL")
        key = queue_key(request.key, needed=False) or host_name(url)
        if not key:
            raise WrongField(f"url {brief(url)!r}: it has no host name, so name its queue in `key`")
        stored = await self._queues.stored(crawl, key, url)
        if stored is None:
            raise CallRefused(GrpcStatus.NOT_FOUND, brief(f"url {url}: unknown in queue {key!r}"))
        return stored.item()

    @streams
    async def list_urls(self, request: Any) -> AsyncGenerator[list[Any]]:
        crawl, key = crawl_id(request.crawlID), queue_key(request.key, needed=False)
        accepted = ContainedText(request.filter, ignores_case=request.ignoreCase)
        position, end = 0, request.start + (request.size or _PAGE)
        items: list[Any] = []
        async for stored in self._queues.all_stored(crawl, key):
            if not accepted.accepts(stored.url):
                continue
            if position >= request.start:
                items.append(stored.item())
            position += 1
            if position >= end:
                break
            if len(items) >= _PAGE:
                yield items
                items = []
        yield items

    @answers
    async def count_urls(self, request: Any) -> Any:
        crawl, key = crawl_id(request.crawlID), queue_key(request.key, needed=False)
        accepted, total = ContainedText(request.filter, ignores_case=request.ignoreCase), 0
        if accepted.accepts_all:
            async for state in self._queues.states(crawl, key):
                total += state.urls
        else:
            async for stored in self._queues.all_stored(crawl, key):
                total += accepted.accepts(stored.url)
        return messages.Long(value=total)

    @answers
    async def purge_urls(self, request: Any) -> Any:
        crawl, key = crawl_id(request.crawlID), queue_key(request.key, needed=False)
        before = int(time.time()) - request.days * _DAY + 1
        return messages.Long(value=await self._queues.purge(crawl, key, before))

    async def _crawls(self, request: Any) -> list[str]:
        """Returns the crawls that give URLs, in the order of their turns."""
        if request.WhichOneof("item") == "crawlID":
            return [crawl_id(request.crawlID)]
        crawls = await self._queues.crawls()
        self._turn += 1
        turn = self._turn % max(1, len(crawls))
        return crawls[turn:] + crawls[:turn]

    async def _store(self, rows: Sequence[Row | None]) -> list[int]:
        """Stores the rows that can be stored; returns a status for each."""
        stored = [row for row in rows if row is not None]
        try:
            verdicts = iter(await self._queues.put(stored) if stored else ())
        except UNAVAILABLE as error:
            logger.warning("The engine does not store URLs: %s", brief(error))
            return [messages.SKIPPED if row is None else messages.FAIL for row in rows]
        return [messages.OK if row is not None and next(verdicts) else messages.SKIPPED for row in rows]


def _url_of(item: Any) -> str:
    kind = item.WhichOneof("item")
    return getattr(item, kind).info.url if kind else ""
