"""Creates the tables of the metadata database, or migrates those of an older version.

To change the tables of pages, change columns.py and append a step to `STEPS`. Released steps never change.
tests/unit/stores/test_schema.py compares a migrated database with a new one. Other rooms keep tables of their own in
the same database, each room with a `Schema`.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from sqlalchemy import Connection, Table, func, select

from webcrawl.errors import StoreError
from webcrawl.stores.columns import fetches, pages, schema_version

logger = logging.getLogger(__name__)


class Step(NamedTuple):
    """Statements that migrate one version to the next; {time}, {json}, {number}... are keys of `_WORDS`."""

    statements: tuple[str, ...]
    only_postgresql: tuple[str, ...] = ()


class Schema(NamedTuple):
    """Tables that change together; `current` has one column, the version, and a row for each step that was taken."""

    current: Table
    tables: tuple[Table, ...]
    steps: tuple[Step, ...] = ()

    @property
    def version(self) -> int:
        return 1 + len(self.steps)


STEPS: tuple[Step, ...] = (
    # to 2: the history of fetches, the outcome of the latest attempt, facts of documents of more types
    Step(
        (
            *(
                f"ALTER TABLE pages ADD COLUMN {column}"
                for column in (
                    "state TEXT",
                    "tried_at {time}",
                    "changed_at {time}",
                    "latency {number}",
                    "redirects {json}",
                    "truncated TEXT",
                    "author TEXT",
                    "published_at {time}",
                    "image_url TEXT",
                    "processing_error TEXT",
                    "details {json}",
                )
            ),
            "CREATE TABLE fetches (url {address} NOT NULL, fetched_at {time} NOT NULL, status INTEGER, changed BOOLEAN,"
            " digest TEXT, length BIGINT, latency {number}, error TEXT, warc_file TEXT, warc_offset BIGINT,"
            " warc_length BIGINT, PRIMARY KEY (url, fetched_at)){by_key}",
        ),
        # sorted by bytes, the URLs of a host are adjacent
        only_postgresql=('ALTER TABLE pages ALTER COLUMN url TYPE TEXT COLLATE "C"',),
    ),
    # to 3: the crawl that fetched the URL last
    Step(("ALTER TABLE pages ADD COLUMN crawl TEXT",)),
    # to 4: where the language comes from
    Step(("ALTER TABLE pages ADD COLUMN language_source TEXT",)),
    # to 5: the importance of pages
    Step(("ALTER TABLE pages ADD COLUMN importance {number}",)),
    # to 6: error pages that answer with 200
    Step(("ALTER TABLE pages ADD COLUMN soft_404 BOOLEAN",)),
    # to 7: when the crawl had queued the URL first
    Step(("ALTER TABLE pages ADD COLUMN queued_at {time}",)),
)

PAGES = Schema(schema_version, (pages, fetches), STEPS)
SCHEMA_VERSION = PAGES.version

_WORDS = {
    "sqlite": {
        "time": "TEXT",
        "json": "TEXT",
        "number": "FLOAT",
        "address": "TEXT",
        "by_key": " WITHOUT ROWID",
    },
    "postgresql": {
        "time": "TIMESTAMP WITH TIME ZONE",
        "json": "JSONB",
        "number": "FLOAT",
        "address": 'TEXT COLLATE "C"',
        "by_key": "",
    },
}

# an arbitrary number that other programs on the same server are unlikely to lock
_SCHEMA_LOCK = 0x77656263


def prepare(connection: Connection, name: str, schema: Schema = PAGES) -> None:
    """Create or migrate tables of the database `name` in the transaction of `connection`.

    One process at a time does so. If the tables are up to date, this only needs the privilege to read them. Raises
    StoreError for the tables of a newer version.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(_SCHEMA_LOCK)))
    schema.current.create(connection, checkfirst=True)
    found = _version(connection, name, schema)
    if found is not None and found < schema.version:
        _migrate(connection, found, schema)
        logger.info("%s: migrated the tables from schema %d to %d", name, found, schema.version)
        return
    for table in schema.tables:
        table.create(connection, checkfirst=True)
    if found is None:
        connection.execute(schema.current.insert().values(version=schema.version))


def check(connection: Connection, name: str, schema: Schema = PAGES) -> None:
    """Raises StoreError unless this version can read the tables as they are."""
    if (found := _version(connection, name, schema)) != schema.version:
        raise StoreError(
            f"{name} was written by an older webcrawl (schema {found}, now {schema.version}) and is read-only here. "
            "Run the command once as a user who may write to it: that migrates it"
        )


def _version(connection: Connection, name: str, schema: Schema) -> int | None:
    """The version of the tables, None for those of no version; raises StoreError if it is newer than this one."""
    found = connection.execute(select(func.max(schema.current.c.version))).scalar()
    if found is not None and found > schema.version:
        newer = f"its schema is {found}, this version supports {schema.version}"
        raise StoreError(f"{name} was written by a newer webcrawl: {newer}. Upgrade webcrawl.")
    return found


def _migrate(connection: Connection, found: int, schema: Schema) -> None:
    dialect = connection.dialect.name
    for version, step in enumerate(schema.steps[found - 1 :], found + 1):
        extra = step.only_postgresql if dialect == "postgresql" else ()
        for statement in (*step.statements, *extra):
            connection.exec_driver_sql(statement.format(**_WORDS[dialect]))
        connection.execute(schema.current.insert().values(version=version))
