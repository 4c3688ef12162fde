"""Reads the records of an iteration from its engine and database, and prints them for `scrapy jobs records`."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime

from webcrawl.alarms.stuck import StuckPages
from webcrawl.documents.values import counted
from webcrawl.errors import StoreError, printable
from webcrawl.frontier.figures import figures
from webcrawl.frontier.listing.engine_urls import EngineURLs
from webcrawl.jobs.claims import is_here
from webcrawl.jobs.crawls import JobCrawls
from webcrawl.jobs.definition import Definition
from webcrawl.jobs.records import Iteration
from webcrawl.jobs.url_records import RecordState, Sources, URLRecord, URLRecords, record_of, why_no_records
from webcrawl.opened import OpenedCrawl
from webcrawl.urls.seeds import seed_url


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


async def print_records(sources: Sources, only: str | None, *, as_json: bool) -> None:
    """Prints the records in a state or all records, and the count of each state to standard error."""
    records = URLRecords(sources)
    async for batch in records.batches():
        for record in batch:
            if only in (None, record.state):
                print(_printed(record, sources.begun, as_json=as_json))
    numbers = ", ".join(f"{records.counts[state]:,} {state}" for state in RecordState)
    print(f"{counted(records.counts.total(), 'record')}: {numbers}.", file=sys.stderr)
    for line in _left_out(records):
        print(line, file=sys.stderr)


async def print_record(sources: Sources, url: str, *, as_json: bool) -> None:
    """Prints the record of a URL; raises StoreError if there is no record, and InvalidURL."""
    url = seed_url(url)
    record, complete = await record_of(sources, url)
    if record is not None:
        print(_printed(record, sources.begun, as_json=as_json))
    elif complete:
        raise StoreError(f"crawl {sources.crawl!r} has no record of {url}")
    else:
        raise StoreError(
            f"{url} was not found, but its host has a long queue: list all records to find it there"
        )


def _left_out(records: URLRecords) -> list[str]:
    """Returns lines about URLs without a record, with the reasons."""
    lines, sources = [], records.sources
    lost = sources.reading.lost if sources.reading else 0
    if records.dropped:
        lines.append(f"Without a record: {counted(records.dropped, 'URL')} that an operator has dropped.")
    if lost:
        lines.append(f"Left out: {counted(lost, 'URL')} in damaged or missing segments.")
    rest = sources.seen_urls - records.counts.total() - records.dropped - lost
    if rest > 0:
        lines.append(
            f"Without a record: {counted(rest, 'URL')} that left the queue without a row of this crawl."
        )
    return lines


def _printed(record: URLRecord, begun: datetime, *, as_json: bool) -> str:
    if as_json:
        facts = record.known()
        if record.created is None:
            facts["created_after"] = begun
        return json.dumps(facts, default=lambda time: time.isoformat())
    time = f"{record.updated:%Y-%m-%d %H:%M:%S}Z" if record.updated else ""
    reason = f": {record.reason}" if record.reason else ""
    notified = f", told {record.notified:%Y-%m-%d %H:%M:%S}Z" if record.notified else ""
    return printable(f"{record.state:<9}  {time:<20}  {record.url}  {record.detail}{reason}{notified}")
