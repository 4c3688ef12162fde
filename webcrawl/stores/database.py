"""A SQLite file or a PostgreSQL server behind SQLAlchemy: transactions that wait their turn, errors that name it."""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError

from webcrawl.errors import ConfigurationError, StoreError, StoreUnavailable

# SQLite lets one process write at a time: how long to wait for one's turn, in seconds.
LOCK_TIMEOUT = 60.0
CONNECT_SECONDS = 10
"""How long a PostgreSQL server may take for a connection; what is asked over it has answering.ANSWER_SECONDS."""

T = TypeVar("T")

# PostgreSQL: serialization failure, deadlock: the same transaction may succeed a moment later.
_IN_THE_WAY = frozenset({"40001", "40P01"})
# Shutting down, starting up, connections and other resources that are used up (the disk too), a standby for now.
# A table, a column or a right that is not there: an operator's doing, no row's.
_AWAY = ("08", "53", "57P", "25006", "42501", "42P01", "42703")
_SQLITE_IN_THE_WAY = ("SQLITE_BUSY", "SQLITE_LOCKED")
_SQLITE_AWAY = (
    *_SQLITE_IN_THE_WAY,
    *("SQLITE_FULL", "SQLITE_READONLY", "SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_CORRUPT", "SQLITE_NOTADB"),
)
_SQLITE_LACKS = ("no such table", "no such column")


class Database:
    """The database at a URI: "sqlite:///path" or "postgresql://user@server/name"; `name` is the URI without password.

    Methods may be called from any thread. They raise StoreUnavailable when it is away, locked or full, or would refuse
    any row, so that the same may succeed later, and StoreError for all else that it refuses.
    """

    def __init__(self, uri: str) -> None:
        try:
            url = make_url(uri)
            self._engine = _engine(url)
            if self._engine.dialect.name not in ("sqlite", "postgresql"):
                raise ValueError(
                    f"{self._engine.dialect.name} is not supported, only sqlite and postgresql are"
                )
        except (SQLAlchemyError, ImportError, ValueError) as error:
            told = re.sub("//[^/]*@", "//...@", uri)
            driver = "; pip install 'psycopg[binary]'" if isinstance(error, ImportError) else ""
            raise ConfigurationError(f"cannot use the metadata URI {told!r}: {error}{driver}") from error
        self.name = url.render_as_string(hide_password=True)
        self.dialect = self._engine.dialect
        self._reader: Connection | None = None
        self._cursor: Any = None
        self._reader_lock = threading.Lock()

    def write(self, work: Callable[[Connection], T], *, at_leisure: bool = False) -> T:
        """The result of `work` in a transaction that is committed; begun again while another process is in the way.

        `at_leisure`: it may take any time; otherwise a server that hangs is away.
        """
        deadline = time.monotonic() + LOCK_TIMEOUT
        while True:
            try:
                with self._engine.begin() as connection, self._pace(connection, at_leisure):
                    if self.dialect.name == "sqlite":
                        # what it reads must still hold when it writes
                        connection.execute(text("BEGIN IMMEDIATE"))
                    return work(connection)
            except SQLAlchemyError as error:
                if not _is_in_the_way(error) or time.monotonic() > deadline:
                    raise self._failure(error) from error
                time.sleep(random.uniform(0.01, 0.1))

    @contextmanager
    def reading(self, *, at_leisure: bool = True) -> Iterator[Connection]:
        """A connection to read by; see `write`."""
        try:
            with self._engine.connect() as connection, self._pace(connection, at_leisure):
                yield connection
        except SQLAlchemyError as error:
            raise self._failure(error) from error

    def first(self, statement: str, parameters: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """The row of a query that gives one or none, in the driver's own words, over a connection kept for this.

        SQLAlchemy's own way takes five times as long for a row.
        """
        with self._reader_lock:
            try:
                return self._fetch(statement, parameters)
            except Exception:
                # it may have been lost while nobody used it; what is really wrong shows again
                self._let_go()
            try:
                return self._fetch(statement, parameters)
            except Exception as error:
                self._let_go()
                raise self._failure(self._as_sqlalchemys(statement, error)) from error

    def close(self) -> None:
        """Give back the connections; a later call opens new ones."""
        with self._reader_lock:
            self._let_go()
        self._engine.dispose()

    def _pace(self, connection: Connection, at_leisure: bool) -> AbstractContextManager[None]:
        if at_leisure and self.dialect.driver == "psycopg":
            from webcrawl.stores import answering  # its driver may not be there

            return answering.at_leisure(connection.connection.dbapi_connection)
        return nullcontext()

    def _fetch(self, statement: str, parameters: Mapping[str, Any]) -> tuple[Any, ...] | None:
        if self._reader is None:
            self._reader = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            # one for all: to make one takes a driver as long as the rest of its work
            self._cursor = self._reader.connection.cursor()
        self._cursor.execute(statement, parameters)
        # to the end: a statement that is not through keeps SQLite at what the file was when it began
        rows = self._cursor.fetchall()
        return tuple(rows[0]) if rows else None

    def _as_sqlalchemys(self, statement: str, error: Exception) -> SQLAlchemyError:
        """An exception of the driver, which was asked without SQLAlchemy, as one of SQLAlchemy's."""
        drivers: Any = getattr(self.dialect.dbapi, "Error", ())
        if isinstance(error, drivers):
            known = DBAPIError.instance(statement, None, error, drivers, dialect=self.dialect)
            assert isinstance(known, SQLAlchemyError)
            return known
        return error if isinstance(error, SQLAlchemyError) else SQLAlchemyError(str(error))

    def _let_go(self) -> None:
        reader, self._reader, self._cursor = self._reader, None, None
        if reader is not None:
            with suppress(Exception):
                reader.invalidate()
                reader.close()

    def _failure(self, error: SQLAlchemyError) -> StoreError:
        cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
        kind = StoreUnavailable if _is_away(error) else StoreError
        # PostgreSQL's own words without the values of the row that it quotes
        primary = getattr(getattr(cause, "diag", None), "message_primary", None)
        return kind(f"{self.name}: {' '.join(str(primary or cause).split())}")


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
        # Readers go on while another process writes; a commit survives a killed process, a lost machine may
        # lose the last commits but never the file.
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        # A batch of 500 known URLs changes 4 MB of pages all over the file: they fit into the cache (in KiB), and
        # are not copied from the log into the file (at so many pages, 16 MB) after every batch.
        connection.execute("PRAGMA cache_size = -16384")
        connection.execute("PRAGMA wal_autocheckpoint = 4096")

    return engine


def _server(url: URL) -> Engine:
    # a server that is cut off must not be waited for as long as the system would
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


def _is_in_the_way(error: SQLAlchemyError) -> bool:
    """Whether another transaction is the reason."""
    if not isinstance(error, DBAPIError):
        return False
    name = getattr(error.orig, "sqlite_errorname", "") or ""
    return getattr(error.orig, "sqlstate", None) in _IN_THE_WAY or name.startswith(_SQLITE_IN_THE_WAY)


def _is_away(error: SQLAlchemyError) -> bool:
    """Whether the same may succeed later."""
    if not isinstance(error, DBAPIError):
        return False
    if name := getattr(error.orig, "sqlite_errorname", None):
        return str(name).startswith(_SQLITE_AWAY) or str(error.orig).startswith(_SQLITE_LACKS)
    state = getattr(error.orig, "sqlstate", None)
    if state:
        return str(state).startswith(_AWAY)
    # a driver that could not connect, or lost its connection, has no state to tell
    return error.connection_invalidated or isinstance(error, OperationalError | InterfaceError)
