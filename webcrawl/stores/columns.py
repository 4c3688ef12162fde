"""The tables of the metadata database, and how Python values lie in their columns.

`simhash` is unsigned in Python and, having 64 bits, is stored in two's complement: what SQL shows as negative
is the value minus 2**64. Times are UTC: `TIMESTAMP WITH TIME ZONE` in PostgreSQL, ISO 8601 text in SQLite.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Dialect,
    Integer,
    MetaData,
    Table,
    Text,
    TypeDecorator,
)
from sqlalchemy.types import TypeEngine

# What is asked of a change: add one here, and a step that brings older databases to it in metadata.py.
SCHEMA_VERSION = 1


class UtcTime(TypeDecorator[datetime]):
    """An aware datetime in UTC; a naive one is taken for UTC."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(Text() if dialect.name == "sqlite" else DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        if value is None:
            return None
        value = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        return value.isoformat() if dialect.name == "sqlite" else value

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        moment: datetime = datetime.fromisoformat(value) if isinstance(value, str) else value
        return moment.astimezone(UTC)


class Unsigned64(TypeDecorator[int]):
    """An integer from 0 to 2**64 - 1 in a signed 64-bit column, as two's complement."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: int | None, dialect: Dialect) -> int | None:
        return value if value is None or value < 1 << 63 else value - (1 << 64)

    def process_result_value(self, value: int | None, dialect: Dialect) -> int | None:
        return value if value is None or value >= 0 else value + (1 << 64)


class CleanText(TypeDecorator[str]):
    """Text from the web: what a database refuses (NUL, lone surrogates) becomes U+FFFD or "?"."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        if value is None or value.isascii() and "\0" not in value:
            return value
        return value.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


tables = MetaData()

pages = Table(
    "pages",
    tables,
    Column("url", CleanText, primary_key=True),
    Column("final_url", CleanText, nullable=False),
    Column("host", CleanText, nullable=False),
    Column("status", Integer),
    Column("fetched_at", UtcTime, nullable=False),
    Column("first_fetched_at", UtcTime, nullable=False),
    Column("fetches", Integer, nullable=False),
    Column("depth", Integer, nullable=False),
    Column("referrer", CleanText),
    Column("mime_type", CleanText),
    Column("charset", CleanText),
    Column("length", BigInteger),
    Column("digest", CleanText),
    Column("simhash", Unsigned64),
    Column("duplicate_of", CleanText),
    Column("duplicate_kind", CleanText),
    Column("title", CleanText),
    Column("description", CleanText),
    Column("language", CleanText),
    Column("canonical_url", CleanText),
    Column("etag", CleanText),
    Column("last_modified", CleanText),
    Column("error", CleanText),
    Column("warc_file", CleanText),
    Column("warc_offset", BigInteger),
    Column("warc_length", BigInteger),
    Column("attempts", Integer, nullable=False),
)

schema_version = Table("schema_version", tables, Column("version", Integer, primary_key=True))
