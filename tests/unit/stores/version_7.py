"""The tables of pages as version 0.1.0 created them."""

from __future__ import annotations

from sqlalchemy import Connection, create_engine, text

_PAGES = """
CREATE TABLE pages (
    url {url} NOT NULL, final_url TEXT NOT NULL, host TEXT NOT NULL, status INTEGER,
    fetched_at {time} NOT NULL, first_fetched_at {time} NOT NULL, fetches INTEGER NOT NULL, depth INTEGER NOT NULL,
    referrer TEXT, mime_type TEXT, charset TEXT, length BIGINT, digest TEXT, simhash BIGINT,
    duplicate_of TEXT, duplicate_kind TEXT, title TEXT, description TEXT, language TEXT, canonical_url TEXT,
    etag TEXT, last_modified TEXT, error TEXT, warc_file TEXT, warc_offset BIGINT, warc_length BIGINT,
    attempts INTEGER NOT NULL, state TEXT, tried_at {time}, changed_at {time}, latency FLOAT, redirects {structure},
    truncated TEXT, author TEXT, published_at {time}, image_url TEXT, processing_error TEXT, details {structure},
    crawl TEXT, language_source TEXT, importance FLOAT, soft_404 BOOLEAN, queued_at {time},
    PRIMARY KEY (url)
)
"""
_FETCHES = """
CREATE TABLE fetches (
    url {url} NOT NULL, fetched_at {time} NOT NULL, status INTEGER, changed BOOLEAN, digest TEXT, length BIGINT,
    latency FLOAT, error TEXT, warc_file TEXT, warc_offset BIGINT, warc_length BIGINT,
    PRIMARY KEY (url, fetched_at)
){rowid}
"""
_INDEXES = """
CREATE INDEX pages_by_importance ON pages (crawl, importance) WHERE importance >= 1;
CREATE INDEX pages_by_status ON pages (crawl, status, tried_at) WHERE status IS NULL OR status != 200;
CREATE INDEX pages_by_time ON pages (crawl, tried_at) WHERE fetches > 0;
CREATE INDEX pages_by_type ON pages (crawl, mime_type, tried_at) WHERE mime_type != 'text/html';
CREATE INDEX pages_of_duplicates ON pages (crawl, tried_at) WHERE duplicate_of IS NOT NULL
"""
_VERSION = "CREATE TABLE schema_version (version {number} NOT NULL, PRIMARY KEY (version))"
_ROWS = """
INSERT INTO pages (url, final_url, host, status, fetched_at, first_fetched_at, fetches, depth, simhash,
    digest, attempts, state, tried_at, changed_at, redirects, details, crawl, soft_404)
VALUES ('https://example.org/Grüße', 'https://example.org/', 'https://example.org', 200, '2026-02-03 04:05:06+00:00',
    '2026-02-01 00:00:00+00:00', 2, 1, -1, 'sha1:B', 1, 'fetched', '2026-02-03 04:05:06+00:00',
    '2026-02-03 04:05:06+00:00', '["https://example.org/a"]', '{"n": 1.5}', 'news', FALSE);
INSERT INTO fetches (url, fetched_at, status, changed, digest)
VALUES ('https://example.org/Grüße', '2026-02-01 00:00:00+00:00', 200, FALSE, 'sha1:A');
INSERT INTO schema_version VALUES (7)
"""
_SQLITE = {"number": "INTEGER", "url": "TEXT", "time": "TEXT", "structure": "TEXT", "rowid": " WITHOUT ROWID"}
_POSTGRESQL = {
    "number": "SERIAL",
    "url": 'TEXT COLLATE "C"',
    "time": "TIMESTAMP WITH TIME ZONE",
    "structure": "JSONB",
    "rowid": "",
}


def create(uri: str) -> None:
    """Creates the tables, with a page that was fetched twice."""
    engine = create_engine(uri)
    with engine.begin() as connection:
        types = _SQLITE if engine.dialect.name == "sqlite" else _POSTGRESQL
        _run(connection, _VERSION.format(**types), _PAGES.format(**types), _FETCHES.format(**types))
        _run(connection, *_INDEXES.split(";"), *_ROWS.split(";"))
    engine.dispose()


def _run(connection: Connection, *statements: str) -> None:
    for statement in statements:
        connection.execute(text(statement.replace(": 1", "\\: 1")))
