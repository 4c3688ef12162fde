"""Statements on the tables of pages, which are compiled at their first use and run by the driver.

SQLAlchemy's overhead for a row exceeds the cost of the row. The functions of column types that SQLAlchemy would call
convert the values.

Compiling a statement takes 1 to 4 ms; most crawls use two or three statements, most commands none. All databases of
a process with the same dialect share the statements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, TypeAlias

from sqlalchemy import (
    ARRAY,
    Column,
    ColumnElement,
    Connection,
    Dialect,
    MetaData,
    Table,
    Text,
    and_,
    case,
    func,
    literal_column,
    or_,
    select,
)
from sqlalchemy.sql import bindparam

from webcrawl.stores.chosen_columns import chosen_value
from webcrawl.stores.columns import fetches, pages
from webcrawl.stores.database import insert_into
from webcrawl.stores.history import PAST_COLUMNS, UNCHANGED
from webcrawl.stores.selection import each_of

# columns that the store computes; all other columns come from the page
_KEPT = frozenset(
    {"first_fetched_at", "fetches", "state", "tried_at", "changed_at", "queued_at", "new_links"}
)
_OF_THE_PLAN = frozenset(
    {
        *("change_rate", "changes", "change_evidence", "link_rate", "next_due", "is_date_set"),
        *("recrawl_request", "fetch_class", "signals", "change_distance"),
    }
)
_OF_THE_TRY = frozenset({"error", "attempts", "state", "tried_at", "crawl", "queued_at", *_OF_THE_PLAN})
_OF_THE_ANSWER = tuple(
    column.name
    for column in pages.columns
    if column.name not in {*_KEPT - {"changed_at"}, *_OF_THE_TRY, "url"}
)
PAYLOAD_COLUMNS = (
    *("url", "fetched_at", "digest", "duplicate_of", "duplicate_kind"),
    *("warc_file", "warc_offset", "warc_length", "details"),
)
"""The columns that say where the payload of a page is archived."""
_shared: dict[type[Dialect], PageStatements] = {}

Process: TypeAlias = Callable[[Any], Any]
LEAST_COPIED = 50
"""COPY takes half of the processor time for 500 rows, and three quarters for 50."""
# PostgreSQL's type number of float8, the only type whose processor depends on the type that the driver reports
_FLOAT8 = 701


def page_statements(dialect: Dialect) -> PageStatements:
    """Returns the statements of this process for a dialect."""
    return _shared.setdefault(type(dialect), PageStatements(dialect))


class PageStatements:
    """Compiled statements on the tables `pages` and `fetches`."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    @cached_property
    def add(self) -> WriteStatement:
        """Adds a row; see `_add_statement`."""
        columns = dict(pages.columns)
        return WriteStatement(
            _add_statement(self._dialect), columns, self._dialect, partial(_add_statement, self._dialect)
        )

    @cached_property
    def answer(self) -> WriteStatement:
        """Replaces the contents of a known row."""
        return self._update((*_OF_THE_ANSWER, *_OF_THE_TRY, "fetches"))

    @cached_property
    def attempt(self) -> WriteStatement:
        """Stores an attempt that brought no contents."""
        return self._update((*_OF_THE_TRY, "fetches"))

    @cached_property
    def confirm(self) -> WriteStatement:
        """Stores that the contents of a row are still the same."""
        return self._update((*_OF_THE_TRY, "fetches", "etag", "last_modified"))

    @cached_property
    def credit(self) -> WriteStatement:
        """Adds `new_links` to the row of the URL `key`."""
        number = bindparam("new_links", type_=pages.c.new_links.type)
        statement = pages.update().where(pages.c.url == bindparam("key", type_=pages.c.url.type))
        statement = statement.values(new_links=func.coalesce(pages.c.new_links, literal_column("0")) + number)
        return WriteStatement(statement, {"key": pages.c.url, "new_links": pages.c.new_links}, self._dialect)

    @cached_property
    def get(self) -> ReadStatement:
        """The row of the URL `key`."""
        return ReadStatement(
            select(pages).where(pages.c.url == bindparam("key")), pages.columns, self._dialect
        )

    @cached_property
    def look(self) -> ReadStatement:
        """The facts of `urls` that a new fetch changes."""
        return ReadStatement(_look_statement(self._dialect), (pages.c.url, *PAST_COLUMNS), self._dialect)

    @cached_property
    def visits(self) -> ReadStatement:
        """When `urls` were tried last."""
        columns = (pages.c.url, pages.c.tried_at, pages.c.fetched_at)
        return ReadStatement(select(*columns).where(_is_wanted(self._dialect)), columns, self._dialect)

    @cached_property
    def payloads(self) -> ReadStatement:
        """Where the payloads of `urls` are archived."""
        columns = tuple(pages.c[name] for name in PAYLOAD_COLUMNS)
        return ReadStatement(select(*columns).where(_is_wanted(self._dialect)), columns, self._dialect)

    @cached_property
    def remember(self) -> WriteStatement:
        """Adds a fetch to the history."""
        statement = insert_into(self._dialect, fetches).on_conflict_do_nothing()
        return WriteStatement(statement, dict(fetches.columns), self._dialect, self._remember_copied)

    def _remember_copied(self, copied: Table) -> Any:
        return _insert_copied(self._dialect, fetches, copied).on_conflict_do_nothing()

    def _update(self, names: Sequence[str]) -> WriteStatement:
        """Updates a row that `look` has locked."""
        statement = pages.update().where(pages.c.url == bindparam("key", type_=pages.c.url.type))
        columns = {"key": pages.c.url, **{name: pages.c[name] for name in names}}

        def merge(copied: Table) -> Any:
            values = {name: copied.c[name] for name in names}
            return pages.update().where(pages.c.url == copied.c.url).values(values)

        return WriteStatement(statement, columns, self._dialect, merge)


