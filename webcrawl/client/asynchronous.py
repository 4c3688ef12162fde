"""The client of the HTTP API for programs with asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from webcrawl.client import dialogues
from webcrawl.client.answers import (
    CrawlDetails,
    CrawlEntry,
    FetchedPage,
    JobEntry,
    PageEvent,
    PageRecord,
    SearchedPages,
    SteeredCrawl,
    WebhookEntry,
)
from webcrawl.client.server_sent import EventStreamReader
from webcrawl.client.service_request import (
    DEFAULT_URL,
    ServiceRequest,
    answer_of,
    arguments,
    check,
    options,
    pause_before_retry,
    unreachable,
)

T = TypeVar("T")

_QUIET_SECONDS = 45.0
"""A stream of events that sends nothing for so long is broken: the service sends a comment each 15 seconds."""


class AsyncClient:
    """Asks a service, `scrapy serve`, for pages. To be closed, or used as a context manager; tasks may share it.

    Methods raise ServiceProblem for an error that the service tells, and ServiceUnreachable. A service that is busy
    is asked again, after the seconds that it tells, some times.
    """

    def __init__(self, url: str = DEFAULT_URL, *, token: str = "", timeout: float = 30.0) -> None:
        """`token`: one of the tokens of the service, if it needs them. `timeout`: seconds."""
        self.url = url
        self._timeout = timeout
        self._http = httpx.AsyncClient(**options(url, token, timeout))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def fetch(
        self,
        url: str,
        *,
        max_age: float | str | None = None,
        wait: float = 30.0,
        parts: Iterable[str] = ("metadata",),
        related: Iterable[str] = (),
        render: bool = False,
    ) -> FetchedPage:
        """Returns a page that is stored and young enough, or fetches it.

        max_age  seconds, or text such as "2h" or "7d"; by default FETCH_MAX_AGE of the service
        wait     seconds; a page that is not fetched by then is `pending`, and is fetched later
        parts    of metadata, text, markdown, html, links and record
        related  what is fetched after the page: image, feed
        render   whether a browser renders the page if it is fetched

        The result has a `page`, or an `error` with its reason.
        """
        results = await self.fetch_all(
            [url], max_age=max_age, wait=wait, parts=parts, related=related, render=render
        )
        return results[url]

    async def fetch_all(
        self,
        urls: Iterable[str],
        *,
        max_age: float | str | None = None,
        wait: float = 60.0,
        parts: Iterable[str] = ("metadata",),
        related: Iterable[str] = (),
        render: bool = False,
    ) -> dict[str, FetchedPage]:
        """Returns the results of `fetch` for any number of pages, by URL as given."""
        wanted = dialogues.wanted_of(max_age=max_age, parts=parts, related=related, render=render)
        return await self._hold(dialogues.fetch(urls, wanted, wait))

    async def page(self, url: str, *, history: bool = False) -> PageRecord | None:
        """Returns what is stored about a page, None if it is not stored. `history`: with its earlier fetches."""
        return await self._hold(dialogues.page(url, history=history))

    async def pages(self, urls: Iterable[str], *, history: bool = False) -> dict[str, PageRecord]:
        """Returns what is stored about any number of pages, by URL as given. Others are left out."""
        return await self._hold(dialogues.pages(urls, history=history))

    async def search(
        self,
        words: str = "",
        *,
        like: str = "",
        sort: str = "",
        facets: bool = False,
        limit: int = 10,
        start: int = 0,
        host: str = "",
        language: str = "",
        type: str = "",
        since: str = "",
        until: str = "",
        crawl: str = "",
    ) -> SearchedPages:
        """Searches the text of stored pages, in the index that `scrapy search --update` makes.

        like          instead of words: pages with the most characteristic words of the page with this URL
        sort          "date": the newest pages first
        facets        count the hosts, languages and types of all results
        limit, start  how many results, at most 100, and how many of the best are left out
        host          only pages of a host and its subdomains
        language      only pages in these languages, such as "en,de"
        type          only these MIME types, such as "text/html,image/*"
        since, until  only pages fetched in this time: dates or times in UTC
        crawl         only pages that this crawl fetched last
        """
        choices = {
            "words": words,
            "like": like,
            "sort": sort,
            "host": host,
            "language": language,
            "type": type,
            "since": since,
            "until": until,
            "crawl": crawl,
        }
        return await self._hold(dialogues.search(limit=limit, start=start, facets=facets, choices=choices))

    async def put(
        self,
        urls: Iterable[str],
        *,
        crawl: str = "",
        tag: str = "",
        level: int | None = None,
        max_age: float | str | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> int:
        """Queues URLs to be fetched, by default in the live lane; returns how many.

        tag, meta  are in the events of the URLs
        level      the best is 0
        max_age    as in `fetch`
        """
        wanted = dialogues.queued_of(crawl=crawl, tag=tag, level=level, max_age=max_age, meta=meta)
        return await self._hold(dialogues.put(urls, wanted))

    async def crawls(self) -> list[CrawlEntry]:
        """Returns the crawls of the service's engine, and those that its DATA_DIR has a summary of."""
        return await self._hold(dialogues.crawls())

    async def crawl(self, name: str) -> CrawlDetails:
        """Returns the state and the figures of a crawl."""
        return await self._hold(dialogues.crawl(name))

    async def start_crawl(
        self,
        urls: Iterable[str] = (),
        *,
        crawl: str = "",
        spider: str = "",
        scope: str = "",
        settings: Mapping[str, Any] | None = None,
        wait: float = 30.0,
    ) -> CrawlDetails:
        """Starts a crawl with up to 300 URLs, or continues one, on the machine of the service.

        crawl     its name; by default that of the URLs
        spider    by default "broad"
        scope     which links are followed: "path", "host", "domain" or "web"
        settings  limits and switches, such as CRAWL_MAX_PAGES
        wait      seconds for a worker to begin, at most 60; after them the state is "starting"
        """
        wanted = dialogues.new_crawl_of(urls, crawl=crawl, spider=spider, scope=scope, settings=settings)
        return await self._hold(dialogues.start_crawl(wanted, wait))

    async def pause_crawl(self, name: str) -> SteeredCrawl:
        """Pauses the workers of a crawl until it is resumed."""
        return await self._hold(dialogues.steer_crawl(name, "pause"))

    async def resume_crawl(self, name: str) -> SteeredCrawl:
        """Continues a paused crawl."""
        return await self._hold(dialogues.steer_crawl(name, "resume"))

    async def stop_crawl(self, name: str) -> SteeredCrawl:
        """Ends the workers of a crawl; its queue stays."""
        return await self._hold(dialogues.steer_crawl(name, "stop"))

    async def jobs(self) -> list[JobEntry]:
        """Returns the jobs with their latest iterations."""
        return await self._hold(dialogues.jobs())

    async def pause_job(self, name: str) -> JobEntry:
        """Pauses a job: it does not fire, and a running iteration goes on."""
        return await self._hold(dialogues.steer_job(name, "pause"))

    async def resume_job(self, name: str) -> JobEntry:
        """Lets a job fire again."""
        return await self._hold(dialogues.steer_job(name, "resume"))

    async def start_job(self, name: str) -> JobEntry:
        """Adds an iteration to a job, which starts as soon as a scheduler has room."""
        return await self._hold(dialogues.steer_job(name, "start"))

    async def webhooks(self) -> list[WebhookEntry]:
        """Returns the receivers of events, with what waits for each."""
        return await self._hold(dialogues.webhooks())

    async def add_webhook(
        self, url: str, *, tag: str = "", host: str = "", pattern: str = "", secret: str = ""
    ) -> WebhookEntry:
        """Has finished pages of the live lane posted to a URL. The result has the secret that signs them.

        tag, host, pattern  only these pages, as in `events`
        secret              "whsec_" and 24 to 64 bytes in base64; by default a random one
        """
        wanted = {"url": url, "tag": tag, "host": host, "pattern": pattern, "secret": secret}
        return await self._hold(dialogues.add_webhook(wanted))

    async def remove_webhook(self, id: str) -> None:
        """Removes a receiver, and the events that wait for it."""
        await self._hold(dialogues.remove_webhook(id))

    async def events(
        self, *, crawl: str = "", tag: str = "", host: str = "", pattern: str = "", after: str = ""
    ) -> AsyncIterator[PageEvent]:
        """Yields finished pages, without end. Connects again, and continues after the last event.

        crawl    by default the live lane
        tag      only those with this tag
        host     only those of this host, such as example.org
        pattern  only URLs that match; `*` is any text
        after    the ID of an event: begin after it; "0" for all that the service still has
        """
        wanted = {"crawl": crawl, "tag": tag, "host": host, "pattern": pattern}
        params = {name: value for name, value in wanted.items() if value}
        request = ServiceRequest("GET", "/v1/events", PageEvent, params)
        reader, failures = EventStreamReader(after), 0
        while True:
            try:
                async for line in self._event_lines(request, reader.last_id):
                    failures = 0
                    event = reader.feed(line)
                    if event is not None and event.event == "page":
                        yield PageEvent.read(event.data, event.id)
                failures += 1
                failure: httpx.TransportError = httpx.ReadError("the service ended the connection")
            except httpx.TransportError as error:
                failures += 1
                failure = error
            pause = pause_before_retry(request, failure, failures)
            if pause is None:
                raise unreachable(self.url, failure)
            await asyncio.sleep(pause)
            reader = EventStreamReader(reader.last_id)

    async def _event_lines(self, request: ServiceRequest[Any], last_id: str) -> AsyncIterator[str]:
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last_id} if last_id else {})
        timeout = httpx.Timeout(self._timeout, read=_QUIET_SECONDS)
        async with self._http.stream(
            request.method, request.path, params=dict(request.params), headers=headers, timeout=timeout
        ) as response:
            if not response.is_success:
                await response.aread()
                check(response)
            async for line in response.aiter_lines():
                yield line

    async def _hold(self, dialogue: dialogues.Dialogue[T]) -> T:
        try:
            request = next(dialogue)
            while True:
                try:
                    answer = await self._ask(request)
                except Exception as error:
                    request = dialogue.throw(error)
                else:
                    request = dialogue.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result

    async def _ask(self, request: ServiceRequest[T]) -> T:
        tries = 0
        if request.pause:
            await asyncio.sleep(request.pause)
        while True:
            failure: httpx.TransportError | httpx.Response
            try:
                failure = await self._http.request(
                    request.method, request.path, **arguments(request, self._timeout)
                )
            except httpx.TransportError as error:
                failure = error
            pause = None
            if not isinstance(failure, httpx.Response) or not failure.is_success:
                pause = pause_before_retry(request, failure, tries := tries + 1)
            if pause is None:
                break
            await asyncio.sleep(pause)
        if isinstance(failure, httpx.Response):
            return answer_of(request, failure)
        raise unreachable(self.url, failure) from failure
