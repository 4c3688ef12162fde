"""Reads the records of an iteration page by page, for the dashboard, with bounded work for each page.

Stuck URLs come first, then URLs in the engine, then rows of pages, each section in its own order. Records may change
meanwhile, so a URL that moves may be missing or come twice; `scrapy jobs records` reads each URL once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from webcrawl.alarms.stuck import StuckPage
from webcrawl.errors import StoreError
from webcrawl.frontier.listing.open_urls import OpenURLs
from webcrawl.jobs.url_records import (
    RecordState,
    Sources,
    URLRecord,
    URLRecords,
    record_of_row,
    record_of_stuck,
)
from webcrawl.stores.chosen_columns import ChosenColumns

SHOWN = 100
"""The number of records of a page; a page may have more if the engine stores them together."""
_READ_TOGETHER, _MOST_READ = 1_000, 10_000
"""Rows that are read at a time, and for a page: in a shared database, most may belong to other iterations."""
_COLUMNS = ("crawl", "state", "error", "fetched_at", "first_fetched_at", "tried_at", "queued_at")
_SECTIONS = ("stuck", "engine", "rows")
_OF_STATE = {
    RecordState.STUCK: ("stuck",),
    RecordState.CRAWLED: ("engine",),
    RecordState.QUEUED: ("engine",),
    RecordState.PROCESSED: ("rows",),
}


@dataclass(slots=True)
class RecordPage:
    """The records of a page. `after`: the position of the next page; empty after the last page.

    `stored`: the number of URLs in the files of long queues of this page's hosts, which are not among the records.
    """

    records: list[URLRecord] = field(default_factory=list)
    after: str = ""
    stored: int = 0


@dataclass(slots=True)
class RecordPages:
    """Reads the records of one or all states whose URL begins with a prefix. `rows`: opens the rows of pages."""

    sources: Sources
    rows: Callable[[], ChosenColumns]
    state: RecordState | None = None
    prefix: str = ""

    async def page(self, after: str = "") -> RecordPage:
        """Returns the records after a position; raises StoreError for an invalid position."""
        sections = _OF_STATE[self.state] if self.state else _SECTIONS
        section, _, position = (after or f"{sections[0]}:").partition(":")
        if section not in sections:
            raise StoreError(f"{after!r} is no position in these records: begin at their first page")
        page, left = RecordPage(), sections[sections.index(section) :]
        for name, following in zip(left, [*left[1:], ""], strict=True):
            behind = await self._read(name, position, page)
            if behind or (page.records and following):
                page.after = f"{name}:{behind}" if behind else f"{following}:"
                return page
            position = ""
        return page

    async def _read(self, section: str, position: str, page: RecordPage) -> str:
        """Adds the records of a section after a position; returns the next position, "" at the end of the section."""
        if section == "engine":
            return await self._engine(position, page)
        read = self._stuck if section == "stuck" else self._rows
        records, after = await asyncio.to_thread(read, position)
        page.records += records
        return after

    async def _engine(self, position: str, page: RecordPage) -> str:
        if (reading := self.sources.reading) is None:
            return ""
        leased = self.state == RecordState.CRAWLED
        urls = OpenURLs(reading.engine, reading.keys, self.prefix, *([("leased",)] if leased else []))
        window = await urls.window(position, SHOWN)
        processing = await self.sources.processing()
        records = await asyncio.to_thread(URLRecords(self.sources).in_engine, window.urls, processing)
        wanted = (self.state,) if self.state else (RecordState.QUEUED, RecordState.CRAWLED)
        # URLs in other states are in the tables
        page.records += [record for record in records if record.state in wanted]
        page.stored = window.stored
        return window.after

    def _stuck(self, position: str) -> tuple[list[URLRecord], str]:
        if (stuck := self.sources.stuck) is None:
            return [], ""
        url, _, kind = position.partition(" ")
        begun = self.sources.begun
        after = StuckPage(self.sources.crawl, url, kind, "", begun, begun) if position else None  # type: ignore[arg-type]
        pages = stuck.pages(self.sources.crawl, after, SHOWN, self.prefix)
        records = [
            record_of_stuck(page)
            for page, before in zip(pages, [url, *(page.url for page in pages)], strict=False)
            # a page may be stuck for two reasons
            if page.url != before
        ]
        return records, f"{pages[-1].url} {pages[-1].kind}" if len(pages) == SHOWN else ""

    def _rows(self, position: str) -> tuple[list[URLRecord], str]:
        if self.sources.metadata is None:
            return [], ""
        rows, records = self.rows(), list[URLRecord]()
        try:
            for _ in range(0, _MOST_READ, _READ_TOGETHER):
                window = rows.window(_COLUMNS, position, self.prefix, _READ_TOGETHER)
                for record in self._of_rows(window):
                    records.append(record)
                    if len(records) == SHOWN:
                        return records, record.url
                if len(window) < _READ_TOGETHER:
                    return records, ""
                position = window[-1]["url"]
        finally:
            rows.close()
        return records, position

    def _of_rows(self, rows: Sequence[dict[str, object]]) -> list[URLRecord]:
        own = [row for row in rows if row["crawl"] == self.sources.crawl]
        stuck = set[str]()
        for start in range(0, len(own), 500):
            stuck |= self.sources.stuck_of([str(row["url"]) for row in own[start : start + 500]]).keys()
        return [record_of_row(row, self.sources.begun) for row in own if row["url"] not in stuck]
