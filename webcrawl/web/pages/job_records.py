"""The page of an iteration's records: its URLs with their states and times, page by page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.responses import Response

from webcrawl.alarms.stuck import StuckPages
from webcrawl.engine.client import UNAVAILABLE
from webcrawl.errors import NoSuchPage, StoreError
from webcrawl.frontier.listing.engine_urls import EngineURLs
from webcrawl.jobs.record_pages import RecordPage, RecordPages
from webcrawl.jobs.records import Iteration
from webcrawl.jobs.url_records import RecordState, Sources, why_no_records
from webcrawl.opened import OpenedCrawl
from webcrawl.stores.chosen_columns import ChosenColumns
from webcrawl.stores.metadata import Metadata
from webcrawl.web.job_store import metadata_uri
from webcrawl.web.page import View
from webcrawl.web.pages.jobs import iteration_of, page, settings_of

__all__ = ["page"]

_IN_ENGINE = (None, RecordState.QUEUED, RecordState.CRAWLED)


@page.get("{job}/records")
async def records(view: View) -> Response:
    listed, iteration = await iteration_of(view)
    state, prefix = _state(view.query.get("state", "")), _prefix(view.query.get("prefix", ""))
    after = view.query.get("after", "")
    uri = metadata_uri(settings_of(view, listed.job, iteration))
    opened = await _opened(view, iteration)
    async with _sources(iteration, uri, opened) as sources:
        pages = RecordPages(sources, lambda: ChosenColumns(str(uri)), state, prefix)
        record_page: RecordPage = await pages.page(after)
    return view.render(
        "job_records.html",
        listed=listed,
        iteration=iteration,
        record_page=record_page,
        states=tuple(RecordState),
        chosen={"state": state or "", "prefix": prefix, "after": after},
        known=opened is not None,
        unread=opened is None and state in _IN_ENGINE,
    )


async def _opened(view: View, iteration: Iteration) -> OpenedCrawl | None:
    """Returns the crawl of an iteration; None if no reachable engine has it."""
    try:
        return await view.crawls.opened(iteration.crawl)
    except UNAVAILABLE:
        return None


@asynccontextmanager
async def _sources(
    iteration: Iteration, uri: str | None, opened: OpenedCrawl | None
) -> AsyncIterator[Sources]:
    """Opens the sources of an iteration's records; raises NoSuchPage if it has no records."""
    if why := why_no_records(iteration):
        raise NoSuchPage(why)
    assert iteration.started is not None
    sources = Sources(iteration.crawl, iteration.started, iteration.found, None, None, None)
    if opened is not None:
        connection = opened.connection
        sources.reading = EngineURLs(connection.engine, connection.keys, connection.tails, connection.worker)
    try:
        if uri is not None:
            sources.metadata = await asyncio.to_thread(Metadata.to_read, uri)
            sources.stuck = await asyncio.to_thread(StuckPages, uri)
        yield sources
    finally:
        sources.close()


def _state(text: str) -> RecordState | None:
    if text and text not in tuple(RecordState):
        raise StoreError(f"{text!r} is no state of a URL: choose one of {', '.join(RecordState)}")
    return RecordState(text) if text else None


def _prefix(text: str) -> str:
    """Returns the prefix of URLs for an input: with a scheme, and with scheme and host in lower case."""
    text = text.strip()
    if not text:
        return ""
    scheme, mark, rest = text.rpartition("://") if "://" not in text else text.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme.lower() if mark else 'https'}://{host.lower()}{slash}{path}"
