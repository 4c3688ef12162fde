"""Lists the stored pages of a crawl by a filter, in an order, with bounded work: also of hundreds of millions of rows.

Rows are read along a path: an index of table `pages`, or its primary key. A window has at most 20,000 rows of a path,
of which those are left out that do not match. If a window has all rows that can match, its rows are in the wanted
order over the whole crawl; so they are if the path has this order. Otherwise they are sorted among themselves.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Select,
    func,
    inspect,
    literal,
    literal_column,
    select,
    tuple_,
)

from webcrawl.errors import ConfigurationError, StoreError
from webcrawl.stores.columns import (
    ABOVE_THE_MEAN,
    FETCHED,
    WITH_DUPLICATE,
    WITH_UNUSUAL_STATUS,
    WITH_UNUSUAL_TYPE,
    pages,
)
from webcrawl.stores.metadata import Metadata
from webcrawl.stores.page_filter import PageFilter
from webcrawl.stores.selection import of_crawl, of_host

MOST_READ = 20_000
"""The most rows of a window."""
PAGE_ROWS = 100

LISTED = (
    *("url", "status", "mime_type", "language", "title", "depth", "importance", "length", "latency"),
    *("tried_at", "fetched_at", "duplicate_of", "duplicate_kind", "error", "soft_404", "crawl"),
)
"""The columns of a listed row. `tried_at` is the date by which rows are sorted and filtered."""

ORDERS: Mapping[str, tuple[Column[Any], bool]] = {
    "date": (pages.c.tried_at, True),
    "url": (pages.c.url, False),
    "status": (pages.c.status, False),
    "type": (pages.c.mime_type, False),
    "language": (pages.c.language, False),
    "depth": (pages.c.depth, False),
    "importance": (pages.c.importance, True),
    "length": (pages.c.length, True),
    "duplicates": (pages.c.duplicate_of, False),
}
"""The column of each order, and whether its largest value comes first; "-" before an order reverses it."""

_KINDS: Mapping[str, Callable[[Any], Any]] = {
    "tried_at": datetime.fromisoformat,
    "status": int,
    "importance": float,
}
"""The functions that read keys from JSON; the others are text."""
_TIMES, _BY_IMPORTANCE = "pages_by_time", "pages_by_importance"
_BY_TIME = (pages.c.tried_at, pages.c.url)


@dataclass(frozen=True, slots=True)
class PageWindow:
    """A part of a list: `rows` with the columns `LISTED`.

    `matching`: the number of matching rows in the window, None if they were not counted. `following`: the `start` of
    the next rows in this window, 0 if there are none. `after`: where the next window begins, "" at the end of the list.
    `in_order`: whether the rows are in order over the whole list. `above_the_mean`: whether the list ends where
    importance is below the mean, because the index has no other pages.
    """

    rows: list[dict[str, Any]]
    matching: int | None
    following: int
    after: str
    in_order: bool
    above_the_mean: bool = False


class _Path(NamedTuple):
    """A way through the rows with the conditions `where`, in the order of `keys`, of which the last is the URL.

    `name`: that of its index, "" for the primary key. `order`: the order of `ORDERS` in which the rows come.
    """

    name: str
    where: Sequence[ColumnElement[bool]]
    keys: tuple[Column[Any], ...]
    order: str


_BY_URL = _Path("", [], (pages.c.url,), "url")


@dataclass(frozen=True, slots=True)
class _Part:
    """The rows of a path behind the key `begin` and up to the key `end`; None stands for no limit."""

    path: _Path
    descending: bool
    begin: Sequence[Any] | None
    end: Sequence[Any] | None = None

    @property
    def where(self) -> list[ColumnElement[bool]]:
        keys = tuple_(*self.path.keys)
        conditions = [*self.path.where]
        if self.begin is not None:
            begin = self._literals(self.begin)
            conditions.append(keys < begin if self.descending else keys > begin)
        if self.end is not None:
            end = self._literals(self.end)
            conditions.append(keys >= end if self.descending else keys <= end)
        return conditions

    @property
    def order(self) -> list[ColumnElement[Any]]:
        return [key.desc() if self.descending else key.asc() for key in self.path.keys]

    def _literals(self, values: Sequence[Any]) -> Any:
        return tuple_(*(literal(value, key.type) for value, key in zip(values, self.path.keys, strict=True)))


class PageList:
    """The stored pages that match a filter, in an order of `ORDERS`.

    Without a crawl in the filter, or in a database without the indexes (docs/exports.md), rows are read in the order of
    their URLs. Raises ConfigurationError for a wrong filter or order; methods raise StoreError.
    """

    def __init__(self, metadata: Metadata, chosen: PageFilter, order: str = "date") -> None:
        name = order.removeprefix("-")
        if name not in ORDERS:
            raise ConfigurationError(f"{order!r} is no order: choose one of {', '.join(ORDERS)}")
        self._database = metadata.database
        self._chosen = chosen
        self._conditions = chosen.conditions()
        self._order = name
        self._descending = ORDERS[name][1] != order.startswith("-")

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yields all rows, window after window."""
        after, start = "", 0
        while True:
            window = self.window(after, start)
            yield from window.rows
            if not (window.following or window.after):
                return
            after, start = (after, window.following) if window.following else (window.after, 0)

    def latest(self, most: int) -> list[dict[str, Any]]:
        """Returns the rows of the crawl that were tried last; none from a database without the index of times."""
        paths = [path for path in self._wide() if path.name == _TIMES]
        with self._database.reading() as connection:
            if not paths or _TIMES not in _indexes(connection):
                return []
            part = _Part(paths[0], True, None)
            query = _listed(part, self._conditions).order_by(*part.order).limit(most)
            return [dict(row) for row in connection.execute(query).mappings()]

    def window(self, after: str = "", start: int = 0, most: int = PAGE_ROWS) -> PageWindow:
        """Returns at most `most` rows from `start` on, of the window that begins behind `after`."""
        with self._database.reading() as connection:
            path, begin, is_short = self._beginning(connection, after)
            in_order = path.order == self._order
            descending = self._descending if in_order else path.order == "date"
            part = _Part(path, descending, begin)
            if not is_short:
                part = _Part(path, descending, begin, _end(connection, part))
            if in_order and not is_short:
                return self._in_order(connection, part, most)
            return self._sorted(connection, part, start, most)

    def _in_order(self, connection: Connection, part: _Part, most: int) -> PageWindow:
        """Returns rows in the order of the path, which is read no further than needed."""
        query = _listed(part, self._conditions).order_by(*part.order).limit(most + 1)
        rows = [dict(row) for row in connection.execute(query).mappings()]
        last = [rows[most - 1][key.name] for key in part.path.keys] if len(rows) > most else part.end
        after = "" if last is None else _cursor(part.path, last)
        return PageWindow(rows[:most], None, 0, after, True, part.path.name == _BY_IMPORTANCE)

    def _sorted(self, connection: Connection, part: _Part, start: int, most: int) -> PageWindow:
        """Returns rows of the window, sorted among themselves."""
        column = ORDERS[self._order][0]
        order = (column.desc() if self._descending else column.asc()).nulls_last()
        query = _listed(part, self._conditions).order_by(order, pages.c.tried_at.desc(), pages.c.url)
        rows = connection.execute(query.offset(start).limit(most)).mappings()
        count = select(func.count()).select_from(pages).where(*part.where, *self._conditions)
        matching = int(connection.execute(count).scalar_one())
        following = start + most if start + most < matching else 0
        after = "" if part.end is None else _cursor(part.path, part.end)
        complete = part.begin is None and part.end is None
        return PageWindow([dict(row) for row in rows], matching, following, after, complete)

    def _beginning(self, connection: Connection, after: str) -> tuple[_Path, Sequence[Any] | None, bool]:
        """Returns the path, the key behind which the window begins, and whether the window has all of the path."""
        known = {"", *_indexes(connection)}
        narrow = [path for path in self._narrow() if path.name in known]
        wide = [path for path in self._wide() if path.name in known] or [_BY_URL]
        if after:
            return *_key(after, [*narrow, *wide]), False
        for path in [*narrow, wide[-1]]:
            if _is_short(connection, path):
                return path, None, True
        return [*narrow, *wide][0], None, False

    def _narrow(self) -> Iterator[_Path]:
        """Yields the paths that have only some rows of the crawl."""
        chosen = self._chosen
        if chosen.host:
            yield _Path("", [of_host(chosen.host)], (pages.c.url,), "url")
        if not chosen.crawl:
            return
        own = [of_crawl(chosen.crawl), *chosen.times()]
        if chosen.duplicates not in ("", "no"):
            yield _Path("pages_of_duplicates", [*own, WITH_DUPLICATE], _BY_TIME, "date")
        by_status, by_type = [*own, WITH_UNUSUAL_STATUS], [*own, WITH_UNUSUAL_TYPE]
        status = pages.c.status
        if chosen.is_unanswered:
            yield _Path("pages_by_status", [*by_status, status.is_(None)], _BY_TIME, "date")
        if statuses := chosen.unusual_statuses():
            is_single = statuses[0] == statuses[1]
            within = status == statuses[0] if is_single else status.between(*statuses)
            keys, order = (_BY_TIME, "date") if is_single else ((status, *_BY_TIME), "status")
            yield _Path("pages_by_status", [*by_status, within], keys, order)
        if mime_type := chosen.unusual_type():
            yield _Path("pages_by_type", [*by_type, pages.c.mime_type == mime_type], _BY_TIME, "date")

    def _wide(self) -> Iterator[_Path]:
        """Yields the paths that have all rows of the crawl: the best for this order first, by time last."""
        if not self._chosen.crawl:
            return
        own = of_crawl(self._chosen.crawl)
        if self._order == "importance" and self._descending:
            keys = pages.c.importance, pages.c.url
            yield _Path(_BY_IMPORTANCE, [own, ABOVE_THE_MEAN], keys, "importance")
        if self._order == "url":
            yield _BY_URL
        yield _Path(_TIMES, [own, FETCHED, *self._chosen.times()], _BY_TIME, "date")


