"""Opens the metadata database: creates the tables of a package, and refuses tables of another version.

Each package has a `Schema` for its tables: `PAGES` is here, and the schemas of jobs and alarms are in their packages.
A change of tables raises the version of their schema.
"""

from __future__ import annotations

from sqlalchemy import Column, Connection, Integer, MetaData, Table, func, select

from webcrawl.errors import StoreError
from webcrawl.stores.columns import fetches, pages
from webcrawl.stores.database import DatabaseTables

# a random number that other programs on the same server are unlikely to lock
_SCHEMA_LOCK = 0x77656263


class Schema:
    """Tables that change together. The table named `version_table` holds their version."""

    def __init__(self, version_table: str, version: int, *tables: Table) -> None:
        self.version = version
        self.tables = tables
        self.versions = Table(version_table, MetaData(), Column("version", Integer, primary_key=True))


PAGES = Schema("schema_version", 7, pages, fetches)


class SchemaTables(DatabaseTables):
    """The tables of a schema in the database at a URI.

    The first process that opens the tables creates them, unless `read_only`. Raises StoreError for tables of another
    version.
    """

    def __init__(self, uri: str, schema: Schema, *, read_only: bool = False) -> None:
        super().__init__(uri, read_only=read_only)
        if not read_only:
            self.database.write(lambda connection: prepare(connection, self.name, schema), at_leisure=True)
            return
        with self.database.reading() as connection:
            if _stored_version(connection, self.name, schema) is None:
                raise StoreError(f"{self.name} has no tables of webcrawl, and is opened for reading only")


def prepare(connection: Connection, name: str, schema: Schema) -> None:
    """Creates the tables of the database `name` in the transaction of `connection`, one process at a time.

    If the tables exist, this only needs the privilege to read them. Raises StoreError for tables of another version.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(_SCHEMA_LOCK)))
    schema.versions.create(connection, checkfirst=True)
    stored = _stored_version(connection, name, schema)
    for table in schema.tables:
        table.create(connection, checkfirst=True)
    if stored is None:
        connection.execute(schema.versions.insert().values(version=schema.version))


def _stored_version(connection: Connection, name: str, schema: Schema) -> int | None:
    """Returns the version of the tables, None without tables; raises StoreError unless it is `schema.version`."""
    stored = connection.execute(select(func.max(schema.versions.c.version))).scalar()
    if stored is None or stored == schema.version:
        return stored
    versions = f"its schema is {stored}, this version supports {schema.version}"
    if stored > schema.version:
        raise StoreError(f"{name} was written by a newer webcrawl: {versions}. Upgrade webcrawl.")
    raise StoreError(
        f"{name} was written by an older webcrawl: {versions}. "
        "Set METADATA_URI to a new database, or use the version that wrote this one"
    )
