"""`GET /v1/events`: finished pages as server-sent events."""

from __future__ import annotations

import fnmatch
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeAlias
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct
from starlette.responses import Response, StreamingResponse

from webcrawl.engine.client import UNAVAILABLE
from webcrawl.engine.keys import LIVE_CRAWL
from webcrawl.service.event_feed import BEGINNING, EventFeed, is_position
from webcrawl.service.operation import ApiCall, Operation
from webcrawl.service.problem import ApiProblem, ProblemKind
from webcrawl.service.service import Service

MOST_READERS = 500
MOST_OF_CALLER = 50
"""The readers at once, of a server and of a caller."""
_HEARTBEAT_SECONDS = 15.0
_encode = msgspec.json.Encoder().encode


CrawlName: TypeAlias = Annotated[
    str, Meta(pattern=r"^[A-Za-z0-9._-]{1,64}$(?!\n)", description="By default the live lane.")
]


EventHost: TypeAlias = Annotated[
    str, Meta(max_length=253, description="Only those of this host, such as example.org.")
]
EventPattern: TypeAlias = Annotated[
    str, Meta(max_length=8_192, description="Only URLs that match; * is any text, ? any character.")
]


class EventsQuery(Struct, forbid_unknown_fields=True):
    """Which events are wanted."""

    crawl: CrawlName = LIVE_CRAWL
    tag: Annotated[str, Meta(max_length=64, description="Only those with this tag.")] = ""
    host: EventHost = ""
    pattern: EventPattern = ""
    after: Annotated[
        str,
        Meta(max_length=40, description="The ID of an event: those after it. The header Last-Event-ID wins."),
    ] = ""


def operations(service: Service) -> Iterator[Operation]:
    """Yields the operation that sends events."""
    endpoint = _Events(service)
    service.tally.waiting["events"] = endpoint.readers.total
    yield Operation(
        name="getEvents",
        method="GET",
        path="/v1/events",
        summary="Follow finished pages as server-sent events",
        description="The data of an event `page` is a PageEvent. A reader that comes again with Last-Event-ID misses "
        "nothing that the stream still has; an event `missed` says that it has dropped some.",
        tag="events",
        handle=endpoint.get,
        query=EventsQuery,
        media_type="text/event-stream",
    )


@dataclass(frozen=True)
class EventFilter:
    """Which events a reader wants; empty fields want all. `host` is a name without scheme and port."""

    tag: str = ""
    host: str = ""
    pattern: re.Pattern[str] | None = None

    @classmethod
    def of(cls, tag: str, host: str, pattern: str) -> EventFilter:
        """Returns the filter of a query or a webhook; "" lets all pass."""
        return cls(tag, host.lower(), re.compile(fnmatch.translate(pattern)) if pattern else None)

    def wants(self, event: dict[str, Any]) -> bool:
        """Returns whether an event passes. One of the URLs as asked for and as answered has to match."""
        if self.tag and event.get("tag") != self.tag:
            return False
        urls = {str(event.get("url", "")), str(event.get("final_url", ""))}
        if self.host and all(_host(url) != self.host for url in urls):
            return False
        return self.pattern is None or any(self.pattern.match(url) for url in urls)


@dataclass(frozen=True)
class _Events:
    service: Service
    feeds: dict[str, EventFeed] = field(default_factory=dict)
    """Crawl -> its stream, while it has readers."""
    readers: Counter[str] = field(default_factory=Counter)
    """The open answers by crawl."""
    of_caller: Counter[str] = field(default_factory=Counter)

    async def get(self, call: ApiCall) -> Response:
        query: EventsQuery = call.query
        after = call.request.headers.get("last-event-id", "") or query.after
        if after == "0":
            after = BEGINNING
        if after and not is_position(after):
            raise ApiProblem(ProblemKind.BAD_REQUEST, f"{after!r} is not the ID of an event")
        for counted, most in (
            (self.readers.total(), MOST_READERS),
            (self.of_caller[call.caller.name], MOST_OF_CALLER),
        ):
            if counted >= most:
                raise ApiProblem(
                    ProblemKind.TOO_MANY_REQUESTS,
                    f"{counted} readers of events are connected",
                    retry_after=30,
                    reason="readers",
                )
        lines = self._lines(
            query.crawl, call.caller.name, EventFilter.of(query.tag, query.host, query.pattern), after
        )
        return StreamingResponse(lines, media_type="text/event-stream")

    @contextmanager
    def _counted(self, crawl: str, caller: str) -> Iterator[EventFeed]:
        feed = self.feeds.setdefault(crawl, EventFeed(self.service.opened.connection, crawl))
        for counter, name in (counters := ((self.readers, crawl), (self.of_caller, caller))):
            counter[name] += 1
        try:
            yield feed
        finally:
            for counter, name in counters:
                counter[name] -= 1
                if not counter[name]:
                    del counter[name]
            if crawl not in self.readers:
                del self.feeds[crawl]

    async def _lines(
        self, crawl: str, caller: str, wanted: EventFilter, position: str
    ) -> AsyncIterator[bytes]:
        yield b"retry: 1000\n\n"
        with self._counted(crawl, caller) as feed:
            try:
                async with feed.reading() as end:
                    async for part in self._events(feed, wanted, position or end):
                        yield part
            except UNAVAILABLE:
                return  # the reader comes again, with the ID of its last event

    async def _events(self, feed: EventFeed, wanted: EventFilter, position: str) -> AsyncIterator[bytes]:
        quiet_since = time.monotonic()
        while not self.service.closing.is_set():
            batch = await feed.after(position, 1.0)
            position = batch.position
            parts = [b"event: missed\ndata: {}\n\n"] if batch.missed else []
            parts += [
                b"id: %s\nevent: page\ndata: %s\n\n" % (event.id.encode(), _encode(event.fields))
                for event in batch.events
                if wanted.wants(event.fields)
            ]
            if not parts and time.monotonic() - quiet_since > _HEARTBEAT_SECONDS:
                # with the position, so that a reader of rare events need not read all again
                parts = [b": nothing new\nid: %s\n\n" % position.encode()]
            if parts:
                yield b"".join(parts)
                quiet_since = time.monotonic()


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
