"""Rows about pages in SQL: table `pages`, one row a URL, in SQLite or PostgreSQL (columns.py).

The row of a URL describes its latest answer, and the error of its latest fetch if that brought none; `fetches` counts
how often it was stored and `first_fetched_at` remembers the first time. SQLite's hidden row ids are kept: with 400,000
rows 42,000 upserts/s, WITHOUT ROWID 26,000; reads alike.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from sqlalchemy import Connection, Dialect, Engine, Executable, case, create_engine, event, func, select, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.schema import CreateTable
from sqlalchemy.sql import bindparam

from webcrawl.errors import ConfigurationError, StoreError
from webcrawl.stores.columns import SCHEMA_VERSION, pages, schema_version

# SQLite lets one process write at a time: how long to wait for one's turn, in seconds.
LOCK_TIMEOUT = 60.0
SCAN_BATCH = 1_000

T = TypeVar("T")

# What upsert keeps by itself; all other columns are those of a page's row.
_COUNTED = frozenset({"first_fetched_at", "fetches"})
_OF_THE_TRY = frozenset({"error", "attempts"})
_GIVEN = tuple(column.name for column in pages.columns if column.name not in _COUNTED)
# Any number that no other program on the same PostgreSQL server is likely to lock.
_SCHEMA_LOCK = 0x77656263
# PostgreSQL: serialization failure, deadlock, too many connections, shutting down, starting up.
_PASSING = frozenset({"40001", "40P01", "53300", "57P01", "57P03"})


class Metadata:
    """The table `pages` at a database URI: "sqlite:///path" or "postgresql://user@server/name".

    Made on first use, by several processes at once if need be. Methods may be called from any thread. They
    raise StoreError naming the database: it is none, its schema is newer than this code, it cannot be reached
    or written.
    """

    def __init__(self, uri: str) -> None:
        try:
            url = make_url(uri)
            self._engine = _engine(url)
            self._upsert = _upsert_statement(self._engine.dialect)
        except (SQLAlchemyError, ImportError, ValueError) as error:
            told = re.sub("//[^/]*@", "//...@", uri)
            raise ConfigurationError(f"cannot use the metadata URI {told!r}: {error}") from error
        self.name = url.render_as_string(hide_password=True)
        self._get = select(pages).where(pages.c.url == bindparam("key"))
        self._retried(self._prepare)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def upsert(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Store rows of pages (`Page.row()`), all or none; a known URL's row is overwritten and counted."""
        if rows:
            values = [
                {name: row.get(name) for name in _GIVEN} | {"first_fetched_at": row["fetched_at"]}
                for row in rows
            ]
            self._retried(lambda connection: connection.execute(self._upsert, values))

    def get(self, url: str) -> dict[str, Any] | None:
        """The row of a URL, or None."""
        with self._reading() as connection:
            row = connection.execute(self._get, {"key": url}).mappings().first()
        return dict(row) if row is not None else None

    def count(self) -> int:
        """The number of URLs stored."""
        with self._reading() as connection:
            return int(connection.execute(select(func.count()).select_from(pages)).scalar_one())

    def scan(self) -> Iterator[dict[str, Any]]:
        """Every row in the order of URLs, host by host; read in batches, so that writers go on meanwhile."""
        after = ""
        while True:
            query = select(pages).where(pages.c.url > after).order_by(pages.c.url).limit(SCAN_BATCH)
            with self._reading() as connection:
                rows = connection.execute(query).mappings().all()
            for row in rows:
                yield dict(row)
            if len(rows) < SCAN_BATCH:
                return
            after = rows[-1]["url"]

    def close(self) -> None:
        """Give back the connections; a later call opens new ones."""
        self._engine.dispose()

    def _prepare(self, connection: Connection) -> None:
        """Make the tables unless they are there, one process at a time, and check their version."""
        if connection.dialect.name == "postgresql":
            connection.execute(select(func.pg_advisory_xact_lock(_SCHEMA_LOCK)))
        else:
            connection.execute(text("BEGIN IMMEDIATE"))
        connection.execute(CreateTable(schema_version, if_not_exists=True))
        found = connection.execute(select(func.max(schema_version.c.version))).scalar()
        if found is None:
            connection.execute(CreateTable(pages, if_not_exists=True))
            connection.execute(schema_version.insert().values(version=SCHEMA_VERSION))
        elif found > SCHEMA_VERSION:
            newer = f"its schema is {found}, this one knows {SCHEMA_VERSION}"
            raise StoreError(f"{self.name} was written by a newer webcrawl: {newer}")

    def _retried(self, work: Callable[[Connection], object]) -> None:
        """Do `work` in a transaction, again while another process is in the way."""
        deadline = time.monotonic() + LOCK_TIMEOUT
        while True:
            try:
                with self._engine.begin() as connection:
                    work(connection)
                return
            except SQLAlchemyError as error:
                if not _is_passing(error) or time.monotonic() > deadline:
                    raise self._failure(error) from error
                time.sleep(random.uniform(0.01, 0.1))

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        try:
            with self._engine.connect() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise self._failure(error) from error

    def _failure(self, error: SQLAlchemyError) -> StoreError:
        cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
        return StoreError(f"{self.name}: {cause}")


def _engine(url: URL) -> Engine:
    if url.get_backend_name() != "sqlite":
        return create_engine(url, pool_pre_ping=True)
    if url.database and url.database != ":memory:":
        folder = Path(url.database).parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot create {folder}: {error.strerror}") from error
    engine = create_engine(url, connect_args={"timeout": LOCK_TIMEOUT})

    @event.listens_for(engine, "connect")
    def tune(connection: Any, record: object) -> None:
        # Readers go on while another process writes; a commit survives a killed process, a lost machine may
        # lose the last commits but never the file.
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")

    return engine


def _upsert_statement(dialect: Dialect) -> Executable:
    insert: sqlite.Insert | postgresql.Insert
    if dialect.name == "sqlite":
        insert = sqlite.insert(pages).values(fetches=1)
    elif dialect.name == "postgresql":
        insert = postgresql.insert(pages).values(fetches=1)
    else:
        raise ValueError(f"{dialect.name} is not supported, only sqlite and postgresql are")
    replaced: dict[str, Any] = {name: insert.excluded[name] for name in _OF_THE_TRY}
    # a try that brought no answer must not take away what an earlier one brought
    unanswered = insert.excluded.status.is_(None) & pages.c.status.is_not(None)
    for name in set(_GIVEN) - _OF_THE_TRY - {"url"}:
        replaced[name] = case((unanswered, pages.c[name]), else_=insert.excluded[name])
    replaced["fetches"] = pages.c.fetches + 1
    return insert.on_conflict_do_update(index_elements=[pages.c.url], set_=replaced)


def _is_passing(error: SQLAlchemyError) -> bool:
    """Whether the same transaction may succeed a moment later."""
    if not isinstance(error, DBAPIError):
        return False
    state = getattr(error.orig, "sqlstate", None)
    return state in _PASSING or getattr(error.orig, "sqlite_errorname", "").startswith(
        ("SQLITE_BUSY", "SQLITE_LOCKED")
    )