def weights_statement(column: str, dialect: Dialect) -> ReadStatement:
    """Returns the statement that reads the weights of `urls` as `weight`: a column, or "details.KEY"."""
    weight = chosen_value(column, dialect).label("weight")
    return ReadStatement(
        select(pages.c.url, weight).where(_is_wanted(dialect)), (pages.c.url, weight), dialect
    )


def _look_statement(dialect: Dialect) -> Any:
    """Selects the rows of `urls`, and locks them."""
    query = select(pages.c.url, *PAST_COLUMNS).where(_is_wanted(dialect))
    return query.order_by(pages.c.url).with_for_update()


def _is_wanted(dialect: Dialect) -> ColumnElement[bool]:
    """Returns the condition for rows of `urls`: an array in PostgreSQL, a JSON list in SQLite."""
    if dialect.name == "sqlite":
        urls = func.json_each(bindparam("urls", type_=Text)).table_valued("value")
        return pages.c.url.in_(select(urls.c.value))
    return pages.c.url.in_(each_of(bindparam("urls", type_=ARRAY(Text))))


def _insert_copied(dialect: Dialect, table: Table, copied: Table) -> Any:
    names = [column.name for column in table.columns]
    return insert_into(dialect, table).from_select(names, select(*(copied.c[name] for name in names)))


def _add_statement(dialect: Dialect, copied: Table | None = None) -> Any:
    """Adds a row, or all `copied` rows. If another process has just added one, updates it as `follow` would."""
    insert = insert_into(dialect, pages) if copied is None else _insert_copied(dialect, pages, copied)
    new, old = insert.excluded, pages.c
    replaced: dict[str, Any] = {name: new[name] for name in _OF_THE_TRY}
    # an attempt without contents keeps the contents of an earlier response
    no_contents = or_(new.status.is_(None), new.status == literal_column(str(UNCHANGED)))
    brought_nothing = and_(no_contents, old.status.is_not(None))
    for name in _OF_THE_ANSWER:
        replaced[name] = case((brought_nothing, old[name]), else_=new[name])
    of_this_crawl = case((old.crawl == new.crawl, old.queued_at))
    replaced["queued_at"] = func.coalesce(of_this_crawl, new.queued_at)
    is_repeated = func.coalesce(old.tried_at, old.fetched_at) == new.tried_at
    replaced["fetches"] = old.fetches + case((is_repeated, literal_column("0")), else_=literal_column("1"))
    return insert.on_conflict_do_update(index_elements=[pages.c.url], set_=replaced)


