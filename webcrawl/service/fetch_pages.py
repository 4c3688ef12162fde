"""Operations that fetch pages: `POST /v1/pages` and `GET /v1/requests/{id}`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType, field

from webcrawl.client.answers import FetchedPage, FetchedPages, FetchError, PageParts
from webcrawl.documents.values import counted
from webcrawl.errors import InvalidURL
from webcrawl.service.caller import Caller
from webcrawl.service.fetches import BUSY, Fetches, FetchOutcome, FetchRequest, LiveFetch
from webcrawl.service.operation import ApiAnswer, ApiCall, Operation
from webcrawl.service.page_reader import StoredPage
from webcrawl.service.page_record import PartName, PartsReader, PartsRoom, page_record
from webcrawl.service.problem import ApiProblem, ProblemKind
from webcrawl.service.read_pages import LONGEST_URL, MOST_URLS, PageURL, PageURLs
from webcrawl.service.service import Service
from webcrawl.urls.canonical import normalize
from webcrawl.web.access import Role

LONGEST_WAIT = 120.0
_BUSY_SECONDS = 5.0
_LOOK_SECONDS = 0.5
_Wait = Annotated[
    float, Meta(ge=0, le=LONGEST_WAIT, description="Seconds to wait for pages that are fetched.")
]


MaxAge: TypeAlias = Annotated[
    Annotated[float, Meta(ge=0, le=1e10)]
    | Annotated[str, Meta(pattern=r"^[0-9]{1,9}[smhd]?$(?!\n)")]
    | UnsetType,
    Meta(
        description="How old a stored page may be: seconds, or text such as 90s, 5m, 2h or 7d. "
        "By default FETCH_MAX_AGE."
    ),
]


class WantedPages(Struct, forbid_unknown_fields=True):
    """A request for pages: what is stored and young enough is answered at once, the rest is fetched.

    Either `url` or `urls` is given.
    """

    url: PageURL | UnsetType = UNSET
    urls: PageURLs | UnsetType = UNSET
    max_age: MaxAge = UNSET
    wait: _Wait = 10.0
    parts: Annotated[
        list[PartName], Meta(min_length=1, max_length=8, description='By default ["metadata"].')
    ] = field(default_factory=lambda: ["metadata"])
    related: Annotated[
        list[Literal["image", "feed"]],
        Meta(max_length=2, description="Resources of the pages that are fetched after them."),
    ] = []
    render: Annotated[bool, Meta(description="Whether a browser renders pages that are fetched.")] = False


class RequestQuery(Struct, forbid_unknown_fields=True):
    """Parameters of a question for a request."""

    wait: _Wait = 0.0


def operations(service: Service) -> Iterator[Operation]:
    """Yields the operations that fetch pages."""
    endpoint = _FetchedPages(
        service,
        Fetches(service),
        PartsReader(service),
    )
    yield Operation(
        name="fetchPages",
        method="POST",
        path="/v1/pages",
        summary="Fetch up to 300 pages, or show what is stored and young enough",
        description="Pages are fetched as crawls do: politely, by robots.txt, and from no inner address. An answer "
        "with status 202 lacks some; GET /v1/requests/{id} shows them later. Only an operator has pages fetched: "
        "a reader gets what is stored and young enough.",
        handle=endpoint.fetch,
        body=WantedPages,
        answers={200: FetchedPages, 202: FetchedPages},
        most_body=4 * MOST_URLS * LONGEST_URL,
    )
    yield Operation(
        name="getRequest",
        method="GET",
        path="/v1/requests/{id}",
        summary="Show the results of a request for pages",
        description="They are kept for an hour. Only the token that asked may see them.",
        parameters={"id": "The `id` of an answer with status 202."},
        handle=endpoint.show,
        query=RequestQuery,
        answers={200: FetchedPages, 202: FetchedPages},
        problems=(ProblemKind.NOT_FOUND,),
    )


@dataclass(frozen=True)
class _FetchedPages:
    service: Service
    fetches: Fetches
    parts: PartsReader

    async def fetch(self, call: ApiCall) -> ApiAnswer:
        wanted: WantedPages = call.body
        request = self._request(wanted, call.caller)
        stored = await self.service.pages.pages(list(request.max_ages), caller=call.caller.name)
        oldest = {url: request.put - age for url, age in request.max_ages.items()}
        missing = [url for url, since in oldest.items() if not _is_fresh(stored.get(url), since)]
        if not missing:
            fetch = LiveFetch("", request, set())
            return await self._answer(fetch, stored)
        if call.caller.role is not Role.OPERATOR:
            detail = (
                f"not stored, or older than max_age: {counted(len(missing), 'page')}, such as {missing[0]}"
            )
            raise ApiProblem(ProblemKind.ROLE_MISSING, detail)
        fetch = await self.fetches.begin(
            call.caller, request, missing, related=frozenset(wanted.related), render=wanted.render
        )
        with self.service.tally.timed("wait"):
            await fetch.wait(wanted.wait)
        return await self._answer(fetch)

    async def show(self, call: ApiCall) -> ApiAnswer:
        fetch = await self.fetches.find(call.path("id"), call.caller)
        with self.service.tally.timed("wait"):
            fetch = await self._settled(fetch, call)
        return await self._answer(fetch)

    async def _settled(self, fetch: LiveFetch, call: ApiCall) -> LiveFetch:
        """Returns a request when its outcomes are known, or when `wait` is over."""
        deadline = time.monotonic() + call.query.wait
        while fetch.waiting and (left := deadline - time.monotonic()) > 0:
            if fetch.is_elsewhere:
                # another service follows its events, and keeps what became of it
                await asyncio.sleep(min(_LOOK_SECONDS, left))
                fetch = await self.fetches.find(fetch.id, call.caller)
            else:
                await fetch.wait(left)
        return fetch

    def _request(self, wanted: WantedPages, caller: Caller) -> FetchRequest:
        """Returns the request with normalized URLs; those that cannot be crawled are settled."""
        if isinstance(wanted.url, UnsetType) == isinstance(wanted.urls, UnsetType):
            raise ApiProblem(ProblemKind.BAD_REQUEST, "body: give either url or urls")
        given = [wanted.url] if isinstance(wanted.url, str) else wanted.urls
        assert isinstance(given, list)
        urls: dict[str, str] = {}
        settled: dict[str, FetchOutcome] = {}
        for url in given:
            try:
                urls[url] = normalize(url)
            except InvalidURL as error:
                settled[url] = FetchOutcome("invalid", str(error))
        ages = {url: self.service.ages.wanted(url, wanted.max_age) for url in urls.values()}
        order = {url: urls.get(url, "") for url in given}
        return FetchRequest(caller.name, time.time(), given, order, ages, list(wanted.parts), settled)

    async def _answer(self, fetch: LiveFetch, stored: dict[str, StoredPage] | None = None) -> ApiAnswer:
        request = fetch.request
        if stored is None:
            ready = [url for url in request.max_ages if fetch.is_elsewhere or url not in fetch.waiting]
            stored = await self.service.pages.pages(ready, caller=request.caller)
        if fetch.is_elsewhere:
            # the service that has begun it may have ended before its outcomes came
            for url in list(fetch.waiting):
                if _is_fresh(stored.get(url), request.put - request.max_ages[url]):
                    fetch.settle(url, FetchOutcome())
        room = PartsRoom()
        each = await asyncio.gather(
            *(self._result(fetch, url, normalized, stored, room) for url, normalized in request.urls.items())
        )
        by_url = dict(zip(request.urls, each, strict=True))
        results = [by_url[url] for url in request.given]
        pending = any(result.pending for result in results)
        headers = {"Location": f"/v1/requests/{fetch.id}", "Retry-After": "1"} if pending else {}
        return ApiAnswer(FetchedPages(fetch.id, not pending, results), 202 if pending else 200, headers)

    async def _result(
        self, fetch: LiveFetch, given: str, url: str, stored: dict[str, StoredPage], room: PartsRoom
    ) -> FetchedPage:
        outcome = fetch.request.settled.get(given) or fetch.outcomes.get(url)
        if url in fetch.waiting:
            return FetchedPage(given, pending=True)
        if outcome is not None and outcome.error:
            wait = _BUSY_SECONDS if outcome.error == BUSY else None
            return FetchedPage(given, error=FetchError(outcome.error, outcome.detail, wait))
        if (page := stored.get(url)) is None:
            return FetchedPage(given, error=FetchError("dead", "its page was not stored"))
        return FetchedPage(
            given,
            stored=outcome is None or outcome.stored,
            page=page_record(page) if "metadata" in fetch.request.parts else None,
            parts=await self._parts(page, fetch.request.parts, room),
        )

    async def _parts(self, page: StoredPage, names: Sequence[str], room: PartsRoom) -> PageParts | None:
        if set(names) <= {"metadata"}:
            return None
        with self.service.tally.timed("parts"):
            return room.take(await self.parts.parts(page.chain[-1].url, names))


def _is_fresh(page: StoredPage | None, since: float) -> bool:
    """Returns whether each page of a chain answered after a Unix time, and the last one is no redirect."""
    if page is None or _is_redirect(page):
        return False
    return all(
        row.status is not None
        and row.state != "failed"
        and datetime.fromisoformat(row.tried_at or row.fetched_at).timestamp() >= since
        for row in page.chain
    )


def _is_redirect(page: StoredPage) -> bool:
    row = page.chain[-1]
    return row.status in (301, 302, 303, 307, 308) and row.final_url not in {each.url for each in page.chain}
