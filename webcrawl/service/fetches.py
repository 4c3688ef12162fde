"""The requests for pages that are fetched now: what they want, and how the live lane and its events settle them."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import Counter
from collections.abc import Iterable
from typing import Self

import msgspec
from msgspec import Struct, field

from webcrawl.engine.client import UNAVAILABLE
from webcrawl.engine.keys import REQUESTS
from webcrawl.live.request import LiveRequest
from webcrawl.service.caller import Caller
from webcrawl.service.live_events import LiveEvent, LiveEvents
from webcrawl.service.problem import ApiProblem, ProblemKind
from webcrawl.service.service import Service
from webcrawl.urls.canonical import split

BUSY = "busy"
KEPT_SECONDS = 3_600
"""How long the outcomes of a request can be asked for."""
MOST_OF_CALLER = 2_000
MOST_OF_HOST = 200
"""The URLs that may wait here, of a caller and of a host."""
_RETRY_SECONDS = 5.0
_SWEEP_SECONDS = 30.0
_PAUSE = 0.2
logger = logging.getLogger(__name__)


class FetchOutcome(Struct, omit_defaults=True):
    """What became of a URL. `error` is "" for a page, or a word as in `FetchError`."""

    error: str = ""
    detail: str = ""
    stored: bool = False


class FetchRequest(Struct):
    """What a request wants. `put` is a Unix time; `given` are its URLs, `urls` the normalized ones by them."""

    caller: str
    put: float
    given: list[str]
    urls: dict[str, str]
    max_ages: dict[str, float]
    parts: list[str]
    settled: dict[str, FetchOutcome] = field(default_factory=dict)
    """Outcomes by URL as given, which were known when the request came."""


class KeptFetch(Struct):
    """What the engine keeps of a request; see `LiveFetch`."""

    request: FetchRequest
    waiting: list[str]
    outcomes: dict[str, FetchOutcome]


class LiveFetch:
    """A request while URLs are fetched for it. `outcomes` has those that are known, by normalized URL."""

    def __init__(self, fetch_id: str, request: FetchRequest, waiting: set[str]) -> None:
        self.id = fetch_id
        self.request = request
        self.waiting = waiting
        self.outcomes: dict[str, FetchOutcome] = {}
        self.is_elsewhere = False
        """Whether no event settles it here."""
        self._complete = asyncio.Event()

    @classmethod
    def of(cls, fetch_id: str, kept: KeptFetch) -> Self:
        """Returns a request that another service has begun, or that is complete."""
        fetch = cls(fetch_id, kept.request, set(kept.waiting))
        fetch.outcomes = kept.outcomes
        fetch.is_elsewhere = True
        return fetch

    def kept(self) -> KeptFetch:
        """Returns what the engine keeps."""
        return KeptFetch(self.request, sorted(self.waiting), self.outcomes)

    def settle(self, url: str, outcome: FetchOutcome) -> bool:
        """Notes an outcome; returns whether it is new."""
        if url not in self.waiting:
            return False
        self.waiting.remove(url)
        self.outcomes[url] = outcome
        if not self.waiting:
            self._complete.set()
        return True

    async def wait(self, seconds: float) -> None:
        """Waits until all outcomes are known, at most for some seconds."""
        if self.waiting and seconds > 0:
            try:
                async with asyncio.timeout(seconds):
                    await self._complete.wait()
            except TimeoutError:
                pass


class Fetches:
    """Fetches URLs by the live lane. Requests of other servers are known by what they leave in the engine."""

    def __init__(self, service: Service) -> None:
        connection = service.opened.connection
        self._service = service
        self._engine = connection.engine
        self._lane = service.lane
        self._events = LiveEvents(connection, self._take)
        self._open: dict[str, LiveFetch] = {}
        self._of_caller, self._of_host = Counter[str](), Counter[str]()
        self._changed: dict[str, LiveFetch] = {}
        self._wake = asyncio.Event()
        self._follows = False
        service.tally.waiting["fetch"] = self._of_caller.total

    async def begin(
        self,
        caller: Caller,
        request: FetchRequest,
        wanted: Iterable[str],
        *,
        related: frozenset[str] = frozenset(),
        render: bool = False,
    ) -> LiveFetch:
        """Puts normalized URLs into the lane. URLs of hosts for which too many wait are settled as busy.

        Raises ApiProblem if the caller has too many, LiveLaneFull, and the errors of UNAVAILABLE.
        """
        urls = list(dict.fromkeys(wanted))
        if (open_urls := self._of_caller[caller.name]) + len(urls) > MOST_OF_CALLER:
            raise ApiProblem(
                ProblemKind.TOO_MANY_REQUESTS,
                f"{open_urls:,} URLs of this token wait already, and at most {MOST_OF_CALLER:,} may",
                retry_after=_RETRY_SECONDS,
                reason="token",
            )
        fetch = LiveFetch(secrets.token_urlsafe(16), request, set())
        free, busy = self._by_room(urls)
        fetch.outcomes |= {
            url: FetchOutcome(BUSY, f"{MOST_OF_HOST} URLs of its host wait here") for url in busy
        }
        if busy:
            self._service.tally.refusals["host", caller.name] += len(busy)
        if not free:
            fetch.id = ""
            return fetch
        self._enter(fetch, free)
        messages = [
            LiveRequest((url,), id=fetch.id, max_age=request.max_ages[url], related=related, render=render)
            for url in free
        ]
        try:
            async with self._service.quota.taken(caller.name, len(free)):
                with self._service.tally.timed("queue"):
                    await self._follow()
                    await self._keep(fetch)
                    await self._lane.put(messages)
        except BaseException:
            self._leave(fetch)
            raise
        self._service.tally.queued[caller.name] += len(free)
        return fetch

    async def find(self, fetch_id: str, caller: Caller) -> LiveFetch:
        """Returns a request by its ID; raises ApiProblem if there is none of this caller."""
        fetch = self._open.get(fetch_id) or self._changed.get(fetch_id)
        if fetch is None:
            kept = await self._engine.client.get(_key(fetch_id))
            fetch = (
                None if kept is None else LiveFetch.of(fetch_id, msgspec.json.decode(kept, type=KeptFetch))
            )
        if fetch is None or fetch.request.caller != caller.name:
            raise ApiProblem(ProblemKind.NOT_FOUND, "there is no such request, or it is over an hour old")
        return fetch

    def _by_room(self, urls: list[str]) -> tuple[list[str], list[str]]:
        """Returns the URLs whose hosts have room here, and the others."""
        of_host = Counter[str]()
        free: list[str] = []
        busy: list[str] = []
        for url in urls:
            host = split(url)[0]
            of_host[host] += 1
            (free if self._of_host[host] + of_host[host] <= MOST_OF_HOST else busy).append(url)
        return free, busy

    async def _follow(self) -> None:
        await self._events.begin()
        if not self._follows:
            self._follows = True
            self._service.run(self._events.follow())
            self._service.run(self._keep_changed())
            self._service.run(self._sweep())

    def _enter(self, fetch: LiveFetch, urls: list[str]) -> None:
        fetch.waiting |= set(urls)
        self._open[fetch.id] = fetch
        self._of_caller[fetch.request.caller] += len(urls)
        self._of_host.update(split(url)[0] for url in urls)

    def _leave(self, fetch: LiveFetch) -> None:
        """Forgets a request, and what still waits for it."""
        if self._open.pop(fetch.id, None) is not None:
            for url in fetch.waiting:
                self._free(fetch, url)

    def _free(self, fetch: LiveFetch, url: str) -> None:
        for counter, key in ((self._of_caller, fetch.request.caller), (self._of_host, split(url)[0])):
            counter[key] -= 1
            if not counter[key]:
                del counter[key]

    def _take(self, event: LiveEvent) -> None:
        """Settles the requests that an event is for."""
        for fetch_id in event.ids:
            fetch = self._open.get(fetch_id)
            outcome = FetchOutcome(event.error or "", event.reason or "", event.stored)
            if fetch is not None and fetch.settle(event.url, outcome):
                self._free(fetch, event.url)
                if not fetch.waiting:
                    del self._open[fetch_id]
                self._changed[fetch_id] = fetch
                self._wake.set()

    async def _keep(self, fetch: LiveFetch) -> None:
        """Keeps a request and its outcomes in the engine, for later questions and other servers."""
        await self._engine.client.set(_key(fetch.id), msgspec.json.encode(fetch.kept()), ex=KEPT_SECONDS)

    async def _keep_changed(self) -> None:
        """Keeps requests with new outcomes, one after another: a later state must not be replaced by an earlier one.

        Outcomes that come together are kept together.
        """
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._changed:
                fetch_id = next(iter(self._changed))
                fetch = self._changed.pop(fetch_id)
                try:
                    await self._keep(fetch)
                except UNAVAILABLE as error:
                    logger.warning("The outcomes of request %s cannot be kept now: %s", fetch_id, error)
                    self._changed[fetch_id] = fetch
                    await asyncio.sleep(_PAUSE)
            await asyncio.sleep(_PAUSE)

    async def _sweep(self) -> None:
        """Forgets requests whose outcomes never came."""
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            oldest = time.time() - KEPT_SECONDS
            for fetch in [fetch for fetch in self._open.values() if fetch.request.put < oldest]:
                self._leave(fetch)
                self._changed.pop(fetch.id, None)


def _key(fetch_id: str) -> str:
    return f"{REQUESTS}{fetch_id}"
