"""Updates open pages by server-sent events. A single sampler reads the figures for all pages."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from webcrawl.engine.client import UNAVAILABLE
from webcrawl.errors import CrawlError, brief
from webcrawl.web.access import Role, Visitor
from webcrawl.web.page import DashboardPage, Live, Site, View

logger = logging.getLogger(__name__)

SAMPLE_SECONDS = 2.0
_KEEP_SECONDS = 20.0
"""The seconds after which a stream without updates sends a comment: proxies end silent connections after a minute."""
_MOST_STREAMS = 200
_READER = Visitor(Role.READER, "", "")

Topic = tuple[str, str, str]
"""The name of a live function, the CRAWL_ID of its crawl, and the query of the page."""
Read = Callable[[Topic], Awaitable[Mapping[str, str]]]


@dataclass(eq=False)
class Stream:
    """An open page. A slow page misses updates: only the latest parts are sent."""

    topic: Topic
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    parts: dict[str, str] = field(default_factory=dict)
    """The parts that the page does not have yet."""
    is_new: bool = True
    """Whether the page has got no reading yet. An earlier reading may be older than the page."""

    def put(self, parts: Mapping[str, str]) -> None:
        if parts:
            self.parts |= parts
            self.changed.set()


class Sampler:
    """Reads the topics of the open pages: each topic once for all pages, and no topic without open pages."""

    def __init__(
        self, read: Read, seconds: float = SAMPLE_SECONDS, keep_seconds: float = _KEEP_SECONDS
    ) -> None:
        self._read = read
        self._seconds = seconds
        self._keep_seconds = keep_seconds
        self._streams: set[Stream] = set()
        self._shown: dict[Topic, dict[str, str]] = {}
        """The latest parts of each topic."""
        self._task: asyncio.Task[None] | None = None
        self._ending = asyncio.Event()

    @property
    def is_full(self) -> bool:
        return len(self._streams) >= _MOST_STREAMS

    async def updates(self, topic: Topic) -> AsyncIterator[dict[str, str]]:
        """Yields the parts of a page as they change, until the dashboard ends. The first reading yields all parts.

        Yields an empty dict after some time without updates.
        """
        stream = Stream(topic)
        self._streams.add(stream)
        self._start()
        try:
            while not self._ending.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._keep_seconds):
                        await stream.changed.wait()
                stream.changed.clear()
                parts, stream.parts = stream.parts, {}
                if not self._ending.is_set():
                    yield parts
        finally:
            self._streams.discard(stream)

    async def close(self) -> None:
        """Ends all streams."""
        self._ending.set()
        for stream in self._streams:
            stream.changed.set()
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def _start(self) -> None:
        if (self._task is None or self._task.done()) and not self._ending.is_set():
            self._task = asyncio.create_task(self._sample())

    async def _sample(self) -> None:
        while topics := {stream.topic for stream in self._streams}:
            self._shown = {topic: self._shown.get(topic, {}) for topic in topics}
            for topic in topics:
                await self._look(topic)
            await asyncio.sleep(self._seconds)
        self._shown.clear()

    async def _look(self, topic: Topic) -> None:
        """Sends the changed parts of a topic to its pages."""
        try:
            parts = {"": "", **await self._read(topic)}
        except UNAVAILABLE as error:
            parts = {"": f"the engine of the crawls does not answer ({brief(error).rstrip('.')})"}
        except CrawlError as error:
            parts = {"": str(error)}
        except Exception:
            logger.exception("The dashboard cannot read %s of crawl %r.", *topic[:2])
            parts = {"": "an unexpected error; see the dashboard's log"}
        shown = self._shown[topic]
        changed = {name: html for name, html in parts.items() if shown.get(name) != html}
        shown |= changed
        for stream in list(self._streams):
            if stream.topic == topic:
                stream.put(parts if stream.is_new else changed)
                stream.is_new = False


def reader_of(site: Site, parts: Mapping[str, tuple[DashboardPage, Live]]) -> Read:
    """Returns a function that reads the parts of a topic in the view of a reader."""

    async def read(topic: Topic) -> Mapping[str, str]:
        name, crawl, query = topic
        page, live = parts[name]
        request = Request(
            {"type": "http", "method": "GET", "path": "/", "headers": [], "query_string": query.encode()}
        )
        view = View(request, page, site, _READER, crawl)
        if crawl:
            view.opened_crawl = await site.crawls.opened(crawl)
            if view.opened_crawl is None:
                raise CrawlError(f"there is no crawl {crawl!r} any more")
        return await live(view)

    return read


def live_route(sampler: Sampler, parts: Mapping[str, tuple[DashboardPage, Live]]) -> Route:
    """Returns the route of the streams: /live/{name}?crawl=..., with the query of the page."""

    async def stream(request: Request) -> Response:
        query = dict(request.query_params)
        topic = request.path_params["name"], query.pop("crawl", ""), urlencode(query)
        if topic[0] not in parts:
            return PlainTextResponse("There are no updates of that name.", 404)
        if not parts[topic[0]][0].is_for(request.state.visitor):
            return PlainTextResponse("For operators.", 403)
        if sampler.is_full:
            return PlainTextResponse("Too many pages are open.", 503)
        # otherwise nginx would buffer the events
        headers = {"X-Accel-Buffering": "no"}
        return StreamingResponse(events(sampler, topic), headers=headers, media_type="text/event-stream")

    return Route("/live/{name}", stream)


async def events(sampler: Sampler, topic: Topic) -> AsyncIterator[str]:
    yield "retry: 3000\n\n"
    async for parts in sampler.updates(topic):
        yield f"data: {json.dumps(parts)}\n\n" if parts else ": no news\n\n"
