"""`POST /v1/urls`: URLs for the live lane, or for the queue of a crawl."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from webcrawl.client.answers import QueuedURLs
from webcrawl.engine.keys import LIVE_CRAWL
from webcrawl.errors import WrongMessage
from webcrawl.frontier.entry import DEFAULT_LEVEL, Candidate
from webcrawl.live.request import LiveRequest
from webcrawl.service.events import CrawlName
from webcrawl.service.fetch_pages import MaxAge
from webcrawl.service.operation import ApiAnswer, ApiCall, Operation
from webcrawl.service.problem import ApiProblem, ProblemKind
from webcrawl.service.read_pages import LONGEST_URL, MOST_URLS, PageURLs
from webcrawl.service.service import Service
from webcrawl.urls.canonical import normalize, split
from webcrawl.web.access import Role

_LEFT_OUT: tuple[Any, ...] = ("", {}, [], False, UNSET)


class WantedURLs(Struct, forbid_unknown_fields=True):
    """URLs to be fetched. All but `crawl` and `level` is for the live lane alone."""

    urls: PageURLs
    crawl: CrawlName = LIVE_CRAWL
    level: Annotated[int, Meta(ge=0, le=7, description="The best is 0.")] | UnsetType = UNSET
    tag: Annotated[str, Meta(max_length=64, description="Given back in the events of the URLs.")] = ""
    meta: Annotated[dict[str, Any], Meta(description="Given back in the events of the URLs.")] = {}
    max_age: MaxAge = UNSET
    related: Annotated[
        list[Literal["image", "feed"]], Meta(max_length=2, description="Fetched after the pages.")
    ] = []
    render: bool = False


def operations(service: Service) -> Iterator[Operation]:
    """Yields the operation that queues URLs."""
    endpoint = _QueuedURLs(service)
    yield Operation(
        name="queueURLs",
        method="POST",
        path="/v1/urls",
        summary="Queue up to 300 URLs in the live lane or a crawl",
        description="The live lane fetches each URL, and tells what became of it by an event. A crawl fetches those "
        "that it has not seen, at any host.",
        tag="urls",
        role=Role.OPERATOR,
        handle=endpoint.put,
        body=WantedURLs,
        answers={202: QueuedURLs},
        problems=(ProblemKind.NOT_FOUND, ProblemKind.CONFLICT),
        most_body=4 * MOST_URLS * LONGEST_URL,
    )


@dataclass(frozen=True)
class _QueuedURLs:
    service: Service

    async def put(self, call: ApiCall) -> ApiAnswer:
        wanted: WantedURLs = call.body
        urls = list(dict.fromkeys(map(normalize, wanted.urls)))
        if wanted.crawl == LIVE_CRAWL:
            async with self.service.quota.taken(call.caller.name, len(urls)):
                await self._to_lane(wanted, urls)
            self.service.tally.queued[call.caller.name] += len(urls)
            return ApiAnswer(QueuedURLs(len(urls)), HTTPStatus.ACCEPTED)
        for name in ("tag", "meta", "related", "render", "max_age"):
            if getattr(wanted, name) not in _LEFT_OUT:
                raise ApiProblem(ProblemKind.BAD_REQUEST, f"body: {name} is for the live lane alone")
        return ApiAnswer(QueuedURLs(await self._to_crawl(wanted, urls)), HTTPStatus.ACCEPTED)

    async def _to_lane(self, wanted: WantedURLs, urls: Sequence[str]) -> None:
        """Puts a message for each URL: a message is finished with the last of its URLs."""
        level = DEFAULT_LEVEL if isinstance(wanted.level, UnsetType) else wanted.level
        try:
            messages = [
                LiveRequest(
                    (url,),
                    tag=wanted.tag,
                    level=level,
                    max_age=self.service.ages.wanted(url, wanted.max_age),
                    related=frozenset(wanted.related),
                    render=wanted.render,
                    meta=wanted.meta,
                )
                for url in urls
            ]
            with self.service.tally.timed("queue"):
                await self.service.lane.put(messages)
        except WrongMessage as error:
            raise ApiProblem(ProblemKind.BAD_REQUEST, f"body: {error}") from error

    async def _to_crawl(self, wanted: WantedURLs, urls: Sequence[str]) -> int:
        """Queues URLs that a crawl has not seen; returns their number."""
        opened = self.service.opened
        connection = opened.connection
        crawl = replace(connection.crawl, keys=replace(connection.keys, crawl=wanted.crawl))
        if (keys := await crawl.begun_with()) is None:
            raise ApiProblem(ProblemKind.NOT_FOUND, f"there is no crawl {wanted.crawl!r}")
        if opened.config.bloom:
            raise ApiProblem(ProblemKind.CONFLICT, 'a crawl with SEEN_SET "bloom" takes no URLs from outside')
        fixed = not isinstance(wanted.level, UnsetType)
        level = wanted.level if not isinstance(wanted.level, UnsetType) else DEFAULT_LEVEL
        candidates = [
            Candidate(*split(url), opened.canonicalizer.fingerprint(url), level, is_fixed=fixed)
            for url in urls
        ]
        return sum(await replace(connection.frontier, keys=keys).add(candidates))
