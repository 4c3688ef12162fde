"""The pages of a crawl that are due to be fetched again: the plan of a recrawl, in table `pages`."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, case, func, or_, select, text, true
from sqlalchemy.sql import bindparam

from webcrawl.errors import InvalidURL
from webcrawl.policies.change_signals import Announcements, page_signals
from webcrawl.policies.recrawl_weights import number_of
from webcrawl.policies.revisit_dates import KnownPage, RevisitDates, days_after, is_explored
from webcrawl.policies.traffic import COVERAGE_CHK, FRESHNESS_CHK, LIST_TYPES, UPDATE_CHK
from webcrawl.stores.chosen_columns import chosen_value
from webcrawl.stores.columns import FETCHED, host_signals, in_utc, pages
from webcrawl.stores.database import DatabaseTables
from webcrawl.stores.history import NOT_ALIVE, first_plan, is_alive
from webcrawl.stores.selection import of_host, with_urls
from webcrawl.urls.canonical import split

HELD = timedelta(minutes=10)
"""A claimed page is offered again after this time, unless it was fetched."""
_LEAST_OF_HUB = 3
"""A page that has given fewer new links is no hub: they may be chance."""
_LEAST_A_DAY = 1.0
"""Fewer new links a day, as pages like it give them, do not make a hub of a page either."""
_IS_EXPECTED = and_(pages.c.link_rate >= _LEAST_A_DAY, pages.c.link_rate > pages.c.change_rate)
_NEXT_CLASS = case(
    (or_(pages.c.soft_404.is_(true()), pages.c.state.in_(NOT_ALIVE)), COVERAGE_CHK),
    (or_(pages.c.mime_type.in_(LIST_TYPES), pages.c.new_links >= _LEAST_OF_HUB, _IS_EXPECTED), FRESHNESS_CHK),
    else_=UPDATE_CHK,
).label("fetch_class")
"""What the next fetch of a page is for, as class_of_visit has it; hubs are checked for freshness, too."""
_COLUMNS = (
    *(pages.c.url, pages.c.depth, pages.c.referrer, pages.c.importance, pages.c.change_rate),
    *(pages.c.tried_at, pages.c.next_due, pages.c.recrawl_request, pages.c.change_evidence),
    *(
        pages.c.state,
        pages.c.soft_404,
        _NEXT_CLASS,
        pages.c.link_rate,
        pages.c.is_date_set,
        pages.c.signals,
    ),
    select(host_signals.c.counts).where(host_signals.c.host == pages.c.host).scalar_subquery(),
)
_MOST_COUNTED = 100_000
_SAMPLE_PARTS = 5
_LARGE_TABLE = 1_000_000
"""Counting the plan of a larger table in PostgreSQL takes seconds; it is estimated from some of its blocks."""
_READ_FOR_SAMPLE = 20
"""Rows that are read for each row of the sample, as other crawls may share the table."""
_ESTIMATED_ROWS = text(
    "SELECT sum(reltuples) FROM pg_class WHERE relkind = 'r' AND (oid = CAST('pages' AS regclass) "
    "OR oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = CAST('pages' AS regclass)))"
)
"""The rows that the last ANALYZE or VACUUM has counted; below 0 if there was none."""
_SET_AT_ONCE = 500
_MOST_AHEAD = timedelta(minutes=1)
"""The clocks of workers differ by less."""


class DuePage(NamedTuple):
    """A page that is due; `change_rate` and `link_rate` in changes and new links a day, times in UTC."""

    url: str
    depth: int
    referrer: str | None
    importance: float | None
    change_rate: float | None
    tried_at: datetime
    next_due: datetime
    recrawl_request: str | None
    change_evidence: list[float | str] | None
    state: str | None
    soft_404: bool | None
    fetch_class: str
    """What its next fetch is for."""
    link_rate: float | None
    is_date_set: bool | None
    """Whether a spider or an operator has set `next_due`, which the threshold does not move then."""
    signals: Mapping[str, Sequence[Any]] | None
    host_signals: Mapping[str, Sequence[float]] | None
    weight: object
    """What an operator has stored as its weight, if anything."""

    @property
    def is_alive(self) -> bool:
        """Whether the latest attempt found the page."""
        return is_alive(self.state, is_soft_404=bool(self.soft_404))

    @property
    def is_explored(self) -> bool:
        """Whether its next visit is to teach whether pages like it give new links."""
        return is_explored(self.change_evidence)

    @property
    def known(self) -> KnownPage | None:
        """What is known of the page; None if its URL cannot be queued."""
        with suppress(InvalidURL):
            signals = page_signals(self.signals, self.host_signals)
            weight = number_of(self.weight)
            return KnownPage(*split(self.url), self.importance, self.change_evidence, weight, signals)
        return None


class LatePages(NamedTuple):
    """How many pages are due and not queued yet, at most _MOST_COUNTED, and since when the first of them."""

    pages: int
    since: datetime | None


class DuePages(DatabaseTables):
    """The plan of a crawl in the database at a URI. Methods raise StoreError, and may run in any thread.

    `weights`: the column with weights of pages, or "details.KEY", if any.
    """

    def __init__(self, uri: str, crawl: str, weights: str = "") -> None:
        super().__init__(uri)
        self._weight = chosen_value(weights, self.database.dialect).label("weight")
        self._columns = (*_COLUMNS, self._weight)
        self._crawl = crawl
        self._of_crawl = pages.c.crawl == crawl
        self._planned = (self._of_crawl, pages.c.next_due.is_not(None))

    def claim(
        self,
        now: datetime,
        until: datetime,
        most: int,
        wanted: Callable[[DuePage], bool] = lambda _: True,
        *,
        after: datetime | None = None,
        fetch_class: str = "",
        tried_before: datetime | None = None,
    ) -> list[DuePage]:
        """Returns pages that are due until a time and `wanted`, by their times, and puts them off by `HELD`.

        Looks at the first `most` pages, of those that are due after a time, of a class, and last visited before a time
        if these are given. A claim that is lost with its process is repeated after `HELD`.
        """
        which = [*self._planned, pages.c.next_due <= until]
        if after is not None:
            which.append(pages.c.next_due > after)
        if tried_before is not None:
            which.append(pages.c.tried_at < tried_before)
        if fetch_class:
            which.append(_NEXT_CLASS.element == fetch_class)
        query = (
            select(*self._columns)
            .where(*which)
            .order_by(pages.c.next_due)
            .limit(most)
            .with_for_update(skip_locked=True)
        )

        def work(connection: Connection) -> list[DuePage]:
            due_pages = [page for row in connection.execute(query) if wanted(page := DuePage._make(row))]
            _set(connection, [(page, max(now, page.next_due) + HELD) for page in due_pages])
            return due_pages

        return self.database.write(work)

    def end_of(self, number: int, after: datetime | None, until: datetime) -> datetime:
        """Returns the time until which so many pages are due after a time, at the latest `until`."""
        query = select(pages.c.next_due).where(*self._planned, pages.c.next_due <= until)
        if after is not None:
            query = query.where(pages.c.next_due > after)
        with self.database.reading(at_leisure=False) as connection:
            query = query.order_by(pages.c.next_due).offset(number).limit(1)
            return connection.execute(query).scalar() or until

    def correct_visits(self, now: datetime, most: int) -> int:
        """Counts visits as of now that lie in the future, since a clock was set back; returns their number.

        Their pages are due after the same intervals. Without this, they would not be due for the length of the jump.
        Dates that were set stay.
        """
        visited = (self._of_crawl, FETCHED, pages.c.tried_at > now + _MOST_AHEAD)
        moved = (pages.c.next_due.is_not(None), pages.c.is_date_set.is_not(true()))
        query = select(pages.c.url, pages.c.tried_at, pages.c.next_due).where(*visited, *moved)
        query = query.order_by(pages.c.tried_at).limit(most).with_for_update(skip_locked=True)

        def work(connection: Connection) -> int:
            rows = [
                {"key": url, "now": now, "due": now + (due - tried)}
                for url, tried, due in connection.execute(query)
            ]
            if rows:
                connection.execute(_CORRECT, rows)
            return len(rows)

        return self.database.write(work)

    def put_off(self, dates: Sequence[tuple[DuePage, datetime | None]]) -> None:
        """Sets when claimed pages are due, None for never.

        Leaves out pages that were visited since the claim, or whose date was set.
        """
        if dates:
            self.database.write(lambda connection: _set(connection, dates))

    def set_dates(self, dates: Mapping[str, datetime | None]) -> set[str]:
        """Sets when pages are due, by URL, None for never, as a spider or an operator wants it.

        Returns the URLs that have a row.
        """
        known: set[str] = set()
        urls = sorted(dates)
        for first in range(0, len(urls), _SET_AT_ONCE):
            work = partial(self._set_dates, urls=urls[first : first + _SET_AT_ONCE], dates=dates)
            known |= self.database.write(work)
        return known

    def _set_dates(
        self, connection: Connection, urls: Sequence[str], dates: Mapping[str, datetime | None]
    ) -> set[str]:
        wanted = (
            select(pages.c.url)
            .where(self._of_crawl, with_urls(urls, self.database.dialect))
            .order_by(pages.c.url)
        )
        known = connection.execute(wanted.with_for_update()).scalars().all()
        if known:
            connection.execute(_SET_DATE, [{"key": url, "due": dates[url]} for url in known])
        return set(known)

    def announce(
        self, dates: RevisitDates, kind: str, source: str, changes: Mapping[str, datetime], now: datetime
    ) -> int:
        """Notes that a page, `source`, tells by a kind of signal when others have changed, by URL.

        Those of them that were visited before are due as soon as the signal is worth; returns their number.
        """
        announced, urls = 0, sorted(changes)
        for first in range(0, len(urls), _SET_AT_ONCE):
            some = urls[first : first + _SET_AT_ONCE]

            def work(connection: Connection, some: Sequence[str] = some) -> int:
                query = select(*self._columns).where(self._of_crawl, with_urls(some, self.database.dialect))
                rows = connection.execute(query.order_by(pages.c.url).with_for_update())
                heard = [
                    columns
                    for row in rows
                    if (
                        columns := _announced(
                            page := DuePage._make(row), dates, kind, source, changes[page.url], now
                        )
                    )
                ]
                if heard:
                    connection.execute(_ANNOUNCE, heard)
                return sum(columns["is_announced"] for columns in heard)

            announced += self.database.write(work)
        return announced

    def credit(self, sources: Mapping[str, int]) -> None:
        """Counts true announcements of changes as new links of the pages that gave them, by URL."""
        rows = [{"key": url, "number": sources[url]} for url in sorted(sources)]
        if rows:
            self.database.write(lambda connection: connection.execute(_CREDIT, rows))

    def late(self, now: datetime) -> LatePages:
        """Counts the pages that are due."""
        rows = select(pages.c.next_due).where(*self._planned, pages.c.next_due <= now).limit(_MOST_COUNTED)
        counted = rows.subquery()
        with self.database.reading(at_leisure=False) as connection:
            number, first = connection.execute(
                select(func.count(), func.min(counted.c.next_due)).select_from(counted)
            ).one()
        return LatePages(number, None if first is None else in_utc(_time(first)))

    def sample(self, most: int, host: str | None = None) -> tuple[list[DuePage], int]:
        """Returns about `most` planned pages of a host or of the crawl, evenly chosen, and about how many there are."""
        if host is not None:
            return self._sample_of_host(most, of_host(host))
        return self._sample_of_blocks(most) or self._sample(most)

    def _sample_of_blocks(self, most: int) -> tuple[list[DuePage], int] | None:
        """Returns a sample of a large table in PostgreSQL; None if the crawl has little of it, or it is not large."""
        if self.database.dialect.name != "postgresql":
            return None
        with self.database.reading(at_leisure=False) as connection:
            rows = int(connection.execute(_ESTIMATED_ROWS).scalar() or 0)
            if rows < _LARGE_TABLE:
                return None
            part = pages.tablesample(func.system(min(100.0, 100.0 * _READ_FOR_SAMPLE * most / rows)))
            is_planned = and_(part.c.crawl == self._crawl, part.c.next_due.is_not(None))
            read = connection.execute(select(part.c.url, is_planned)).all()
            urls = [url for url, planned in read if planned]
            if len(urls) < most // 4:
                return None
            chosen = random.sample(urls, min(most, len(urls)))
            return self._pages(connection, with_urls(chosen, self.database.dialect)), rows * len(urls) // len(
                read
            )

    def _sample(self, most: int) -> tuple[list[DuePage], int]:
        query = select(*self._columns).where(*self._planned).order_by(pages.c.next_due)
        with self.database.reading(at_leisure=False) as connection:
            number = _count(connection, *self._planned)
            parts = 1 if number <= most else _SAMPLE_PARTS
            rows = [
                row
                for part in range(parts)
                for row in connection.execute(query.limit(most // parts).offset(part * number // parts))
            ]
        return [DuePage._make(row) for row in rows], number

    def _sample_of_host(self, most: int, host: ColumnElement[bool]) -> tuple[list[DuePage], int]:
        numbered = select(pages.c.url, func.row_number().over(order_by=pages.c.url).label("number"))
        urls = numbered.where(host).subquery()
        with self.database.reading(at_leisure=False) as connection:
            number = _count(connection, host)
            step = max(1, -(-number // most))
            chosen = connection.execute(select(urls.c.url).where(urls.c.number % step == 0)).scalars().all()
            planned = self._pages(connection, with_urls(chosen, self.database.dialect))
        return planned, number * len(planned) // max(1, len(chosen))

    def look(self, after: str, most: int) -> tuple[list[DuePage], str | None]:
        """Returns the planned pages among the first `most` URLs after a URL, by URL.

        Also returns the last of these URLs, or None at the end.
        """
        query = select(pages.c.url).where(pages.c.url > after).order_by(pages.c.url).limit(most)
        with self.database.reading(at_leisure=False) as connection:
            urls = connection.execute(query).scalars().all()
            planned = self._pages(connection, with_urls(urls, self.database.dialect)) if urls else []
        return planned, urls[-1] if len(urls) == most else None

    def _pages(self, connection: Connection, which: ColumnElement[bool]) -> list[DuePage]:
        """Returns the planned pages among the rows with these URLs.

        A condition on the date would let SQLite read the whole plan instead, through the index of dates.
        """
        rows = connection.execute(select(*self._columns).where(self._of_crawl, which).order_by(pages.c.url))
        return [page for row in rows if (page := DuePage._make(row)).next_due is not None]

    def adopt(self, dates: RevisitDates, after: str, most: int) -> str | None:
        """Plans pages that were fetched without RECRAWL, among the first `most` URLs after a URL.

        Returns the last URL, or None at the end.
        """
        query = select(pages, self._weight).where(self._of_crawl, pages.c.url > after)
        query = query.order_by(pages.c.url).limit(most)

        def work(connection: Connection) -> str | None:
            rows = connection.execute(query).mappings().all()
            planned = [
                {name: plan[column] for name, column in _ADOPTED.items()} | {"key": row["url"]}
                for row in rows
                if row["change_evidence"] is None
                and not row["is_date_set"]
                and (plan := first_plan(dict(row), dates))
            ]
            if planned:
                connection.execute(_ADOPT, planned)
            return rows[-1]["url"] if len(rows) == most else None

        return self.database.write(work)


def _count(connection: Connection, *which: ColumnElement[bool]) -> int:
    return connection.execute(select(func.count()).select_from(pages).where(*which)).scalar_one()


def _set(connection: Connection, dates: Sequence[tuple[DuePage, datetime | None]]) -> None:
    rows = [
        {"key": page.url, "tried": page.tried_at, "was_set": page.is_date_set, "due": due}
        for page, due in sorted(dates, key=_url_of)
    ]
    if rows:
        connection.execute(_PUT_OFF, rows)


def _announced(
    page: DuePage, dates: RevisitDates, kind: str, source: str, changed: datetime, now: datetime
) -> dict[str, Any] | None:
    """Returns the new columns of a page whose change is announced; None if nothing is new."""
    signals = dict(page.signals or {})
    before = Announcements(*signals.get(kind, ()))
    after = before.heard(changed.timestamp(), in_utc(page.tried_at).timestamp(), now.timestamp(), source)
    if kind in signals and after == before:
        return None
    due, is_announced = page.next_due, after.times > before.times
    page = page._replace(signals=signals | {kind: [*after]})
    if is_announced and due is not None and not page.is_date_set and (known := page.known):
        due = min(due, days_after(page.tried_at, dates.next_days(known)))
    return {"key": page.url, "due": due, "signals": page.signals, "is_announced": is_announced}


def _url_of(date: tuple[DuePage, datetime | None]) -> str:
    return date[0].url


_UPDATE = pages.update().where(pages.c.url == bindparam("key", type_=pages.c.url.type))
_PUT_OFF = _UPDATE.where(
    pages.c.tried_at == bindparam("tried", type_=pages.c.tried_at.type),
    pages.c.is_date_set.is_not_distinct_from(bindparam("was_set", type_=pages.c.is_date_set.type)),
).values(next_due=bindparam("due"))
_CORRECT = _UPDATE.values(tried_at=bindparam("now"), next_due=bindparam("due"))
_SET_DATE = _UPDATE.values(next_due=bindparam("due"), is_date_set=true())

_ANNOUNCE = _UPDATE.values(next_due=bindparam("due"), signals=bindparam("signals"))
_CREDIT = _UPDATE.values(new_links=func.coalesce(pages.c.new_links, 0) + bindparam("number"))

_ADOPTED = {"due": "next_due", "rate": "change_rate", "evidence": "change_evidence"}
_ADOPT = _UPDATE.values({column: bindparam(name) for name, column in _ADOPTED.items()})


def _time(value: Any) -> datetime:
    return datetime.fromisoformat(value) if isinstance(value, str) else value
