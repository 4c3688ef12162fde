"""The tables of the metadata database, and the types of their columns.

`simhash` is unsigned in Python and stored in two's complement, so SQL shows a value of 2**63 or more minus 2**64.
Times are UTC: `TIMESTAMP WITH TIME ZONE` in PostgreSQL, ISO 8601 text in SQLite. Lists and dicts are JSON: `JSONB` in
PostgreSQL, text in SQLite. A change here raises the version in schema.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Dialect,
    Float,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    literal_column,
    or_,
)
from sqlalchemy.types import TypeEngine

from webcrawl.documents.values import clean, plain

LONGEST_KEY = 2_600
"""The most bytes of a URL in a primary key of PostgreSQL, together with a time, or with a crawl and a kind.

An entry of an index takes at most a third of a page: 2,704 bytes.
"""


def in_utc(moment: datetime) -> datetime:
    """Returns the time in UTC; a naive time is read as UTC."""
    if moment.tzinfo is UTC:
        return moment
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _postgresql() -> Any:
    """Returns SQLAlchemy's types of PostgreSQL. Importing them takes 0.04 s."""
    from sqlalchemy.dialects import postgresql

    return postgresql


class UtcTime(TypeDecorator[datetime]):
    """An aware datetime in UTC; a naive datetime is read as UTC."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(Text() if dialect.name == "sqlite" else DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        return self.bind_processor(dialect)(value)

    def bind_processor(self, dialect: Dialect) -> Callable[[datetime | None], Any]:
        # overridden because SQLAlchemy's method adds two calls for each value
        if dialect.name == "sqlite":
            return lambda value: None if value is None else in_utc(value).isoformat()
        return lambda value: None if value is None else in_utc(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        return self.result_processor(dialect, None)(value)

    def result_processor(self, dialect: Dialect, coltype: Any) -> Callable[[Any], datetime | None]:
        # see bind_processor
        if dialect.name == "sqlite":
            return lambda value: None if value is None else in_utc(datetime.fromisoformat(value))
        return lambda value: None if value is None else in_utc(value)


class Unsigned64(TypeDecorator[int]):
    """An integer from 0 to 2**64 - 1 in a signed 64-bit column, as two's complement."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: int | None, dialect: Dialect) -> int | None:
        return value if value is None or value < 1 << 63 else value - (1 << 64)

    def process_result_value(self, value: int | None, dialect: Dialect) -> int | None:
        return value if value is None or value >= 0 else value + (1 << 64)


class CleanText(TypeDecorator[str]):
    """Text from the web. Characters that databases refuse (NUL, lone surrogates) become U+FFFD or "?"."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return self.bind_processor(dialect)(value)

    def bind_processor(self, dialect: Dialect) -> Callable[[str | None], str | None]:
        return lambda value: None if value is None else clean(value)


class Address(CleanText):
    """A URL, sorted by its bytes, not by the collation of the database, so that the URLs of a host are adjacent."""

    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        # not type_descriptor, which would return a VARCHAR
        return Text() if dialect.name == "sqlite" else _postgresql().TEXT(collation="C")


class Structure(TypeDecorator[Any]):
    """Lists and dicts as JSON. Values of other types are stored as text; see `plain`."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(
            Text() if dialect.name == "sqlite" else _postgresql().JSONB(none_as_null=True)
        )

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        if value is None:
            return None
        value = plain(value)
        return json.dumps(value, ensure_ascii=False) if dialect.name == "sqlite" else value

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        return json.loads(value) if isinstance(value, str) and dialect.name == "sqlite" else value


_tables = MetaData()

pages = Table(
    "pages",
    _tables,
    Column("url", Address, primary_key=True),
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
    Column("state", Text),
    Column("tried_at", UtcTime),
    Column("changed_at", UtcTime),
    Column("latency", Float),
    Column("redirects", Structure),
    Column("truncated", Text),
    Column("author", CleanText),
    Column("published_at", UtcTime),
    Column("image_url", CleanText),
    Column("processing_error", CleanText),
    Column("details", Structure),
    Column("crawl", CleanText),
    Column("language_source", Text),
    Column("importance", Float),
    Column("soft_404", Boolean),
    Column("queued_at", UtcTime),
    Column("change_rate", Float),
    Column("changes", Integer),
    Column("next_due", UtcTime),
    Column("fetch_class", Text),
    Column("change_evidence", Structure),
    Column("recrawl_request", Text),
    Column("text_digest", Unsigned64),
    Column("new_links", Integer),
    Column("link_rate", Float),
    Column("is_date_set", Boolean),
    Column("signals", Structure),
    Column("change_distance", Integer),
    Column("extracted", Structure),
    Column("structured_data", Structure),
)
"""A row for each URL: its latest response, and the outcome of the latest attempt."""


# What most pages have in common (status 200, HTML) is in no index of its own: see stores/page_list.py. Together, the
# indexes take 5 us for a new row, 25 us for a row that changes, and 105 bytes. Each has a condition, and only queries
# with the same condition use it: SQLite would otherwise read all rows of a crawl to sort them by URL.
FETCHED = pages.c.fetches > literal_column("0")
"""All rows."""
WITH_UNUSUAL_STATUS = or_(pages.c.status.is_(None), pages.c.status != literal_column("200"))
WITH_UNUSUAL_TYPE = pages.c.mime_type != literal_column("'text/html'")
WITH_DUPLICATE = pages.c.duplicate_of.is_not(None)
ABOVE_THE_MEAN = pages.c.importance >= literal_column("1")
WITH_DUE_TIME = pages.c.next_due.is_not(None)
for _name, _columns, _where in (
    ("pages_by_time", (pages.c.tried_at,), FETCHED),
    ("pages_by_status", (pages.c.status, pages.c.tried_at), WITH_UNUSUAL_STATUS),
    ("pages_by_type", (pages.c.mime_type, pages.c.tried_at), WITH_UNUSUAL_TYPE),
    ("pages_of_duplicates", (pages.c.tried_at,), WITH_DUPLICATE),
    ("pages_by_importance", (pages.c.importance,), ABOVE_THE_MEAN),
    ("pages_by_due_time", (pages.c.next_due,), WITH_DUE_TIME),
):
    # `prepare` in schema.py copies the condition for PostgreSQL, whose dialect takes 0.03 s to import
    Index(_name, pages.c.crawl, *_columns, sqlite_where=_where)

fetches = Table(
    "fetches",
    _tables,
    Column("url", Address, primary_key=True),
    Column("fetched_at", UtcTime, primary_key=True),
    Column("status", Integer),
    Column("changed", Boolean),
    Column("digest", CleanText),
    Column("length", BigInteger),
    Column("latency", Float),
    Column("error", CleanText),
    Column("warc_file", CleanText),
    Column("warc_offset", BigInteger),
    Column("warc_length", BigInteger),
    sqlite_with_rowid=False,
)
"""All fetches except the latest of each URL, which is in `pages`: a URL that was fetched once has no row here."""

host_signals = Table(
    "host_signals",
    _tables,
    Column("host", CleanText, primary_key=True),
    Column("counts", Structure, nullable=False),
    sqlite_with_rowid=False,
)
"""How far the announcements of changes of a host are true: kind of signal -> `SignalCounts`."""
