"""Opens the engine and the database from which the records of an iteration are read."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from webcrawl.alarms.stuck import StuckPages
from webcrawl.errors import StoreError
from webcrawl.frontier.figures import figures
from webcrawl.frontier.listing.engine_urls import EngineURLs
from webcrawl.jobs.claims import is_here
from webcrawl.jobs.crawls import JobCrawls
from webcrawl.jobs.definition import Definition
from webcrawl.jobs.records import Iteration
from webcrawl.jobs.url_records import Sources, why_no_records
from webcrawl.opened import OpenedCrawl


@asynccontextmanager
async def record_sources(
    crawls: JobCrawls, definition: Definition, iteration: Iteration, machine: str
) -> AsyncIterator[Sources]:
    """Opens the engine and the database of an iteration, as far as they exist. `machine`: the name of this machine.

    Raises StoreError for an iteration without files on this machine, and EngineError.
    """
    async with OpenedCrawl(crawls.settings(definition, iteration), definition.spider) as opened:
        _check(iteration, machine, embedded=opened.connection.server.is_embedded)
        assert iteration.started is not None
        sources = Sources(iteration.crawl, iteration.started, iteration.found, None, None, None)
        try:
            if opened.has_engine:
                await _read_engine(opened, sources)
            sources.metadata = opened.metadata_if_any()
            sources.stuck = None if sources.metadata is None else StuckPages(opened.stores.metadata)
            yield sources
        finally:
            sources.close()


def _check(iteration: Iteration, machine: str, *, embedded: bool) -> None:
    if why := why_no_records(iteration):
        raise StoreError(why)
    if embedded and not is_here(iteration, machine):
        name = f"iteration {iteration.number} of job {iteration.job!r}"
        raise StoreError(f"the records of {name} are on {iteration.machine}: run this command there")


async def _read_engine(opened: OpenedCrawl, sources: Sources) -> None:
    connection = opened.connection
    await connection.connect()
    if not await connection.adopt_layout():
        return
    await opened.check_complete()
    sources.seen_urls = (await figures(connection.frontier, connection.crawl)).seen_urls
    sources.reading = EngineURLs(
        connection.engine, connection.keys, connection.tails, connection.worker, waiting=_tell_holder
    )


def _tell_holder(name: str) -> None:
    print(f"Waiting for {name}, which copies the crawl.", file=sys.stderr)
