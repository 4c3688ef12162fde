"""The tables `stuck` and `notices`, in the metadata database.

A change of the tables raises the version of the schema below.
"""

from __future__ import annotations

from sqlalchemy import Column, Index, Integer, MetaData, Table, Text

from webcrawl.stores.columns import Address, CleanText, Structure, UtcTime
from webcrawl.stores.schema import Schema

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
"""Pages that were fetched or tried but not processed, by kind; see webcrawl.alarms.stuck."""

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
"""Sent and unsent notifications; see webcrawl.alarms.outbox."""

ALARMS = Schema("alarms_version", 2, stuck, notices)
