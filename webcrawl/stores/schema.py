"""Opens the metadata database: creates the tables of a package, upgrades older ones, and refuses newer ones.

Each package has a `Schema` for its tables: `PAGES` is here, and the schemas of jobs and alarms are in their packages.
A change of tables raises the version of their schema, and adds an upgrade step.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TypeAlias

from sqlalchemy import Column, Connection, Integer, MetaData, Table, func, inspect, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateColumn

from webcrawl.errors import StoreError
from webcrawl.stores.columns import fetches, host_signals, pages
from webcrawl.stores.database import DatabaseTables

logger = logging.getLogger(__name__)

# a random number that other programs on the same server are unlikely to lock
_SCHEMA_LOCK = 0x77656263
_MISSING_PRIVILEGE = "42501"

UpgradeStep: TypeAlias = Callable[[Connection], None]
"""Changes the tables of one version to those of the next, in the transaction of a connection.

Tables that are missing have been created as the latest version has them, so a step leaves out what exists.
"""


class Schema:
    """Tables that change together. The table named `version_table` holds their version.

    `upgrades` maps a version to the step that makes its tables from those of the version before. The first version
    without a step can only be created. PostgreSQL splits new tables with the column `hashed_by` into partitions by its
    hash; it must be part of their keys.
    """

    def __init__(
        self,
        version_table: str,
        version: int,
        *tables: Table,
        upgrades: Mapping[int, UpgradeStep] | None = None,
        hashed_by: str = "",
    ) -> None:
        self.version = version
        self.tables = tables
        self.upgrades = upgrades or {}
        self.hashed_by = hashed_by
        self.versions = Table(version_table, MetaData(), Column("version", Integer, primary_key=True))

    def steps_from(self, version: int) -> list[UpgradeStep] | None:
        """Returns the steps from an older version to this one, in order; None if one is missing."""
        steps = [self.upgrades.get(number) for number in range(version + 1, self.version + 1)]
        return None if None in steps else [step for step in steps if step is not None]


def adding(table: Table, *columns: str, indexes: tuple[str, ...] = ()) -> UpgradeStep:
    """Returns the step that adds declared columns and indexes to a table."""

    def step(connection: Connection) -> None:
        known = {column["name"] for column in inspect(connection).get_columns(table.name)}
        for name in columns:
            if name not in known:
                column = CreateColumn(table.c[name]).compile(dialect=connection.dialect)
                connection.execute(text(f"ALTER TABLE {table.name} ADD COLUMN {column}"))
        for index in table.indexes:
            if index.name in indexes:
                index.create(connection, checkfirst=True)

    return step


_RECRAWL_COLUMNS = (
    *("change_rate", "changes", "next_due", "fetch_class"),
    *("change_evidence", "recrawl_request", "text_digest"),
)

PAGES = Schema(
    "schema_version",
    12,
    pages,
    fetches,
    host_signals,
    upgrades={
        8: adding(pages, *_RECRAWL_COLUMNS, indexes=("pages_by_due_time",)),
        9: adding(pages, "new_links", "link_rate"),
        10: adding(pages, "is_date_set"),
        11: adding(pages, "signals", "change_distance"),
        12: adding(pages, "extracted", "structured_data"),
    },
    # not by the host: see docs/decisions/0023-partitions-by-url.md
    hashed_by="url",
)


class SchemaTables(DatabaseTables):
    """The tables of a schema in the database at a URI.

    The first process that opens the tables creates or upgrades them, unless `read_only`. `partitions` is the number of
    partitions of new tables in PostgreSQL, 0 for none; tables that exist stay as they are. Raises StoreError for tables
    of a newer version, of a version without upgrade, and for older tables that may only be read.
    """

    def __init__(self, uri: str, schema: Schema, *, read_only: bool = False, partitions: int = 0) -> None:
        super().__init__(uri, read_only=read_only)
        if not read_only:
            self.database.write(
                lambda connection: prepare(connection, self.name, schema, partitions), at_leisure=True
            )
            return
        with self.database.reading() as connection:
            stored = _stored_version(connection, schema)
            if stored is None:
                raise StoreError(f"{self.name} has no tables of webcrawl, and is opened for reading only")
            if _needed_steps(self.name, schema, stored):
                raise _not_upgraded(self.name, schema, stored, "it is opened for reading only")


def prepare(connection: Connection, name: str, schema: Schema, partitions: int = 0) -> None:
    """Creates or upgrades the tables of the database `name` in the transaction of `connection`.

    One process does this at a time. If the tables exist in this version, this only needs the privilege to read them.
    Raises StoreError for tables that cannot be upgraded.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(_SCHEMA_LOCK)))
        for index in (index for table in schema.tables for index in table.indexes):
            index.dialect_options["postgresql"]["where"] = index.dialect_options["sqlite"]["where"]
    schema.versions.create(connection, checkfirst=True)
    stored = _stored_version(connection, schema)
    steps = [] if stored is None else _needed_steps(name, schema, stored)
    if stored is not None and steps:
        _upgrade(connection, name, schema, stored, steps, partitions)
        return
    _create(connection, schema, partitions)
    if stored is None:
        connection.execute(schema.versions.insert().values(version=schema.version))


