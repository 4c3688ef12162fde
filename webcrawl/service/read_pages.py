"""Operations that read stored pages: `GET /v1/pages/{url}` and `POST /v1/pages:read`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

from webcrawl.client.answers import PageRecord, StoredResult, StoredResults
from webcrawl.service.operation import ApiCall, Operation
from webcrawl.service.page_record import page_record
from webcrawl.service.problem import ApiProblem, ProblemKind
from webcrawl.service.service import Service
from webcrawl.urls.canonical import normalize

LONGEST_URL = 8_192
MOST_URLS = 300

PageURL: TypeAlias = Annotated[str, Meta(min_length=1, max_length=LONGEST_URL)]
PageURLs: TypeAlias = Annotated[list[PageURL], Meta(min_length=1, max_length=MOST_URLS)]


class PageQuery(Struct, forbid_unknown_fields=True):
    """Parameters of a request for a stored page."""

    history: Annotated[bool, Meta(description="Whether to list the earlier fetches of the page.")] = False


class PagesQuery(Struct, forbid_unknown_fields=True):
    """A request for stored pages."""

    urls: PageURLs
    history: Annotated[bool, Meta(description="Whether to list the earlier fetches of the pages.")] = False


def operations(service: Service) -> Iterator[Operation]:
    """Yields the operations that read pages."""
    endpoint = _StoredPages(service)
    yield Operation(
        name="getPage",
        method="GET",
        path="/v1/pages/{url:path}",
        summary="Show what is stored about a page",
        description="Redirects are followed as they are stored. Nothing is fetched.",
        parameters={"url": "The URL of the page, percent-encoded."},
        handle=endpoint.get,
        query=PageQuery,
        answers={200: PageRecord},
        problems=(ProblemKind.NOT_STORED,),
    )
    yield Operation(
        name="readPages",
        method="POST",
        path="/v1/pages:read",
        summary="Show what is stored about up to 300 pages",
        description="Redirects are followed as they are stored. Nothing is fetched.",
        handle=endpoint.read,
        body=PagesQuery,
        answers={200: StoredResults},
        most_body=4 * MOST_URLS * LONGEST_URL,
    )


@dataclass(frozen=True)
class _StoredPages:
    service: Service

    async def get(self, call: ApiCall) -> PageRecord:
        url = call.path("url")
        if len(url) > LONGEST_URL:
            raise ApiProblem(ProblemKind.BAD_REQUEST, f"a URL has at most {LONGEST_URL:,} characters")
        normalize(url)
        pages = await self.service.pages.pages([url], history=call.query.history, caller=call.caller.name)
        if (page := pages.get(url)) is None:
            raise ApiProblem(ProblemKind.NOT_STORED)
        return page_record(page)

    async def read(self, call: ApiCall) -> StoredResults:
        urls = call.body.urls
        pages = await self.service.pages.pages(urls, history=call.body.history, caller=call.caller.name)
        return StoredResults(
            [StoredResult(url, page_record(pages[url]) if url in pages else None) for url in urls]
        )
