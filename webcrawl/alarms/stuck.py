"""Pages that were fetched or tried and could not be processed, in table `stuck` of the metadata database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

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
    created    when it got stuck; `updated` is the last time that this happened
    notified   when a notification about it was put into the outbox; None if there was none
    queued_at  when its crawl had queued it first; None if that is not known
    """

    crawl: str
    url: str
    kind: Kind
    reason: str
    created: datetime
    updated: datetime
    notified: datetime | None = None
    queued_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class RawPage:
    """Where the archive has a page: a gzip member of a WARC file."""

    warc_file: str
    warc_offset: int
    warc_length: int


class StuckPages(SchemaTables):
    """The stuck pages in the metadata database at a URI. Methods may be called from any thread.

    They raise StoreError with the name of the database, StoreUnavailable when retrying may succeed.
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
        """Stores pages in one transaction. A page that is stuck already gets the new reason and `updated`."""
        rows = {(page.crawl, clean(page.url), page.kind): page for page in pages}
        if rows:
            # sorted, so that two writers cannot deadlock
            values = [_values(rows[key]) for key in sorted(rows)]
            self.database.write(lambda connection: connection.execute(self._upsert, values))

    def add_accepted(self, pages: Sequence[StuckPage]) -> list[tuple[StuckPage, StoreError]]:
        """Stores pages; returns the pages that the database refuses, with its errors. Raises StoreUnavailable."""
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

        `prefix`: only pages whose URL begins with it.
        """
        following = [] if after is None else [tuple_(stuck.c.url, stuck.c.kind) > (after.url, after.kind)]
        wanted = [stuck.c.crawl == crawl, *begins_with(stuck.c.url, prefix), *following]
        return self._read(select(stuck).where(*wanted).order_by(stuck.c.url, stuck.c.kind), limit)

    def of(self, crawl: str, urls: Sequence[str]) -> list[StuckPage]:
        """Returns the stuck pages of a crawl among some hundred URLs."""
        return self._read(select(stuck).where(stuck.c.crawl == crawl, stuck.c.url.in_(urls)), None)

    def count_urls(self, crawl: str) -> int:
        """Returns how many URLs of a crawl are stuck, each once, for whatever reasons."""
        query = select(func.count(stuck.c.url.distinct())).where(stuck.c.crawl == crawl)
        with self.database.reading() as connection:
            return int(connection.execute(query).scalar_one())

    def count(self, crawl: str) -> dict[Kind, int]:
        """Returns kind -> stuck pages of a crawl; kinds without any are left out."""
        query = (
            select(stuck.c.kind, func.count().label("number"))
            .where(stuck.c.crawl == crawl)
            .group_by(stuck.c.kind)
        )
        with self.database.reading() as connection:
            return {row.kind: row.number for row in connection.execute(query)}

    def count_untold(self, crawl: str) -> dict[Kind, int]:
        """Returns kind -> stuck pages of a crawl that no notification was about."""
        query = (
            select(stuck.c.kind, func.count().label("number")).where(_untold(crawl)).group_by(stuck.c.kind)
        )
        with self.database.reading() as connection:
            return {row.kind: row.number for row in connection.execute(query)}

    def untold(self, crawl: str, kind: Kind, limit: int = 10) -> list[StuckPage]:
        """Returns some stuck pages of a kind that no notification was about."""
        return self._read(select(stuck).where(_untold(crawl), stuck.c.kind == kind), limit)

    def mark_notified(self, crawl: str, kind: Kind, now: datetime, until: datetime | None = None) -> int:
        """Records that a notification was about the pages of a kind; returns how many pages.

        With `until`, only pages that got stuck by then.
        """
        created = [] if until is None else [stuck.c.created <= until]
        statement = update(stuck).where(_untold(crawl), stuck.c.kind == kind, *created).values(notified=now)
        return self.database.write(lambda connection: connection.execute(statement).rowcount)

    def remove(self, crawl: str, kind: Kind | None = None, url: str | None = None) -> int:
        """Forgets stuck pages of a crawl, optionally only of a kind or a URL; returns how many."""
        wanted = [stuck.c.crawl == crawl]
        wanted += [] if kind is None else [stuck.c.kind == kind]
        wanted += [] if url is None else [stuck.c.url == url]
        return self.database.write(
            lambda connection: connection.execute(delete(stuck).where(and_(*wanted))).rowcount
        )

    def raw(self, urls: Sequence[str]) -> dict[str, RawPage]:
        """Returns URL -> where the archive has its latest response, for at most some hundred URLs."""
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
