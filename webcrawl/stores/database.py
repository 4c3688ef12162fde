"""Connects to SQLite or PostgreSQL: retries transactions on conflicts, and names the database in errors."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, Self, TypeVar

from sqlalchemy import Connection, Dialect, Engine, Table, create_engine, event, text
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError

from webcrawl.config.libraries import missing
from webcrawl.config.passwords import without_password, without_secret_options
from webcrawl.errors import ConfigurationError, StoreError, StoreUnavailable

# Seconds to wait for the lock of SQLite, which lets a single process write at a time.
LOCK_TIMEOUT = 60.0
CONNECT_SECONDS = 10
"""The timeout for connecting to a PostgreSQL server; the timeout of statements is answering.ANSWER_SECONDS."""

T = TypeVar("T")

# PostgreSQL's serialization failure and deadlock: the same transaction may succeed when retried.
_CONFLICTS = frozenset({"40001", "40P01"})
# Connection failures, exhausted resources (also a full disk), shutdown and startup, a read-only standby, and a
# missing privilege, table or column, which an operator can add.
_TEMPORARY = ("08", "53", "57P", "25006", "42501", "42P01", "42703")
_SQLITE_CONFLICTS = ("SQLITE_BUSY", "SQLITE_LOCKED")
_SQLITE_TEMPORARY = (
    *_SQLITE_CONFLICTS,
    *("SQLITE_FULL", "SQLITE_READONLY", "SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_CORRUPT", "SQLITE_NOTADB"),
)
_SQLITE_MISSING = ("no such table", "no such column")


class Database:
    """The database at a URI: "sqlite:///path" or "postgresql://user@server/name"; `name` is the URI without password.

    Methods may be called from any thread. They raise StoreUnavailable when retrying may succeed, because the database
    is unreachable, locked or full, or lacks a table or privilege. They raise StoreError for all other failures.
    """

    def __init__(self, uri: str, *, read_only: bool = False) -> None:
        parsed = False
        try:
            url = make_url(uri)
            parsed = True
            self._engine = _reading_engine(url) if read_only else _engine(url)
            if self._engine.dialect.name not in ("sqlite", "postgresql"):
                raise ValueError(
                    f"{self._engine.dialect.name} is not supported, only sqlite and postgresql are"
                )
        except (SQLAlchemyError, ImportError, ValueError) as error:
            if isinstance(error, ImportError) and url.get_backend_name() == "postgresql":
                raise missing("PostgreSQL", "psycopg", "postgresql") from error
            # SQLAlchemy's message for a URI that it cannot parse may quote the password
            why = error if parsed else "write /, ?, # and @ in user and password as %2F, %3F, %23 and %40"
            raise ConfigurationError(f"cannot use the metadata URI {without_password(uri)!r}: {why}") from (
                error if parsed else None
            )
        self.name = without_secret_options(url.render_as_string(hide_password=True))
        self.dialect = self._engine.dialect
        self._reader: Connection | None = None
        self._cursor: Any = None
        self._reader_lock = threading.Lock()

    def write(self, work: Callable[[Connection], T], *, at_leisure: bool = False) -> T:
        """Returns the result of `work` in a transaction, which is retried on conflicts with other processes.

        With `at_leisure`, statements have no timeout.
        """
        deadline = time.monotonic() + LOCK_TIMEOUT
        drivers: Any = getattr(self.dialect.dbapi, "Error", ())
        while True:
            try:
                with self._engine.begin() as connection, self._pace(connection, at_leisure):
                    if self.dialect.name == "sqlite":
                        # takes the write lock now, so that the rows that `work` reads do not change before it writes
                        connection.execute(text("BEGIN IMMEDIATE"))
                    return work(connection)
            except (SQLAlchemyError, drivers) as raised:
                # `work` may have called the driver itself
                error = self._as_sqlalchemys("", raised)
                if not _is_conflict(error) or time.monotonic() > deadline:
                    raise self._failure(error) from raised
                time.sleep(random.uniform(0.01, 0.1))

    @contextmanager
    def reading(self, *, at_leisure: bool = True) -> Iterator[Connection]:
        """Opens a connection for reading; see `write` for `at_leisure`."""
        try:
            with self._engine.connect() as connection, self._pace(connection, at_leisure):
                yield connection
        except SQLAlchemyError as error:
            raise self._failure(error) from error

    def first(self, statement: str, parameters: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """Returns the first row of a query, or None; see `rows`."""
        return next(iter(self.rows(statement, parameters)), None)

    def rows(self, statement: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Returns the rows of a small query. The driver runs the query on a connection that stays open.

        SQLAlchemy would take five times as long for a row.
        """
        with self._reader_lock:
            try:
                return self._fetch(statement, parameters)
            except Exception:
                # the idle connection may have been lost: try once more
                self._drop_reader()
            try:
                return self._fetch(statement, parameters)
            except Exception as error:
                self._drop_reader()
                raise self._failure(self._as_sqlalchemys(statement, error)) from error

    def close(self) -> None:
        """Closes the connections; a later call opens new ones."""
        with self._reader_lock:
            self._drop_reader()
        self._engine.dispose()

    def _pace(self, connection: Connection, at_leisure: bool) -> AbstractContextManager[None]:
        if at_leisure and self.dialect.driver == "psycopg":
            from webcrawl.stores import answering  # its driver may not be installed

            return answering.at_leisure(connection.connection.dbapi_connection)
        return nullcontext()

    def _fetch(self, statement: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        if self._reader is None:
            self._reader = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            # reused, because making a cursor takes as long as the query
            self._cursor = self._reader.connection.cursor()
        self._cursor.execute(statement, parameters)
        # all rows, because an unfinished statement pins SQLite to its snapshot
        return [tuple(row) for row in self._cursor.fetchall()]

    def _as_sqlalchemys(self, statement: str, error: Exception) -> SQLAlchemyError:
        """Returns an exception, of the driver too, as an exception of SQLAlchemy."""
        drivers: Any = getattr(self.dialect.dbapi, "Error", ())
        if isinstance(error, drivers):
            known = DBAPIError.instance(statement, None, error, drivers, dialect=self.dialect)
            assert isinstance(known, SQLAlchemyError)
            return known
        return error if isinstance(error, SQLAlchemyError) else SQLAlchemyError(str(error))

    def _drop_reader(self) -> None:
        reader, self._reader, self._cursor = self._reader, None, None
        if reader is not None:
            with suppress(Exception):
                reader.invalidate()
                reader.close()

    def _failure(self, error: SQLAlchemyError) -> StoreError:
        cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
        kind = StoreUnavailable if _is_temporary(error) else StoreError
        # PostgreSQL's message without its details, which quote values of the row
        primary = getattr(getattr(cause, "diag", None), "message_primary", None)
        return kind(f"{self.name}: {' '.join(str(primary or cause).split())}")


class DatabaseTables:
    """Tables in the database at a URI, as a context manager. `name` is the URI without password."""

    def __init__(self, uri: str, *, read_only: bool = False) -> None:
        self.database = Database(uri, read_only=read_only)
        self.name = self.database.name

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections; a later call opens new ones."""
        self.database.close()


def _engine(url: URL) -> Engine:
    if url.get_backend_name() != "sqlite":
        return _server(url)
    if url.database and url.database != ":memory:":
        folder = Path(url.database).parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot create {folder}: {error.strerror}") from error
    engine = create_engine(url, connect_args={"timeout": LOCK_TIMEOUT})

    @event.listens_for(engine, "connect")
    def tune(connection: Any, record: object) -> None:
        # Readers are not blocked by a writer. A commit survives a killed process; a power failure may lose the last
        # commits but does not damage the file.
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        # A batch of 500 known URLs changes 4 MB of scattered pages. The cache (in KiB) holds them, and the log is
        # copied into the file at 4096 pages (16 MB), not after every batch.
        connection.execute("PRAGMA cache_size = -16384")
        connection.execute("PRAGMA wal_autocheckpoint = 4096")

    return engine


def insert_into(dialect: Dialect, table: Table) -> Any:
    """Returns an INSERT with `on_conflict_do_nothing` and `on_conflict_do_update`."""
    if dialect.name == "sqlite":
        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql  # takes 0.04 s

    return postgresql.insert(table)


def is_read_only(uri: str) -> bool:
    """Returns whether this process cannot write to a SQLite file: another user's, or a file on a read-only disk."""
    url = make_url(uri)
    if url.get_backend_name() != "sqlite" or not url.database or not (file := Path(url.database)).exists():
        return False
    # SQLite makes files beside the database, also to read
    return not (os.access(file, os.W_OK) and os.access(file.parent, os.W_OK | os.X_OK))


def _reading_engine(url: URL) -> Engine:
    """Returns the engine of a SQLite file for reading only; the folder of the file may be read-only."""
    assert url.database
    log, index = (Path(f"{url.database}-{end}") for end in ("wal", "shm"))
    query = {"mode": "ro", "uri": "true"}
    if not (log.exists() and index.exists()):
        if log.exists() and log.stat().st_size:
            raise StoreError(
                f"{url.database} cannot be read without the rows in {log}, and reading both needs a writable folder: "
                "copy both files into such a folder, and set METADATA_URI to the copy"
            )
        # no process writes, and the file is complete: otherwise SQLite would create a log beside the file
        query["immutable"] = "1"
    file = Path(url.database).absolute().as_uri()
    return create_engine(url.set(database=file, query=query), connect_args={"timeout": LOCK_TIMEOUT})


def _server(url: URL) -> Engine:
    # the system's timeout for an unreachable server is too long
    bounded = url.get_driver_name() in ("psycopg", "psycopg2")
    engine = create_engine(
        url, pool_pre_ping=True, connect_args={"connect_timeout": CONNECT_SECONDS} if bounded else {}
    )
    if engine.dialect.driver == "psycopg":
        from webcrawl.stores.answering import AnsweringConnection

        @event.listens_for(engine, "do_connect")
        def connect(dialect: object, record: object, words: Any, options: Any) -> AnsweringConnection:
            return AnsweringConnection.connect(*words, **options)

    return engine


def _is_conflict(error: SQLAlchemyError) -> bool:
    """Returns whether another transaction caused the error."""
    if not isinstance(error, DBAPIError):
        return False
    name = getattr(error.orig, "sqlite_errorname", "") or ""
    return getattr(error.orig, "sqlstate", None) in _CONFLICTS or name.startswith(_SQLITE_CONFLICTS)


def _is_temporary(error: SQLAlchemyError) -> bool:
    """Returns whether retrying may succeed."""
    if not isinstance(error, DBAPIError):
        return False
    if name := getattr(error.orig, "sqlite_errorname", None):
        return str(name).startswith(_SQLITE_TEMPORARY) or str(error.orig).startswith(_SQLITE_MISSING)
    state = getattr(error.orig, "sqlstate", None)
    if state:
        return str(state).startswith(_TEMPORARY)
    # errors of connecting have no SQLSTATE
    return error.connection_invalidated or isinstance(error, OperationalError | InterfaceError)
