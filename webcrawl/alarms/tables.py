"""The tables `stuck` and `notices`, in the metadata database.

To change them, append a step to the schema below; see webcrawl.stores.schema.
"""

from __future__ import annotations

from sqlalchemy import Column, Index, Integer, MetaData, Table, Text

from webcrawl.stores.columns import Address, CleanText, Structure, UtcTime
from webcrawl.stores.database import Database, is_read_only
from webcrawl.stores.schema import Schema, Step, check, prepare

_tables = MetaData()

stuck = Table(
    "stuck",
    _tables,
    Column("crawl", Text, primary_key=True),
    Column("url", Address, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("reason", CleanText, nullable=False),
    Column("created", UtcTime, nullable=False),
    Column("updated", UtcTime, nullable=False),
    Column("notified", UtcTime),
    Column("queued_at", UtcTime),
    Index("stuck_by_notified", "crawl", "notified"),
    sqlite_with_rowid=False,
)
"""Pages of crawls that were fetched or tried and not processed, by kind; see webcrawl.alarms.stuck."""

notices = Table(
    "notices",
    _tables,
    Column("id", Integer, primary_key=True),
    Column("key", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("job", CleanText),
    Column("crawl", CleanText),
    Column("title", CleanText, nullable=False),
    Column("text", CleanText, nullable=False),
    Column("link", CleanText),
    Column("created", UtcTime, nullable=False),
    Column("targets", Structure),
    Column("due", UtcTime),
    Column("attempts", Integer, nullable=False),
    Column("error", CleanText),
    Column("sent", UtcTime),
    Index("notices_by_key", "key", unique=True),
)
"""Notifications, and those that are still to be sent; see webcrawl.alarms.outbox."""

_ALARMS = Schema(
    Table("alarms_version", _tables, Column("version", Integer, primary_key=True)),
    (stuck, notices),
    # to 2: when the crawl had queued the URL first
    (Step(("ALTER TABLE stuck ADD COLUMN queued_at {time}",)),),
)


def open_database(uri: str) -> Database:
    """Returns the metadata database at a URI, with these tables; raises StoreError and ConfigurationError.

    A file that this process may not write is opened to be read, as it is; StoreError if it is of another version.
    """
    database = Database(uri, read_only=is_read_only(uri))
    if is_read_only(uri):
        with database.reading() as connection:
            check(connection, database.name, _ALARMS)
    else:
        database.write(lambda connection: prepare(connection, database.name, _ALARMS), at_leisure=True)
    return database