def _indexes(connection: Connection) -> set[str]:
    """Returns the names of the indexes that the table has."""
    return {str(index["name"]) for index in inspect(connection).get_indexes(pages.name)}


def _listed(part: _Part, conditions: Sequence[ColumnElement[bool]]) -> Select[Any]:
    """Selects the rows of a part that match."""
    return select(*(pages.c[name] for name in LISTED)).where(*part.where, *conditions)


def _is_short(connection: Connection, path: _Path) -> bool:
    """Returns whether a window has all rows of a path."""
    rows: Select[Any] = select(literal_column("1")).select_from(pages).where(*path.where).limit(MOST_READ + 1)
    number = connection.execute(select(func.count()).select_from(rows.subquery())).scalar_one()
    return int(number) <= MOST_READ


def _end(connection: Connection, part: _Part) -> Sequence[Any] | None:
    """Returns the key of the last row of the window; None if the window reaches the end of the path."""
    last = select(*part.path.keys).where(*part.where).order_by(*part.order).offset(MOST_READ - 1).limit(1)
    row = connection.execute(last).first()
    return None if row is None else tuple(row)


def _cursor(path: _Path, key: Sequence[Any]) -> str:
    """Returns `after` of a window: the path, and the key of its last row."""
    values = [value.isoformat() if isinstance(value, datetime) else value for value in key]
    return json.dumps([path.name, *values], separators=(",", ":"))


def _key(after: str, paths: Sequence[_Path]) -> tuple[_Path, Sequence[Any]]:
    """Returns the path and the key in a cursor; raises StoreError."""
    try:
        index, *values = json.loads(after)
        path = next(path for path in paths if path.name == index)
        kinds = [_KINDS.get(key.name, str) for key in path.keys]
        key = [kind(value) for kind, value in zip(kinds, values, strict=True)]
    except (ValueError, TypeError, StopIteration) as error:
        raise StoreError("the list has changed: read it from its first rows on") from error
    return path, key
