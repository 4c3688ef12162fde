"""Stuck pages, which were fetched or tried but could not be processed: table `stuck` of the metadata database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

from sqlalchemy import Select, and_, delete, func, select, tuple_, update

from webcrawl.alarms.tables import ALARMS, stuck
from webcrawl.documents.values import clean
from webcrawl.errors import StoreError, StoreUnavailable
from webcrawl.stores.columns import pages as page_rows
from webcrawl.stores.database import insert_into, is_read_only
from webcrawl.stores.schema import SchemaTables
from webcrawl.stores.selection import begins_with

Kind = Literal["SCHEMA", "DOCUMENT", "DEAD_LETTER"]
KINDS: tuple[Kind, ...] = ("SCHEMA", "DOCUMENT", "DEAD_LETTER")


@dataclass(frozen=True, slots=True)
class StuckPage:
    """A page of a crawl that is stuck. Times are UTC.

    kind       SCHEMA: an item schema refused an item of the page. DOCUMENT: no reader could read it.
               DEAD_LETTER: its fetch failed for good.
    created    when the page got stuck first; `updated`: when it got stuck last
    notified   when a notification about the page was put into the outbox; None without a notification
    queued_at  when the crawl first queued the page; None if it is unknown
    """

    crawl: str
    url: str
    kind: Kind
    reason: str
    created: datetime
    updated: datetime
    notified: datetime | None = None
    queued_at: datetime | None = None


class UntoldPages(NamedTuple):
    """The number of stuck pages of a kind without a notification, and when the last of them got stuck."""

    number: int
    until: datetime


@dataclass(frozen=True, slots=True)
class RawPage:
    """The location of a page in the archive: a gzip member of a WARC file."""

    warc_file: str
    warc_offset: int
    warc_length: int


class StuckPages(SchemaTables):
    """The stuck pages in the metadata database at a URI. Methods may be called from any thread.

    Methods raise StoreError with the name of the database, or StoreUnavailable when retrying may succeed.
    """

    def __init__(self, uri: str) -> None:
        super().__init__(uri, ALARMS, read_only=is_read_only(uri))
        insert = insert_into(self.database.dialect, stuck)
        self._upsert = insert.on_conflict_do_update(
            index_elements=[stuck.c.crawl, stuck.c.url, stuck.c.kind],
            set_={
                **{name: insert.excluded[name] for name in ("reason", "updated")},
                "queued_at": func.coalesce(stuck.c.queued_at, insert.excluded.queued_at),
            },
        )

    def add(self, pages: Sequence[StuckPage]) -> None:
        """Stores pages in one transaction. A page that was stuck before gets the new reason and `updated`."""
        rows = {(page.crawl, clean(page.url), page.kind): page for page in pages}
        if rows:
            # sorted, so that two writers cannot deadlock
            values = [_values(rows[key]) for key in sorted(rows)]
            self.database.write(lambda connection: connection.execute(self._upsert, values))

    def add_accepted(self, pages: Sequence[StuckPage]) -> list[tuple[StuckPage, StoreError]]:
        """Stores pages; returns the refused pages with the errors of the database. Raises StoreUnavailable."""
        try:
            self.add(pages)
        except StoreUnavailable:
            raise
        except StoreError as error:
            if len(pages) == 1:
                return [(pages[0], error)]
            half = len(pages) // 2
            return self.add_accepted(pages[:half]) + self.add_accepted(pages[half:])
        return []

    def pages(
        self, crawl: str, after: StuckPage | None = None, limit: int = 100, prefix: str = ""
    ) -> list[StuckPage]:
        """Returns up to `limit` stuck pages of a crawl after the page `after`, sorted by URL and kind.

        `prefix`: the beginning of the URLs.
        """
        following = [] if after is None else [tuple_(stuck.c.url, stuck.c.kind) > (after.url, after.kind)]
        wanted = [stuck.c.crawl == crawl, *begins_with(stuck.c.url, prefix), *following]
        return self._read(select(stuck).where(*wanted).order_by(stuck.c.url, stuck.c.kind), limit)

    def of(self, crawl: str, urls: Sequence[str]) -> list[StuckPage]:
        """Returns the stuck pages of a crawl among up to some hundred URLs."""
        return self._read(select(stuck).where(stuck.c.crawl == crawl, stuck.c.url.in_(urls)), None)

    def count_urls(self, crawl: str) -> int:
        """Returns the number of distinct stuck URLs of a crawl."""
        query = select(func.count(stuck.c.url.distinct())).where(stuck.c.crawl == crawl)
        with self.database.reading() as connection:
            return int(connection.execute(query).scalar_one())

    def count(self, crawl: str) -> dict[Kind, int]:
        """Returns the numbers of stuck pages of a crawl by kind, without kinds that have no pages."""
        query = (
            select(stuck.c.kind, func.count().label("number"))
            .where(stuck.c.crawl == crawl)
            .group_by(stuck.c.kind)
        )
        with self.database.reading() as connection:
            return {row.kind: row.number for row in connection.execute(query)}

    def count_untold(self, crawl: str) -> dict[Kind, UntoldPages]:
        """Returns the numbers of stuck pages of a crawl without a notification, by kind."""
        figures = (func.count().label("number"), func.max(stuck.c.created).label("until"))
        query = select(stuck.c.kind, *figures).where(_untold(crawl)).group_by(stuck.c.kind)
        with self.database.reading() as connection:
            return {row.kind: UntoldPages(row.number, row.until) for row in connection.execute(query)}

    def untold(self, crawl: str, kind: Kind, limit: int = 10) -> list[StuckPage]:
        """Returns up to `limit` stuck pages of a kind without a notification."""
        return self._read(select(stuck).where(_untold(crawl), stuck.c.kind == kind), limit)

    def mark_notified(self, crawl: str, kind: Kind, now: datetime, until: datetime) -> int:
        """Marks the pages of a kind that got stuck until then as notified; returns their number.

        `until` is that of `count_untold`: pages that got stuck after they were counted have no notification yet.
        """
        which = (_untold(crawl), stuck.c.kind == kind, stuck.c.created <= until)
        statement = update(stuck).where(*which).values(notified=now)
        return self.database.write(lambda connection: connection.execute(statement).rowcount)

    def remove(self, crawl: str, kind: Kind | None = None, url: str | None = None) -> int:
        """Deletes the stuck pages of a crawl, optionally only of a kind or a URL; returns their number."""
        wanted = [stuck.c.crawl == crawl]
        wanted += [] if kind is None else [stuck.c.kind == kind]
        wanted += [] if url is None else [stuck.c.url == url]
        return self.database.write(
            lambda connection: connection.execute(delete(stuck).where(and_(*wanted))).rowcount
        )

    def raw(self, urls: Sequence[str]) -> dict[str, RawPage]:
        """Returns the archive locations of the latest responses by URL, for at most some hundred URLs."""
        columns = (page_rows.c.warc_file, page_rows.c.warc_offset, page_rows.c.warc_length)
        query = select(page_rows.c.url, *columns).where(page_rows.c.url.in_(urls), columns[0].is_not(None))
        with self.database.reading() as connection:
            return {url: RawPage(*location) for url, *location in connection.execute(query)}

    def _read(self, query: Select[Any], limit: int | None) -> list[StuckPage]:
        with self.database.reading() as connection:
            return [StuckPage(**row) for row in connection.execute(query.limit(limit)).mappings()]


def _untold(crawl: str) -> Any:
    return and_(stuck.c.crawl == crawl, stuck.c.notified.is_(None))


def _values(page: StuckPage) -> dict[str, Any]:
    return {column.name: getattr(page, column.name) for column in stuck.columns}
