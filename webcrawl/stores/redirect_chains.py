"""Reads the rows of URLs and of the pages to which they redirect, with one query for many URLs.

The query finds rows by the primary key, for each URL and hop. It is run as text by the driver, and its columns keep
the driver's types: SQLAlchemy would take five times as long for a row.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from webcrawl.stores.database import Database

MOST_HOPS = 20
TIMES = ("fetched_at", "tried_at", "first_fetched_at", "changed_at", "published_at")
_COLUMNS = (
    *("url", "final_url", "status", "state", "error", "title", "description", "image_url", "canonical_url"),
    *("author", "published_at", "language", "mime_type", "charset", "length", "digest", "truncated"),
    *("fetched_at", "tried_at", "first_fetched_at", "changed_at", "fetches", "changes", "depth", "crawl"),
    *("duplicate_of", "duplicate_kind", "soft_404", "etag", "last_modified", "importance", "warc_file"),
    *("warc_offset", "warc_length", "details"),
)
_ISO = 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"'
_FETCHES = (
    *("url", "fetched_at", "status", "changed", "digest", "length", "latency", "error"),
    *("warc_file", "warc_offset", "warc_length"),
)


class ChainRow(NamedTuple):
    """A row of table `pages`. Times are ISO 8601 in UTC, `details` is JSON."""

    url: str
    final_url: str
    status: int | None
    state: str | None
    error: str | None
    title: str | None
    description: str | None
    image_url: str | None
    canonical_url: str | None
    author: str | None
    published_at: str | None
    language: str | None
    mime_type: str | None
    charset: str | None
    length: int | None
    digest: str | None
    truncated: str | None
    fetched_at: str
    tried_at: str | None
    first_fetched_at: str
    changed_at: str | None
    fetches: int
    changes: int | None
    depth: int
    crawl: str | None
    duplicate_of: str | None
    duplicate_kind: str | None
    soft_404: bool | None
    etag: str | None
    last_modified: str | None
    importance: float | None
    warc_file: str | None
    warc_offset: int | None
    warc_length: int | None
    details: str | None


class EarlierFetch(NamedTuple):
    """A row of table `fetches`; `fetched_at` is ISO 8601 in UTC."""

    url: str
    fetched_at: str
    status: int | None
    changed: bool | None
    digest: str | None
    length: int | None
    latency: float | None
    error: str | None
    warc_file: str | None
    warc_offset: int | None
    warc_length: int | None


class RedirectChains:
    """Reads from a database with the tables of pages. Methods block, and raise StoreError."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._is_sqlite = database.dialect.name == "sqlite"
        self._chains, self._earlier = _statements(is_sqlite=self._is_sqlite)

    def read(self, urls: Sequence[str]) -> dict[str, list[ChainRow]]:
        """Returns by URL its own row and those to which it redirects, in order. URLs without a row are left out."""
        chains: defaultdict[str, list[ChainRow]] = defaultdict(list)
        rows = self._rows(self._chains, urls)
        rows.sort(key=itemgetter(1))
        for row in rows:
            chains[row[0]].append(ChainRow._make(row[2:]))
        return chains

    def earlier(self, urls: Sequence[str]) -> dict[str, list[EarlierFetch]]:
        """Returns the earlier fetches by URL, the oldest first; the latest fetch is in the row of the URL."""
        fetches: defaultdict[str, list[EarlierFetch]] = defaultdict(list)
        for row in self._rows(self._earlier, urls):
            fetches[row[0]].append(EarlierFetch._make(row))
        return fetches

    def _rows(self, statement: str, urls: Sequence[str]) -> list[tuple[Any, ...]]:
        return self._database.rows(statement, {"urls": json.dumps(urls) if self._is_sqlite else list(urls)})


def _statements(*, is_sqlite: bool) -> tuple[str, str]:
    """Returns the statements on `urls` for the chains and for earlier fetches."""
    source = "json_each(:urls) AS given" if is_sqlite else "unnest(%(urls)s::text[]) AS given(value)"
    # the wide columns are read last: a recursive query copies its rows
    row, same = ("rowid", "pages.rowid = hop.row") if is_sqlite else ("url", "pages.url = hop.row")
    narrow = f"pages.{row}, pages.url, pages.final_url, pages.status"
    shown = ", ".join(_shown(name, is_sqlite=is_sqlite, table="pages.") for name in _COLUMNS)
    chains = f"""
        WITH RECURSIVE hop(asked, hops, row, url, final_url, status) AS (
            SELECT given.value, 0, {narrow} FROM {source} JOIN pages ON pages.url = given.value
            UNION ALL
            SELECT hop.asked, hop.hops + 1, {narrow} FROM hop JOIN pages ON pages.url = hop.final_url
            WHERE hop.status >= 300 AND hop.status < 400 AND hop.final_url <> hop.url AND hop.hops < {MOST_HOPS}
        )
        SELECT hop.asked, hop.hops, {shown} FROM hop {"CROSS JOIN" if is_sqlite else "JOIN"} pages ON {same}"""
    names = ", ".join(_shown(name, is_sqlite=is_sqlite, table="fetches.") for name in _FETCHES)
    earlier = (
        f"SELECT {names} FROM {source} JOIN fetches ON fetches.url = given.value ORDER BY fetches.fetched_at"
    )
    return chains, earlier


def _shown(name: str, *, is_sqlite: bool, table: str = "") -> str:
    """Returns a column as text where SQLite has text."""
    if is_sqlite:
        return f"{table}{name}"
    if name in TIMES:
        return f"to_char({table}{name} AT TIME ZONE 'UTC', '{_ISO}') AS {name}"
    return f"{table}{name}::text AS {name}" if name == "details" else f"{table}{name}"
