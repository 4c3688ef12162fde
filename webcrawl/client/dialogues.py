"""What the methods of both clients do: generators that yield requests, are sent their answers, and return a result."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Mapping
from typing import Any, TypeAlias, TypeVar

from webcrawl.client.answers import (
    CrawlDetails,
    CrawlEntries,
    CrawlEntry,
    FetchedPage,
    FetchedPages,
    JobEntries,
    JobEntry,
    PageRecord,
    QueuedURLs,
    SearchedPages,
    SteeredCrawl,
    StoredResults,
    WebhookEntries,
    WebhookEntry,
)
from webcrawl.client.service_request import ServiceRequest, batches, named_path, page_path
from webcrawl.errors import ServiceProblem

T = TypeVar("T")
Dialogue: TypeAlias = Generator[ServiceRequest[Any], Any, T]

_LONGEST_WAIT = 60.0
"""The seconds that a single request waits: proxies between end longer ones."""


def page(url: str, *, history: bool) -> Dialogue[PageRecord | None]:
    """Reads what is stored about a page."""
    try:
        record: PageRecord = yield ServiceRequest("GET", page_path(url), PageRecord, _flags(history=history))
    except ServiceProblem as problem:
        if problem.kind == "not-stored":
            return None
        raise
    return record


def pages(urls: Iterable[str], *, history: bool) -> Dialogue[dict[str, PageRecord]]:
    """Reads what is stored about pages."""
    records = {}
    for batch in batches(urls):
        body = {"urls": batch, "history": history}
        answer: StoredResults = yield ServiceRequest("POST", "/v1/pages:read", StoredResults, body=body)
        records.update({result.url: result.page for result in answer.results if result.page is not None})
    return records


def fetch(urls: Iterable[str], wanted: Mapping[str, Any], wait: float) -> Dialogue[dict[str, FetchedPage]]:
    """Fetches pages; asks again for pages that are pending or whose hosts are busy, until `wait` seconds are over."""
    deadline = time.monotonic() + wait
    results: dict[str, FetchedPage] = {}
    missing, pause = list(dict.fromkeys(urls)), 0.0
    while missing:
        requests, groups = [], batches(missing)
        for group in groups:
            # pages of all groups are waited for together
            seconds = _time_left(deadline) if group is groups[-1] else 0.0
            body = {**wanted, "urls": group, "wait": seconds}
            answer: FetchedPages = yield _fetching(body, pause)
            results |= {result.url: result for result in answer.results}
            requests += [] if answer.complete else [answer.id]
            pause = 0.0
        for request in requests:
            results |= yield from _rest(request, deadline)
        busy = {url: error for url in missing if (error := results[url].error) and error.reason == "busy"}
        pause = max((error.retry_after or 0.0 for error in busy.values()), default=0.0)
        missing = list(busy) if time.monotonic() + pause < deadline else []
    return results


def _rest(request: str, deadline: float) -> Dialogue[dict[str, FetchedPage]]:
    """Waits for the pages of a request."""
    while True:
        seconds = _time_left(deadline)
        path, params = f"/v1/requests/{request}", {"wait": f"{seconds:.1f}"}
        answer: FetchedPages = yield ServiceRequest("GET", path, FetchedPages, params, wait=seconds)
        if answer.complete or time.monotonic() >= deadline:
            return {result.url: result for result in answer.results}


def search(
    *, limit: int, start: int, facets: bool, choices: Mapping[str, str | None]
) -> Dialogue[SearchedPages]:
    """Searches the text of stored pages."""
    params = {"limit": str(limit), "start": str(start)}
    params |= {name: value for name, value in choices.items() if value}
    if facets:
        params["facets"] = "true"
    results: SearchedPages = yield ServiceRequest("GET", "/v1/search", SearchedPages, params)
    return results


def put(urls: Iterable[str], wanted: Mapping[str, Any]) -> Dialogue[int]:
    """Queues URLs."""
    queued = 0
    for batch in batches(urls):
        body = {**wanted, "urls": batch}
        answer: QueuedURLs = yield ServiceRequest("POST", "/v1/urls", QueuedURLs, body=body, again=False)
        queued += answer.queued
    return queued


def crawls() -> Dialogue[list[CrawlEntry]]:
    """Lists the crawls."""
    answer: CrawlEntries = yield ServiceRequest("GET", "/v1/crawls", CrawlEntries)
    return answer.crawls


def crawl(name: str) -> Dialogue[CrawlDetails]:
    """Reads the figures of a crawl."""
    details: CrawlDetails = yield ServiceRequest("GET", named_path("crawls", name), CrawlDetails)
    return details


def start_crawl(wanted: Mapping[str, Any], wait: float) -> Dialogue[CrawlDetails]:
    """Starts a crawl."""
    body = {**wanted, "wait": min(_LONGEST_WAIT, wait)}
    details: CrawlDetails = yield ServiceRequest(
        "POST", "/v1/crawls", CrawlDetails, body=body, again=False, wait=body["wait"]
    )
    return details


def steer_crawl(name: str, verb: str) -> Dialogue[SteeredCrawl]:
    """Pauses, resumes or stops a crawl: `verb`."""
    steered: SteeredCrawl = yield ServiceRequest("POST", named_path("crawls", name, verb), SteeredCrawl)
    return steered


def jobs() -> Dialogue[list[JobEntry]]:
    """Lists the jobs."""
    answer: JobEntries = yield ServiceRequest("GET", "/v1/jobs", JobEntries)
    return answer.jobs


def steer_job(name: str, verb: str) -> Dialogue[JobEntry]:
    """Pauses, resumes or starts a job: `verb`."""
    again = verb != "start"
    job: JobEntry = yield ServiceRequest("POST", named_path("jobs", name, verb), JobEntry, again=again)
    return job


def webhooks() -> Dialogue[list[WebhookEntry]]:
    """Lists the webhooks."""
    answer: WebhookEntries = yield ServiceRequest("GET", "/v1/webhooks", WebhookEntries)
    return answer.webhooks


def add_webhook(wanted: Mapping[str, str]) -> Dialogue[WebhookEntry]:
    """Adds a webhook."""
    added: WebhookEntry = yield ServiceRequest("POST", "/v1/webhooks", WebhookEntry, body=wanted, again=False)
    return added


def remove_webhook(id: str) -> Dialogue[None]:
    """Removes a webhook."""
    yield ServiceRequest("DELETE", named_path("webhooks", id), type(None))


def wanted_of(
    *, max_age: float | str | None, parts: Iterable[str], related: Iterable[str], render: bool
) -> dict[str, Any]:
    """Returns the fields of a request to fetch pages."""
    wanted: dict[str, Any] = {"parts": list(parts), "related": list(related), "render": render}
    return wanted if max_age is None else wanted | {"max_age": max_age}


def queued_of(
    *, crawl: str, tag: str, level: int | None, max_age: float | str | None, meta: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Returns the fields of a request to queue URLs."""
    wanted = {"crawl": crawl, "tag": tag, "level": level, "max_age": max_age, "meta": meta}
    return {name: value for name, value in wanted.items() if value not in (None, "")}


def new_crawl_of(
    urls: Iterable[str], *, crawl: str, spider: str, scope: str, settings: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Returns the fields of a request to start a crawl."""
    wanted = {"urls": list(urls), "crawl": crawl, "spider": spider, "scope": scope, "settings": settings}
    return {name: value for name, value in wanted.items() if value not in (None, "")}


def _fetching(body: Mapping[str, Any], pause: float) -> ServiceRequest[FetchedPages]:
    # a page that was asked for twice is fetched twice, if `max_age` is 0
    return ServiceRequest(
        "POST", "/v1/pages", FetchedPages, body=body, again=False, wait=body["wait"], pause=pause
    )


def _flags(**given: bool) -> dict[str, str]:
    return {name: "true" for name, value in given.items() if value}


def _time_left(deadline: float) -> float:
    return max(0.0, min(_LONGEST_WAIT, deadline - time.monotonic()))