def _create(connection: Connection, schema: Schema, partitions: int) -> None:
    """Creates the tables that are missing."""
    is_split = connection.dialect.name == "postgresql" and partitions > 0
    for table in schema.tables:
        if not (is_split and schema.hashed_by in table.columns):
            table.create(connection, checkfirst=True)
        elif not inspect(connection).has_table(table.name):
            _create_partitioned(connection, table, schema.hashed_by, partitions)


def _create_partitioned(connection: Connection, table: Table, column: str, partitions: int) -> None:
    # a copy: the options of a table hold for all databases
    parent = table.to_metadata(MetaData())
    parent.dialect_options["postgresql"]["partition_by"] = f"HASH ({column})"
    parent.create(connection)
    for number in range(partitions):
        values = f"WITH (MODULUS {partitions}, REMAINDER {number})"
        partition = f"{table.name}_{number:0{len(str(partitions - 1))}}"
        connection.execute(text(f"CREATE TABLE {partition} PARTITION OF {table.name} FOR VALUES {values}"))


def _upgrade(
    connection: Connection,
    name: str,
    schema: Schema,
    stored: int,
    steps: list[UpgradeStep],
    partitions: int,
) -> None:
    try:
        _create(connection, schema, partitions)
        for step in steps:
            step(connection)
        connection.execute(schema.versions.update().values(version=schema.version))
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) != _MISSING_PRIVILEGE:
            raise
        why = str(error.orig).splitlines()[0]
        raise _not_upgraded(name, schema, stored, why) from error
    logger.info("%s: upgraded the schema from version %d to %d", name, stored, schema.version)


def _stored_version(connection: Connection, schema: Schema) -> int | None:
    """Returns the version of the tables, None without tables."""
    return connection.execute(select(func.max(schema.versions.c.version))).scalar()


def _needed_steps(name: str, schema: Schema, stored: int) -> list[UpgradeStep]:
    """Returns the steps that upgrade tables of the version `stored`; raises StoreError if there is no way."""
    if stored > schema.version:
        versions = _versions(schema, stored)
        raise StoreError(f"{name} was written by a newer webcrawl: {versions}. Upgrade webcrawl.")
    steps = schema.steps_from(stored)
    if steps is None:
        raise StoreError(
            f"{name} was written by an older webcrawl: {_versions(schema, stored)}. "
            "Set METADATA_URI to a new database, or use the version that wrote this one"
        )
    return steps


def _not_upgraded(name: str, schema: Schema, stored: int, why: str) -> StoreError:
    return StoreError(
        f"{name} was written by an older webcrawl: {_versions(schema, stored)}, and cannot be upgraded here ({why}). "
        "Run scrapy pages once with an account that owns the tables and may write to them"
    )


def _versions(schema: Schema, stored: int) -> str:
    return f"its schema is {stored}, this version supports {schema.version}"
