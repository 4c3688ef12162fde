"""`/v1/crawls`: crawls are listed, shown, started, paused, resumed and stopped, by the code of the commands."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta, Struct

from webcrawl.client.answers import CrawlDetails, CrawlEntries, CrawlEntry, SteeredCrawl
from webcrawl.crawler.url_arguments import SPIDER
from webcrawl.errors import StoreError, brief
from webcrawl.frontier import Crawl
from webcrawl.opened import OpenedCrawl
from webcrawl.service.operation import ApiAnswer, ApiCall, Operation
from webcrawl.service.problem import ApiProblem, ProblemKind
from webcrawl.service.read_pages import LONGEST_URL, MOST_URLS, PageURL
from webcrawl.service.service import Service
from webcrawl.urls.seeds import seeds_in_lines
from webcrawl.web.access import Role
from webcrawl.web.crawl_form import CrawlForm
from webcrawl.web.crawl_settings import ALLOWED, as_field
from webcrawl.web.crawls import Crawls, ListedCrawl, crawls_of_engine, crawls_of_jobs, crawls_of_summaries
from webcrawl.web.overview import crawl_report, overview
from webcrawl.web.starter import has_begun, state_of

_MOST_CHARACTERS = 65_536
"""The most of all seeds: the new process gets them in a variable of its environment, which has a bound."""
_MOST_PROBLEMS = 10
_LONGEST_WAIT = 60.0
_OF_FORM = {"seeds": "urls", "": "body"}
"""Field of the form -> its name here, if it has another."""

SettingValue: TypeAlias = bool | int | float | str | list[str]


class NewCrawl(Struct, forbid_unknown_fields=True):
    """A crawl to be started, with what the form of the dashboard has."""

    urls: Annotated[list[PageURL], Meta(max_length=MOST_URLS, description="The URLs to start from.")] = []
    spider: str = SPIDER
    crawl: Annotated[
        str, Meta(description="Its name. By default that of the URLs, or that of another spider.")
    ] = ""
    scope: Annotated[str, Meta(description="Which links are followed: path, host, domain, or web.")] = ""
    settings: Annotated[
        dict[str, SettingValue], Meta(description="Limits and switches, such as CRAWL_MAX_PAGES.")
    ] = {}
    wait: Annotated[
        float, Meta(ge=0, le=_LONGEST_WAIT, description="Seconds to wait for its first worker.")
    ] = 30.0


def operations(service: Service) -> Iterator[Operation]:
    """Yields the operations on crawls."""
    crawls = Crawls(service.opened, service.settings)
    service.on_close(crawls.close)
    endpoint = _CrawlsEndpoint(service, crawls)
    yield Operation(
        name="listCrawls",
        method="GET",
        path="/v1/crawls",
        summary="List the crawls with state, pages, queue and end",
        tag="crawls",
        handle=endpoint.read_all,
        answers={200: CrawlEntries},
    )
    yield Operation(
        name="startCrawl",
        method="POST",
        path="/v1/crawls",
        summary="Start a crawl, or continue one, as a process on the machine of the service",
        description="The crawl outlives the service. The answer has status 201 if its worker has begun within `wait`, "
        "or else 202.",
        tag="crawls",
        role=Role.OPERATOR,
        handle=endpoint.start,
        body=NewCrawl,
        answers={201: CrawlDetails, 202: CrawlDetails},
        most_body=4 * MOST_URLS * LONGEST_URL,
        problems=(ProblemKind.CONFLICT,),
    )
    yield Operation(
        name="readCrawl",
        method="GET",
        path="/v1/crawls/{crawl}",
        summary="Read the state and the figures of a crawl",
        tag="crawls",
        handle=endpoint.read,
        parameters=_NAMED,
        answers={200: CrawlDetails},
        problems=(ProblemKind.NOT_FOUND,),
    )
    for verb, summary, change in _CHANGES:
        yield Operation(
            name=f"{verb}Crawl",
            method="POST",
            path="/v1/crawls/{crawl}:" + verb,
            summary=summary,
            tag="crawls",
            role=Role.OPERATOR,
            handle=endpoint.changing(change),
            parameters=_NAMED,
            answers={200: SteeredCrawl},
            problems=(ProblemKind.NOT_FOUND,),
        )


async def _stop(crawl: Crawl) -> None:
    await crawl.workers.stop()


Change: TypeAlias = Callable[[Crawl], Awaitable[None]]
_NAMED: Mapping[str, str] = {"crawl": "The name of the crawl, CRAWL_ID."}
_CHANGES: tuple[tuple[str, str, Change], ...] = (
    ("pause", "Pause the workers of a crawl, on any machine, until it is resumed", Crawl.pause),
    ("resume", "Continue a crawl that was paused", Crawl.resume),
    ("stop", "End the workers of a crawl, on any machine; its queue stays", _stop),
)


@dataclass(frozen=True)
class _CrawlsEndpoint:
    service: Service
    crawls: Crawls

    async def read_all(self, call: ApiCall) -> CrawlEntries:
        opened = self.service.opened
        listed = await crawls_of_engine(opened.connection) + await crawls_of_jobs(self.crawls.own)
        known = {each.crawl for each in listed}
        listed += await asyncio.to_thread(crawls_of_summaries, opened.stores.data_dir, known)
        return CrawlEntries([_entry(each) for each in listed])

    async def read(self, call: ApiCall) -> CrawlDetails:
        return await self._details(call.path("crawl"))

    def changing(self, change: Change) -> Callable[[ApiCall], Awaitable[SteeredCrawl]]:
        """Returns the handler of a change, which may be repeated."""

        async def handle(call: ApiCall) -> SteeredCrawl:
            opened = await self._opened(call.path("crawl"))
            await change(opened.connection.crawl)
            now = await overview(opened.connection.crawl, opened.connection.frontier)
            return SteeredCrawl(now.crawl, now.state, len(now.vitals))

        return handle

    async def start(self, call: ApiCall) -> ApiAnswer:
        wanted: NewCrawl = call.body
        form, starter = await self._checked(wanted), self.service.starter
        assert form.definition is not None
        crawl = form.crawl
        if starter.is_running(crawl) or await state_of(self.crawls, crawl, alive=True):
            raise ApiProblem(
                ProblemKind.CONFLICT, f"crawl {crawl!r} is running: name another, or stop it first"
            )
        try:
            await asyncio.to_thread(starter.start, crawl, form.definition)
        except StoreError as error:
            raise ApiProblem(ProblemKind.CONFLICT, str(error)) from error
        begun = await has_begun(self.crawls, starter, crawl, wanted.wait)
        if failure := await asyncio.to_thread(starter.failure, crawl):
            raise ApiProblem(ProblemKind.CONFLICT, failure)
        details = await self._details(crawl) if begun else CrawlDetails(crawl, "starting")
        status = HTTPStatus.CREATED if begun else HTTPStatus.ACCEPTED
        return ApiAnswer(details, status, {"Location": f"/v1/crawls/{crawl}"})

    async def _checked(self, wanted: NewCrawl) -> CrawlForm:
        """Returns the form without problems."""
        problems = [
            f"urls: {url!r} is not a URL"
            for url in wanted.urls
            if list(seeds_in_lines(url.splitlines())) != [url.strip()]
        ]
        if unknown := wanted.settings.keys() - ALLOWED.keys():
            problems.append(f"settings: {min(unknown)!r} is not one of {', '.join(ALLOWED)}")
        fields = {name: as_field(value) for name, value in wanted.settings.items()}
        fields |= {"spider": wanted.spider, "crawl": wanted.crawl, "scope": wanted.scope}
        form = CrawlForm.of(fields | {"seeds": "\n".join(wanted.urls)})
        if not problems and not await asyncio.to_thread(form.check, self.service.starter.check):
            problems = [
                f"{_OF_FORM.get(name, name)}: {text}"
                for name, texts in form.problems.items()
                for text in texts
            ]
        if sum(map(len, wanted.urls)) > _MOST_CHARACTERS:
            problems = [
                f"urls: there are more than {_MOST_CHARACTERS:,} characters; queue the rest by POST /v1/urls"
            ]
        if problems:
            raise ApiProblem(ProblemKind.BAD_REQUEST, "; ".join(map(brief, problems[:_MOST_PROBLEMS])))
        return form

    async def _details(self, crawl: str) -> CrawlDetails:
        if self.service.starter.is_running(crawl) and await self.crawls.opened(crawl) is None:
            return CrawlDetails(crawl, "starting")
        report: dict[str, Any] = await crawl_report((await self._opened(crawl)).connection)
        named = {
            name: report.pop(name)
            for name in ("crawl", "state", "busiest_hosts", "sunk_patterns", "over_budget")
        }
        return msgspec.convert(named | {"figures": report}, CrawlDetails)

    async def _opened(self, crawl: str) -> OpenedCrawl:
        opened = await self.crawls.opened(crawl)
        if opened is None:
            failure = await asyncio.to_thread(self.service.starter.failure, crawl)
            missing = f"there is no crawl {crawl!r} in {self.crawls.server}"
            raise ApiProblem(ProblemKind.NOT_FOUND, f"{missing}: {failure}" if failure else missing)
        return opened


def _entry(listed: ListedCrawl) -> CrawlEntry:
    started, ended = (time.isoformat() if time else None for time in (listed.started, listed.ended))
    return CrawlEntry(
        listed.crawl,
        listed.state,
        listed.pages,
        listed.queued,
        checked=listed.checked,
        pages_per_second=listed.pages_per_second,
        checks_per_second=listed.checks_per_second,
        started=started,
        ended=ended,
        how=listed.how,
    )
