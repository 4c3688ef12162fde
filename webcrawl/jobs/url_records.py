"""The records of an iteration's URLs: whether each is queued, crawled, processed or stuck, and since when.

The states come from the engine, from the vitals of workers for pages in their pipelines, and from the tables `stuck`
and `pages`. So a crawl stores no additional data for its records.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple

from webcrawl.alarms.stuck import StuckPage, StuckPages
from webcrawl.frontier.listing.engine_urls import EngineURL, EngineURLs
from webcrawl.frontier.listing.listing import Met
from webcrawl.frontier.operations import Operations
from webcrawl.frontier.url_state import URLState, url_state
from webcrawl.frontier.workers import AllVitals, WorkerRegistry
from webcrawl.jobs.records import Iteration
from webcrawl.stores.group_commit import batched
from webcrawl.stores.metadata import Metadata
from webcrawl.stores.selection import of_crawl
from webcrawl.urls.canonical import split

_AT_ONCE = 500


class RecordState(StrEnum):
    """The state of a URL of an iteration."""

    QUEUED = "QUEUED"
    """The URL is to be fetched: it waits, or a worker has leased it."""
    CRAWLED = "CRAWLED"
    """The URL was fetched, and its callback or pipelines have worked on it for some seconds."""
    PROCESSED = "PROCESSED"
    """The page has passed the pipelines; includes redirects, errors and URLs that robots.txt disallows."""
    STUCK = "STUCK"
    """A schema or a reader has refused the page, or the URL is a dead letter."""


class URLRecord(NamedTuple):
    """The record of a URL. Times are UTC.

    created   when the URL was found and queued in its iteration. If that is unknown, when it was first fetched or given
              up; None for a queued URL
    updated   when the URL got into its state or was tried last; None if that is unknown
    notified  when a notification about the URL was sent; only stuck URLs have notifications
    detail    the state in the frontier (queued, waiting, scheduled, leased), the state of the row, or the kind of a
              stuck page (SCHEMA, DOCUMENT, DEAD_LETTER)
    """

    url: str
    state: RecordState
    created: datetime | None
    updated: datetime | None
    notified: datetime | None
    detail: str
    reason: str | None

    def known(self) -> dict[str, Any]:
        """The fields that have a value, by name."""
        return {name: value for name, value in self._asdict().items() if value is not None}


@dataclass(slots=True)
class Sources:
    """The sources of the records of a crawl, which began at `begun` and has found `seen_urls` URLs.

    `reading` is None if the engine does not know the crawl; the other fields are None if no data is stored.
    """

    crawl: str
    begun: datetime
    seen_urls: int
    reading: EngineURLs | None
    stuck: StuckPages | None
    metadata: Metadata | None

    def close(self) -> None:
        """Closes the connections to the database."""
        for reader in (self.metadata, self.stuck):
            if reader is not None:
                reader.close()

    async def processing(self) -> dict[str, datetime]:
        """Returns the fetch times by URL of pages on which live workers have worked for some seconds."""
        if self.reading is None:
            return {}
        workers = WorkerRegistry(self.reading.engine, self.reading.keys, self.reading.name, 0.0)
        vitals_of_workers = await AllVitals(self.reading.engine, self.reading.keys).of(await workers.alive())
        return {
            url: datetime.fromtimestamp(fetched, UTC)
            for vitals in vitals_of_workers.values()
            for url, fetched in vitals.processing
        }

    def stuck_of(self, urls: Sequence[str]) -> dict[str, StuckPage]:
        """Returns the rows in the table of stuck pages by URL, for some hundred URLs.

        If the engine knows the crawl, dead letters in the table are left out: some may be queued again.
        """
        stuck: dict[str, StuckPage] = {}
        for page in self.stuck.of(self.crawl, urls) if self.stuck else ():
            if page.kind != "DEAD_LETTER" or self.reading is None:
                stuck.setdefault(page.url, page)
        return stuck

    def letters_of(self, urls: Sequence[str]) -> dict[str, StuckPage]:
        """Returns the dead letters in the table by URL; these have the times of notifications."""
        pages = self.stuck.of(self.crawl, urls) if self.stuck and urls else ()
        return {page.url: page for page in pages if page.kind == "DEAD_LETTER"}

    def rows_of(self, urls: Sequence[str]) -> dict[str, Mapping[str, Any]]:
        """Returns the rows in table `pages` by URL, for pages that this crawl fetched last."""
        rows = self.metadata.get_many(urls) if self.metadata and urls else {}
        return {url: row for url, row in rows.items() if row["crawl"] == self.crawl}


@dataclass(slots=True)
class URLRecords:
    """Reads all records of a crawl in batches. `dropped` counts URLs without a record that an operator has dropped."""

    sources: Sources
    dropped: int = 0
    counts: Counter[RecordState] = field(default_factory=Counter)
    _met: Met | None = field(default=None, init=False)

    async def batches(self) -> AsyncIterator[list[URLRecord]]:
        """Yields a record for each URL, in the state that was read first; rows are read last.

        Raises the exceptions of EngineURLs.read, StuckPages.pages and Metadata.scan.
        """
        async for batch in self._all():
            self.counts.update(record.state for record in batch)
            yield batch

    async def _all(self) -> AsyncIterator[list[URLRecord]]:
        with tempfile.TemporaryFile() as file:
            if reading := self.sources.reading:
                self._met = Met(reading.keys, file)
                processing = await self.sources.processing()
                for shard in range(reading.keys.shards):
                    with tempfile.TemporaryFile() as own:
                        urls = await reading.read(shard, own)
                        for batch in urls.batches():
                            for start in range(0, len(batch), _AT_ONCE):
                                yield self.in_engine(batch[start : start + _AT_ONCE], processing)
                    self._met.add(shard, urls.digests())
            for some in self._stuck():
                yield some
            for some in self._stored():
                yield some

    def in_engine(self, urls: Sequence[EngineURL], processing: Mapping[str, datetime]) -> list[URLRecord]:
        """Returns the records of URLs in the engine; blocks to read the tables."""
        sources = self.sources
        self.dropped += sum(url.state == "dropped" for url in urls)
        stuck = sources.stuck_of([url.url for url in urls])
        letters = sources.letters_of([url.url for url in urls if url.state == "dead"])
        # an entry with a date for its recrawl has no time of its queueing
        rows = sources.rows_of([url.url for url in urls if url.state == "scheduled" or url.queued is None])
        records = []
        for url in urls:
            if url.state == "dead":
                records.append(_of_letter(url, letters.get(url.url)))
            elif page := stuck.get(url.url):
                records.append(record_of_stuck(page))
            elif url.state == "scheduled" and url.url in rows:
                records.append(record_of_row(rows[url.url], sources.begun, "scheduled"))
            elif url.state != "dropped":
                created = _time(url.queued) or _created(rows.get(url.url), sources.begun)
                records.append(_open(url.url, url.state, processing, created))
        return records

    def _stuck(self) -> Iterator[list[URLRecord]]:
        """Yields the records of URLs that are stuck according to the table only."""
        if self.sources.stuck is None:
            return
        after, last = None, ""
        while pages := self.sources.stuck.pages(self.sources.crawl, after, _AT_ONCE):
            records = []
            for page in pages:
                # a page may be stuck for two reasons
                letter = page.kind == "DEAD_LETTER" and self.sources.reading is not None
                if not letter and page.url != last and not self._is_met(page.url):
                    records.append(record_of_stuck(page))
                    last = page.url
            yield records
            after = pages[-1]

    def _stored(self) -> Iterator[list[URLRecord]]:
        if self.sources.metadata is None:
            return
        rows = self.sources.metadata.scan(where=[of_crawl(self.sources.crawl)])
        for batch in batched(rows, _AT_ONCE):
            stuck = self.sources.stuck_of([row["url"] for row in batch])
            yield [
                record_of_row(row, self.sources.begun)
                for row in batch
                if row["url"] not in stuck and not self._is_met(row["url"])
            ]

    def _is_met(self, url: str) -> bool:
        return self._met is not None and url in self._met


async def record_of(sources: Sources, url: str) -> tuple[URLRecord | None, bool]:
    """Returns the record of a URL, and whether all sources were read: only a part of a long queue is read."""
    host, path = split(url)
    reading, state = sources.reading, URLState(None)
    if reading is not None:
        # a row is written before its URL leaves the engine, so rows are read after the engine
        state = await url_state(Operations(reading.engine, reading.keys), host, path)
    if state.state == "dead":
        letter = EngineURL(url, "dead", time=_ms(state.time), reason=state.reason, queued=_ms(state.queued))
        return _of_letter(letter, sources.letters_of([url]).get(url)), True
    if page := sources.stuck_of([url]).get(url):
        return record_of_stuck(page), True
    row = sources.rows_of([url]).get(url)
    if row and state.state in (None, "scheduled"):
        return record_of_row(row, sources.begun, state.state), True
    if state.state in (None, "dropped"):
        return None, state.complete
    created = _time(_ms(state.queued)) or _created(row, sources.begun)
    return _open(url, state.state, await sources.processing(), created), True


def _ms(time: float | None) -> int | None:
    return None if time is None else round(time * 1000)


def _time(ms: int | None) -> datetime | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)


def _open(url: str, state: str, processing: Mapping[str, datetime], created: datetime | None) -> URLRecord:
    """Returns the record of a URL that is to be fetched or is being processed."""
    if state == "leased" and (fetched := processing.get(url)):
        return URLRecord(url, RecordState.CRAWLED, created or fetched, fetched, None, state, None)
    return URLRecord(url, RecordState.QUEUED, created, None, None, state, None)


def _of_letter(letter: EngineURL, known: StuckPage | None) -> URLRecord:
    """Returns the record of a dead letter in the engine. `known`: its row in the table of stuck pages."""
    then, queued = _time(letter.time), _time(letter.queued)
    given_up, notified = (known.created, known.notified) if known else (then, None)
    return URLRecord(
        letter.url,
        RecordState.STUCK,
        queued or given_up,
        then or given_up,
        notified,
        "DEAD_LETTER",
        letter.reason,
    )


def record_of_stuck(page: StuckPage) -> URLRecord:
    """Returns the record of a page in the table."""
    created = page.queued_at or page.created
    return URLRecord(
        page.url, RecordState.STUCK, created, page.updated, page.notified, page.kind, page.reason
    )


def record_of_row(row: Mapping[str, Any], begun: datetime, detail: str | None = None) -> URLRecord:
    updated, created = row["tried_at"] or row["fetched_at"], _created(row, begun)
    detail = detail or row["state"] or "fetched"
    return URLRecord(row["url"], RecordState.PROCESSED, created, updated, None, detail, row["error"])


def _created(row: Mapping[str, Any] | None, begun: datetime) -> datetime | None:
    """Returns when a page was queued in its iteration or, if its row lacks this time, when it was first fetched.

    Iterations may share a database: a fetch before the iteration belongs to another iteration.
    """
    if row is None:
        return None
    times: tuple[datetime, ...] = (
        row["first_fetched_at"],
        row["fetched_at"],
        row["tried_at"] or row["fetched_at"],
    )
    return row["queued_at"] or next((time for time in times if time >= begun), None)


def why_no_records(iteration: Iteration) -> str | None:
    """Returns why an iteration has no records: it has not begun, or they were deleted; None if it may have records."""
    name = f"iteration {iteration.number} of job {iteration.job!r}"
    if iteration.started is None:
        return f"{name} has no records: it is {iteration.state}, and has not begun"
    if iteration.deleted is not None:
        return f"the records of {name} were deleted at {iteration.deleted:%Y-%m-%d %H:%M} UTC"
    return None
