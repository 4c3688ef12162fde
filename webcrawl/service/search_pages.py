"""`GET /v1/search`: the pages of the full-text index that have some words."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from webcrawl.client.answers import FacetValue, SearchedPage, SearchedPages
from webcrawl.errors import ConfigurationError, LibraryMissing
from webcrawl.service.operation import ApiCall, Operation
from webcrawl.service.problem import ApiProblem, ProblemKind
from webcrawl.service.service import Service

if TYPE_CHECKING:
    from webcrawl.search.searching import Hit

_AT_ONCE = 2
_MOST_WAITING = 100
_BUSY_SECONDS = 2.0
_Filter: TypeAlias = Annotated[str, Meta(max_length=256)]


class SearchQuery(Struct, forbid_unknown_fields=True):
    """Words or the URL of a page, and conditions for pages. `""` is no condition."""

    words: Annotated[str, Meta(max_length=1_000, description="Words, or a query as in `scrapy search`.")] = ""
    like: Annotated[
        str, Meta(max_length=8_192, description="Instead of words: a page of the index, for pages like it.")
    ] = ""
    sort: Annotated[
        Literal["", "best", "date"],
        Meta(description="`date`: the newest first, as published or else fetched."),
    ] = ""
    facets: Annotated[
        bool, Meta(description="Count the hosts, languages and types of all results, each up to 20 values.")
    ] = False
    host: Annotated[_Filter, Meta(description="A host, with its subdomains.")] = ""
    language: Annotated[_Filter, Meta(description="Languages, such as en,de.")] = ""
    type: Annotated[_Filter, Meta(description="MIME types, such as text/html,image/*.")] = ""
    since: Annotated[_Filter, Meta(description="A date or time (UTC): pages fetched then or later.")] = ""
    until: Annotated[_Filter, Meta(description="A date or time (UTC): pages fetched until then.")] = ""
    crawl: Annotated[_Filter, Meta(description="The crawl that fetched the page last.")] = ""
    limit: Annotated[int, Meta(ge=1, le=100)] = 10
    start: Annotated[int, Meta(ge=0, le=1_000, description="How many results to leave out.")] = 0


def operations(service: Service) -> Iterator[Operation]:
    """Yields the operation that searches."""
    yield Operation(
        name="searchPages",
        method="GET",
        path="/v1/search",
        summary="Search the text of stored pages for words",
        description="The best pages come first; copies of a page are a single result. If no page has all words, words "
        "with typing errors are corrected. `scrapy search --update` makes the index, and brings it up to date.",
        handle=_SearchedPages(service.opened.stores.data_dir / "index").search,
        query=SearchQuery,
        answers={200: SearchedPages},
        problems=(ProblemKind.NOT_FOUND, ProblemKind.TOO_MANY_REQUESTS),
    )


@dataclass
class _SearchedPages:
    folder: Path
    waiting: int = 0
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    async def search(self, call: ApiCall) -> SearchedPages:
        if self.waiting >= _MOST_WAITING:
            raise ApiProblem(
                ProblemKind.TOO_MANY_REQUESTS,
                "too many searches wait",
                retry_after=_BUSY_SECONDS,
                reason="searches",
            )
        self.waiting += 1
        try:
            async with self.slots:
                return await asyncio.to_thread(_search, self.folder, call.query)
        finally:
            self.waiting -= 1


def _search(folder: Path, query: SearchQuery) -> SearchedPages:
    """Returns the results of the index in a folder; raises ApiProblem."""
    from webcrawl.search.folder import updated_at
    from webcrawl.search.query import asked_filters
    from webcrawl.search.searching import Search

    if bool(query.words) == bool(query.like):
        raise ApiProblem(ProblemKind.BAD_REQUEST, "give words, or like with the URL of a page")
    updated = updated_at(folder)
    if updated is None:
        detail = "there is no complete index of the stored pages: `scrapy search --update` makes it"
        raise ApiProblem(ProblemKind.NOT_FOUND, detail)
    try:
        filters = asked_filters(
            host=query.host or None,
            language=query.language or None,
            type=query.type or None,
            since=query.since or None,
            until=query.until or None,
            crawl=query.crawl or None,
        )
        search = Search(folder)
        asked, find = (query.like, search.like) if query.like else (query.words, search.find)
        results = find(
            asked, filters, query.limit, query.start, by_date=query.sort == "date", facets=query.facets
        )
    except LibraryMissing as error:
        raise ApiProblem(ProblemKind.NOT_FOUND, "the service cannot search: tantivy is missing") from error
    except ConfigurationError as error:
        raise ApiProblem(ProblemKind.BAD_REQUEST, str(error).removeprefix("--")) from error
    return SearchedPages(
        results.total,
        results.has_all,
        updated.isoformat(timespec="seconds"),
        [_page(hit) for hit in results.hits],
        results.corrected,
        results.suggested,
        {name: [FacetValue(*pair) for pair in values] for name, values in results.facets.items()},
    )


def _page(hit: Hit) -> SearchedPage:
    entry = hit.entry
    return SearchedPage(
        url=entry.url,
        score=round(hit.score, 3),
        fetched_at=entry.fetched_at,
        title=entry.title,
        description=entry.description,
        author=entry.author,
        language=entry.language,
        mime_type=entry.mime_type,
        published_at=entry.published_at,
        snippet=hit.snippet,
        marks=list(hit.marks),
        copies=hit.copies,
    )
