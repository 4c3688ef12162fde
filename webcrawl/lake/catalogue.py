"""The catalogue of the lake: tables of Iceberg's SQL catalogue in the metadata database.

The names of the current metadata files are rows of table `iceberg_tables`. A commit replaces a name only if nobody else
has replaced it, so two processes cannot lose each other's snapshots.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any

from sqlalchemy import Connection, func, select
from sqlalchemy.engine import make_url
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from webcrawl.config import StoreConfig
from webcrawl.config.libraries import is_installed, missing, optional
from webcrawl.config.passwords import without_password
from webcrawl.errors import ConfigurationError, StoreError, brief
from webcrawl.stores.database import LOCK_TIMEOUT, Database
from webcrawl.stores.objects.store import ObjectStore, open_store

NAME = NAMESPACE = "webcrawl"
_EXTRA = "lake"
_PURPOSE = "tables of Iceberg"
_TABLES_LOCK = 0x6C616B65
"""The advisory lock under which PostgreSQL creates the tables of the catalogue: two processes at once would fail."""


def pyiceberg() -> ModuleType:
    """Returns pyiceberg with its SQL catalogue and the reader of Parquet loaded; raises LibraryMissing."""
    modules = ("pyiceberg", "pyiceberg.catalog.sql", "pyiceberg.exceptions", "pyiceberg.io.pyarrow")
    library = optional(_PURPOSE, "pyiceberg", _EXTRA, *modules)
    logging.getLogger("pyiceberg.io.pyarrow").addFilter(_is_worth_a_line)
    return library


def _is_worth_a_line(record: logging.LogRecord) -> bool:
    """Whether a record is more than the remark on each column of texts that has no statistics, on purpose."""
    return not str(record.msg).startswith("PyArrow statistics missing")


def pyarrow() -> ModuleType:
    """Returns pyarrow with its Parquet module loaded; raises LibraryMissing."""
    return optional(_PURPOSE, "pyarrow", _EXTRA, "pyarrow", "pyarrow.parquet")


def location(store: ObjectStore, name: str) -> str:
    """Returns the location of an object for Iceberg, whose readers do not decode paths; raises ConfigurationError."""
    if store.folder is not None:
        return f"file://{store.folder.absolute() / name}"
    if not store.uri().startswith("s3://"):
        raise ConfigurationError(f"LAKE: tables of Iceberg are in a folder or in S3, not in {store.uri()}")
    return store.uri(name)


def lake_store(config: StoreConfig) -> ObjectStore:
    """Returns the store of the lake's own files; raises ConfigurationError and StoreError."""
    return open_store(config.lake, "STORE_URI", config.object_stores)


def check_lake(config: StoreConfig) -> None:
    """Raises LibraryMissing and ConfigurationError if there can be no lake; imports no library of it."""
    if not is_installed("lake"):
        raise missing("LAKE", "pyiceberg", "lake")
    location(lake_store(config), "")


@contextmanager
def open_catalogue(config: StoreConfig, store: ObjectStore) -> Iterator[Any]:
    """Opens pyiceberg's catalogue with the namespace of the project.

    Raises LibraryMissing, and turns the errors of pyiceberg and its libraries into StoreError.
    """
    with lake_errors(config):
        _create_tables(config.metadata)
        catalogue = pyiceberg().catalog.sql.SqlCatalog(
            NAME,
            uri=_database(config.metadata),
            warehouse=location(store, ""),
            **store.file_access(),
        )
        try:
            with suppress(IntegrityError):  # another process was faster
                catalogue.create_namespace_if_not_exists(NAMESPACE)
            yield catalogue
        finally:
            catalogue.close()


@contextmanager
def lake_errors(config: StoreConfig) -> Iterator[None]:
    """Turns the errors of pyiceberg, SQLAlchemy and pyarrow into StoreError."""
    iceberg, arrow = pyiceberg(), pyarrow()
    # pyiceberg raises ValueError for files whose columns do not fit
    expected = (
        *(SQLAlchemyError, OSError, ValueError, arrow.ArrowException),
        *(iceberg.exceptions.CommitFailedException, iceberg.exceptions.ValidationException),
        *(iceberg.exceptions.ValidationError, iceberg.exceptions.NoSuchPropertyException),
        iceberg.exceptions.NoSuchTableError,
    )
    try:
        yield
    except expected as error:
        raise StoreError(f"the lake in {without_password(config.lake)}: {brief(error)}") from error


def _create_tables(uri: str) -> None:
    """Creates the tables of the catalogue that are missing, while no other process does."""
    tables = pyiceberg().catalog.sql.SqlCatalogBaseTable.metadata

    def work(connection: Connection) -> None:
        if connection.dialect.name == "postgresql":
            connection.execute(select(func.pg_advisory_xact_lock(_TABLES_LOCK)))
        tables.create_all(connection)

    database = Database(uri)
    try:
        database.write(work, at_leisure=True)
    finally:
        database.close()


def _database(uri: str) -> str:
    """Returns the URI of the database; SQLite waits for its lock as long as crawls do."""
    url = make_url(uri)
    if url.get_backend_name() == "sqlite":
        url = url.update_query_dict({"timeout": str(LOCK_TIMEOUT)})
    return url.render_as_string(hide_password=False)
