"""How a metadata database gets the tables of columns.py: made anew, or from an older webcrawl's step by step.

A change of the tables is a change in columns.py and one more step at the end of `STEPS`, in SQL that stays as it is
when the tables change again. tests/unit/stores/test_schema.py compares what the steps make of an old database
with a new one.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from sqlalchemy import Connection, func, select

from webcrawl.errors import StoreError
from webcrawl.stores.columns import fetches, pages, schema_version

logger = logging.getLogger(__name__)


class Step(NamedTuple):
    """Statements that lead from one version to the next; {time}, {json}, {number}... are words of `_WORDS`."""

    statements: tuple[str, ...]
    only_postgresql: tuple[str, ...] = ()


STEPS: tuple[Step, ...] = (
    # to 2: the history of fetches, what became of the latest try, what documents of more types tell
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
        # URLs of a host stand together only in the order of their bytes
        only_postgresql=('ALTER TABLE pages ALTER COLUMN url TYPE TEXT COLLATE "C"',),
    ),
    # to 3: which crawl asked last
    Step(("ALTER TABLE pages ADD COLUMN crawl TEXT",)),
    # to 4: whether a page said its language itself
    Step(("ALTER TABLE pages ADD COLUMN language_source TEXT",)),
)

SCHEMA_VERSION = 1 + len(STEPS)

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

# Any number that no other program on the same PostgreSQL server is likely to lock.
_SCHEMA_LOCK = 0x77656263


def prepare(connection: Connection, name: str) -> None:
    """Give the database `name` its tables, in the transaction of `connection`: one process at a time, all or nothing.

    Where they are, nothing but the right to read them is needed. Raises StoreError when a newer webcrawl wrote it.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(_SCHEMA_LOCK)))
    schema_version.create(connection, checkfirst=True)
    found = connection.execute(select(func.max(schema_version.c.version))).scalar()
    if found is not None and found > SCHEMA_VERSION:
        newer = f"its schema is {found}, this one knows {SCHEMA_VERSION}"
        raise StoreError(f"{name} was written by a newer webcrawl: {newer}")
    if found is not None and found < SCHEMA_VERSION:
        _bring_up(connection, found)
        logger.info("%s: its tables were brought from schema %d to %d", name, found, SCHEMA_VERSION)
        return
    for table in (pages, fetches):
        table.create(connection, checkfirst=True)
    if found is None:
        connection.execute(schema_version.insert().values(version=SCHEMA_VERSION))


def _bring_up(connection: Connection, found: int) -> None:
    dialect = connection.dialect.name
    for version, step in enumerate(STEPS[found - 1 :], found + 1):
        extra = step.only_postgresql if dialect == "postgresql" else ()
        for statement in (*step.statements, *extra):
            connection.exec_driver_sql(statement.format(**_WORDS[dialect]))
        connection.execute(schema_version.insert().values(version=version))
