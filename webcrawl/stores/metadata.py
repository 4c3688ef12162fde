"""Rows about pages in SQL: tables `pages`, one row a URL, and `fetches`, in SQLite or PostgreSQL (columns.py).

The row of a URL describes its latest answer, and the outcome (`state`, `error`, `tried_at`) of the latest try. What it
says of its fetch goes to `fetches` when a later one takes its place: so the history of a URL is there and in its row,
and a crawl that fetches each URL once pays nothing for it. SQLite's hidden row ids are kept: with 400,000 rows 42,000
upserts/s, WITHOUT ROWID 26,000; reads alike.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, NamedTuple, Self

from sqlalchemy import (
    ColumnElement,
    Connection,
    Dialect,
    Select,
    Table,
    Text,
    and_,
    any_,
    case,
    delete,
    func,
    literal_column,
    or_,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql import bindparam

from webcrawl.documents.values import clean, memory_bytes
from webcrawl.stores.columns import fetches, pages
from webcrawl.stores.compiled import Reading, Writing
from webcrawl.stores.database import Database
from webcrawl.stores.history import PAST_COLUMNS, UNCHANGED, described, follow
from webcrawl.stores.schema import prepare

SCAN_BATCH = 1_000
SCAN_BYTES = 16_000_000
_ROWS_AT_ONCE = 20

# What upsert keeps by itself; all other columns are those of a page's row.
_KEPT = frozenset({"first_fetched_at", "fetches", "state", "tried_at", "changed_at"})
_OF_THE_TRY = frozenset({"error", "attempts", "state", "tried_at", "crawl"})
_OF_THE_ANSWER = tuple(
    column.name
    for column in pages.columns
    if column.name not in {*_KEPT - {"changed_at"}, *_OF_THE_TRY, "url"}
)


class Fetch(NamedTuple):
    """One fetch of a URL. `changed`: it brought other contents than the answer before. `latency` is in seconds."""

    fetched_at: datetime
    status: int | None
    changed: bool
    digest: str | None
    length: int | None
    latency: float | None
    error: str | None
    warc_file: str | None
    warc_offset: int | None
    warc_length: int | None


class Metadata:
    """The tables at a database URI: "sqlite:///path" or "postgresql://user@server/name".

    Made on first use, by several processes at once if need be; those of an older webcrawl are brought up. `history` is
    how many earlier fetches are kept of a URL. Methods may be called from any thread. They raise StoreError naming the
    database: it is none, its schema is newer than this code, or it refuses; StoreUnavailable when it is away.
    """

    def __init__(self, uri: str, *, history: int = 30) -> None:
        self._database = database = Database(uri)
        self.name = database.name
        self._history = history
        dialect = database.dialect
        self._add = Writing(_add_statement(dialect), dict(pages.columns), dialect)
        self._answer = _update((*_OF_THE_ANSWER, *_OF_THE_TRY, "fetches"), dialect)
        self._try = _update((*_OF_THE_TRY, "fetches"), dialect)
        self._confirm = _update((*_OF_THE_TRY, "fetches", "etag", "last_modified"), dialect)
        self._get = Reading(select(pages).where(pages.c.url == bindparam("key")), pages.columns, dialect)
        self._look = Reading(_look_statement(dialect), (pages.c.url, *PAST_COLUMNS), dialect)
        self._remember = Writing(
            _insert(dialect, fetches).on_conflict_do_nothing(), dict(fetches.columns), dialect
        )
        database.write(lambda connection: prepare(connection, self.name), at_leisure=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def upsert(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Store rows of pages (`Page.row()`), all or none; a known URL's row is overwritten and counted.

        An answer 304, or none, keeps what an earlier answer brought; a 304 for the same contents brings its validators.
        The same fetch said again counts once.
        """
        if rows:
            self._database.write(lambda connection: self._store(connection, rows))

    def get(self, url: str) -> dict[str, Any] | None:
        """The row of a URL, or None."""
        row = self._database.first(self._get.text, {"key": url})
        return None if row is None else self._get.row(row)

    def get_many(self, urls: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The rows of those of at most some thousand URLs that have one."""
        with self._database.reading(at_leisure=False) as connection:
            found = connection.execute(select(pages).where(pages.c.url.in_(urls))).mappings().all()
        return {row["url"]: dict(row) for row in found}

    def update(
        self, url: str, change: Callable[[dict[str, Any]], Mapping[str, Any]]
    ) -> dict[str, Any] | None:
        """Read a row, set the columns that `change` returns for it, and return what it is then; None without a row.

        Nobody else changes the row meanwhile. `change` may be called again: it should do nothing else.
        """

        def work(connection: Connection) -> dict[str, Any] | None:
            query = select(pages).where(pages.c.url == url).with_for_update()
            row = connection.execute(query).mappings().first()
            if row is None:
                return None
            if changes := dict(change(dict(row))):
                connection.execute(pages.update().where(pages.c.url == url).values(changes))
            return {**row, **changes}

        return self._database.write(work)

    def history(self, url: str) -> list[Fetch]:
        """The fetches of a URL that are known, the oldest first: those that are kept and that of its row."""
        with self._database.reading() as connection:
            earlier = select(fetches).where(fetches.c.url == url)
            rows = [dict(row) for row in connection.execute(earlier).mappings()]
            own = connection.execute(select(*PAST_COLUMNS).where(pages.c.url == url)).mappings().first()
        if own is not None:
            rows.append(described(dict(own)))
        rows.sort(key=lambda row: row["fetched_at"])
        return [Fetch(**{name: row[name] for name in Fetch._fields}) for row in rows]

    def count(self) -> int:
        """The number of URLs stored."""
        with self._database.reading() as connection:
            return int(connection.execute(select(func.count()).select_from(pages)).scalar_one())

    def scan(
        self, host: str | None = None, *, after: str = "", where: Sequence[ColumnElement[bool]] = ()
    ) -> Iterator[dict[str, Any]]:
        """Every row, or those of a host, in the order of URLs, host by host, behind the URL `after`.

        Read in batches by the primary key, so that writers go on meanwhile; a batch is bounded in rows and in bytes.
        A host is scheme, name and port. `where`: what else must hold for a row.
        """
        within = [] if host is None else [pages.c.url >= f"{host}/", pages.c.url < f"{host}0"]
        while True:
            condition = and_(pages.c.url > after, *within, *where)
            rows, more = self._batch(select(pages).where(condition).order_by(pages.c.url).limit(SCAN_BATCH))
            yield from rows
            if not more:
                return
            after = rows[-1]["url"]

    def _batch(self, query: Select[Any]) -> tuple[list[dict[str, Any]], bool]:
        """The first rows of a query, and whether there may be more."""
        rows, size = [], 0
        with self._database.reading() as connection:
            # not all at once from a server: the rest is left there when these are many bytes
            stream = connection.execution_options(stream_results=True, max_row_buffer=_ROWS_AT_ONCE)
            for found in stream.execute(query).mappings():
                rows.append(row := dict(found))
                if (size := size + memory_bytes(row)) >= SCAN_BYTES:
                    return rows, True
        return rows, len(rows) == SCAN_BATCH

    def close(self) -> None:
        """Give back the connections; a later call opens new ones."""
        self._database.close()

    def _store(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        while rows:
            # what comes later of the same URL comes after what came before
            first = {clean(row["url"]): row for row in reversed(rows)}
            self._store_apart(connection, dict(sorted(first.items())))
            rows = [row for row in rows if first[clean(row["url"])] is not row]

    def _store_apart(self, connection: Connection, rows: Mapping[str, Mapping[str, Any]]) -> None:
        """Store one row of each of these URLs, in their order: so two writers never wait for each other."""
        known = self._known(connection, list(rows))
        written: defaultdict[Writing, list[dict[str, Any]]] = defaultdict(list)
        earlier, full = [], []
        for url, row in rows.items():
            before = known.get(url)
            kept, past, brought_nothing = follow(row, before)
            written[self._statement(row, before, brought_nothing)].append({**row, **kept})
            if past is not None and self._history:
                earlier.append(past)
                if kept["fetches"] > self._history + 1:
                    full.append(url)
        for statement, some in ((self._remember, earlier), *written.items()):
            if some:
                connection.exec_driver_sql(statement.text, statement.parameters(some))
        if full:
            self._forget(connection, full)

    def _statement(
        self, row: Mapping[str, Any], before: Mapping[str, Any] | None, brought_nothing: bool
    ) -> Writing:
        """What writes a row, by what is known of its URL."""
        if before is None:
            return self._add
        if not brought_nothing:
            return self._answer
        holds = row.get("status") == UNCHANGED and row.get("digest") == before["digest"]
        return self._confirm if holds else self._try

    def _known(self, connection: Connection, urls: Sequence[str]) -> dict[str, Mapping[str, Any]]:
        """What is known of those of these URLs that are, which nobody else changes from now on."""
        parameters = {"urls": json.dumps(urls) if connection.dialect.name == "sqlite" else urls}
        found = connection.exec_driver_sql(self._look.text, parameters).all()
        return {row["url"]: row for row in map(self._look.row, found)}

    def _forget(self, connection: Connection, urls: Sequence[str]) -> None:
        """Keep only the latest fetches of these URLs."""
        some = fetches.alias()
        oldest_kept = (
            select(some.c.fetched_at)
            .where(some.c.url == bindparam("key"))
            .order_by(some.c.fetched_at.desc())
            .offset(self._history - 1)
            .limit(1)
            .scalar_subquery()
        )
        statement = delete(fetches).where(
            fetches.c.url == bindparam("key"), fetches.c.fetched_at < oldest_kept
        )
        connection.execute(statement, [{"key": url} for url in urls])


def _insert(dialect: Dialect, table: Table) -> Any:
    return (sqlite if dialect.name == "sqlite" else postgresql).insert(table)


def _look_statement(dialect: Dialect) -> Any:
    """What is known of `urls`, a list, or its JSON in SQLite: one statement, however many they are."""
    wanted: ColumnElement[bool]
    if dialect.name == "sqlite":
        wanted = pages.c.url.in_(
            select(func.json_each(bindparam("urls", type_=Text)).table_valued("value").c.value)
        )
    else:
        wanted = pages.c.url == any_(bindparam("urls", type_=postgresql.ARRAY(Text)))
    return select(pages.c.url, *PAST_COLUMNS).where(wanted).order_by(pages.c.url).with_for_update()


def _update(names: Sequence[str], dialect: Dialect) -> Writing:
    """Of a row that is known, and that nobody else changes meanwhile."""
    statement = pages.update().where(pages.c.url == bindparam("key", type_=pages.c.url.type))
    return Writing(statement, {"key": pages.c.url, **{name: pages.c[name] for name in names}}, dialect)


def _add_statement(dialect: Dialect) -> Any:
    """Add a row; to one that another process has added meanwhile do what `follow` would."""
    insert = _insert(dialect, pages)
    new, old = insert.excluded, pages.c
    replaced: dict[str, Any] = {name: new[name] for name in _OF_THE_TRY}
    # a try that brought no answer must not take away what an earlier one brought
    no_contents = or_(new.status.is_(None), new.status == literal_column(str(UNCHANGED)))
    brought_nothing = and_(no_contents, old.status.is_not(None))
    for name in _OF_THE_ANSWER:
        replaced[name] = case((brought_nothing, old[name]), else_=new[name])
    said_again = func.coalesce(old.tried_at, old.fetched_at) == new.tried_at
    replaced["fetches"] = old.fetches + case((said_again, literal_column("0")), else_=literal_column("1"))
    return insert.on_conflict_do_update(index_elements=[pages.c.url], set_=replaced)