class ReadStatement:
    """A compiled statement that returns rows of some columns. Its parameters are named."""

    def __init__(self, statement: Any, columns: Iterable[ColumnElement[Any]], dialect: Dialect) -> None:
        columns = tuple(columns)
        self._names = tuple(column.name for column in columns)
        self.text = str(statement.compile(dialect=_in_style(dialect, "named", "pyformat")))
        processors = [
            column.type.dialect_impl(dialect).result_processor(dialect, _FLOAT8) for column in columns
        ]
        self._process: list[tuple[str, Process]] = [
            (name, process)
            for name, process in zip(self._names, processors, strict=True)
            if process is not None
        ]

    def row(self, values: Sequence[Any]) -> dict[str, Any]:
        """Returns a row by column name, from the values of the driver."""
        row = dict(zip(self._names, values, strict=True))
        for name, process in self._process:
            if row[name] is not None:
                row[name] = process(row[name])
        return row


class WriteStatement:
    """A compiled statement that stores rows. `columns` maps the names of its parameters to columns.

    `merge` returns the statement that stores all rows of a table with the columns of the stored table, in PostgreSQL.
    """

    def __init__(
        self,
        statement: Any,
        columns: Mapping[str, Column[Any]],
        dialect: Dialect,
        merge: Callable[[Table], Any] | None = None,
    ) -> None:
        self._dialect = dialect
        self._merge = merge if dialect.driver == "psycopg" else None
        styled = _in_style(dialect, "qmark", "format")
        compiled = statement.compile(dialect=styled, column_keys=list(columns))
        self.text = str(compiled)
        taken = [columns[name] for name in compiled.positiontup]
        self._table = taken[0].table
        self._taken: list[tuple[str, Process | None]] = [
            (column.name, column.type.dialect_impl(dialect).bind_processor(dialect)) for column in taken
        ]

    def parameters(self, rows: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
        """Returns the parameters of the driver for these rows. A column that a row lacks is null."""
        # column by column, because a call for each value would take as long as the database
        columns = []
        for name, process in self._taken:
            if process is None:
                columns.append([row.get(name) for row in rows])
            else:
                columns.append([None if (value := row.get(name)) is None else process(value) for row in rows])
        return list(zip(*columns, strict=True))

    def store(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Stores rows: a large batch by COPY into a temporary table, if the role may make one."""
        parameters = self.parameters(rows)
        if self._merge is None or len(rows) < LEAST_COPIED or not _may_copy(connection):
            connection.exec_driver_sql(self.text, parameters)
            return
        create, copy, merge, empty = self._copying
        driver: Any = connection.connection
        with driver.cursor() as cursor:
            cursor.execute(create)
            with cursor.copy(copy) as copying:
                for row in parameters:
                    copying.write_row(row)
            cursor.execute(merge)
            # the transaction may have more rows
            cursor.execute(empty)

    @cached_property
    def _copying(self) -> tuple[str, str, str, str]:
        """The statements that create the temporary table, copy into it, store its rows and empty it."""
        assert self._merge is not None
        copied = Table(
            f"webcrawl_{self._table.name}",
            MetaData(),
            *(Column(column.name, column.type) for column in self._table.columns),
            schema="pg_temp",
        )
        names = ", ".join(name for name, _ in self._taken)
        return (
            f"CREATE TEMPORARY TABLE IF NOT EXISTS {copied.name} ON COMMIT DELETE ROWS "
            f"AS SELECT * FROM {self._table.name} WITH NO DATA",
            f"COPY {copied} ({names}) FROM STDIN",
            str(self._merge(copied).compile(dialect=self._dialect)),
            f"DELETE FROM {copied}",
        )


def _may_copy(connection: Connection) -> bool:
    """Returns whether the role may make temporary tables, as everybody may by default."""
    known = connection.info
    if "may_copy" not in known:
        right = func.has_database_privilege(func.current_database(), "TEMPORARY")
        known["may_copy"] = bool(connection.execute(select(right)).scalar())
    return bool(known["may_copy"])


def _in_style(dialect: Dialect, sqlite: str, postgresql: str) -> Any:
    kind: Any = type(dialect)
    return kind(paramstyle=sqlite if dialect.name == "sqlite" else postgresql)
