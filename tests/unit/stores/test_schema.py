"""Schema upgrades, from databases created with the SQL of older versions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, inspect, text

from tests.postgres import PostgresServer
from tests.together import together
from webcrawl.errors import StoreError
from webcrawl.page import Page
from webcrawl.stores import schema
from webcrawl.stores.database import Database
from webcrawl.stores.metadata import Metadata

THEN = "2026-01-02T03:04:05.000006+00:00"
SCHEMA_1 = """
CREATE TABLE schema_version (version {serial} NOT NULL, PRIMARY KEY (version));
CREATE TABLE pages (url TEXT NOT NULL, final_url TEXT NOT NULL, host TEXT NOT NULL, status INTEGER,
  fetched_at {time} NOT NULL, first_fetched_at {time} NOT NULL, fetches INTEGER NOT NULL, depth INTEGER NOT NULL,
  referrer TEXT, mime_type TEXT, charset TEXT, length BIGINT, digest TEXT, simhash BIGINT, duplicate_of TEXT,
  duplicate_kind TEXT, title TEXT, description TEXT, language TEXT, canonical_url TEXT, etag TEXT, last_modified TEXT,
  error TEXT, warc_file TEXT, warc_offset BIGINT, warc_length BIGINT, attempts INTEGER NOT NULL, PRIMARY KEY (url));
INSERT INTO schema_version VALUES (1);
INSERT INTO pages (url, final_url, host, status, fetched_at, first_fetched_at, fetches, depth, digest, simhash, title,
  attempts) VALUES ('http://a.example/', 'http://a.example/', 'http://a.example', 200, '{then}', '{then}', 3, 0,
  'sha1:A', -1, 'old', 1);
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def new_uri(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], str]]:
    """Returns the URI of a new empty database."""
    if request.param == "sqlite":
        numbers = iter(range(100))
        yield lambda: f"sqlite:///{tmp_path}/{next(numbers)}.db"
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        yield server.new_database


def make_old(uri: str, version: str = SCHEMA_1) -> str:
    """Creates a database with the schema of an older version and one row."""
    engine = create_engine(uri)
    in_sqlite = uri.startswith("sqlite")
    time, serial = ("TEXT", "INTEGER") if in_sqlite else ("TIMESTAMP WITH TIME ZONE", "SERIAL")
    with engine.begin() as connection:
        for statement in version.format(time=time, serial=serial, then=THEN).split(";\n"):
            if statement.strip():
                connection.execute(text(statement))
    engine.dispose()
    return uri


def tables_of(uri: str) -> dict[str, Any]:
    """The columns in order with their types and collations, the primary key, indexes and options of each table."""
    engine = create_engine(uri)
    looked = inspect(engine)
    found = {
        table: (
            [(c["name"], repr(c["type"]), c["nullable"], c["default"]) for c in looked.get_columns(table)],
            looked.get_pk_constraint(table)["constrained_columns"],
            looked.get_indexes(table),
            looked.get_table_options(table),
        )
        for table in looked.get_table_names()
    }
    engine.dispose()
    return found


def test_upgraded_schema_equals_a_new_one(new_uri: Callable[[], str]) -> None:
    old, new = make_old(new_uri()), new_uri()
    for uri in (old, new):
        Metadata(uri).close()
    assert tables_of(old) == tables_of(new)


def test_upgrade_keeps_rows_that_can_then_be_updated(new_uri: Callable[[], str]) -> None:
    then = datetime.fromisoformat(THEN)
    with Metadata(make_old(new_uri())) as metadata:
        row = metadata.get("http://a.example/")
        assert row is not None
        assert (row["title"], row["simhash"], row["fetches"], row["fetched_at"]) == (
            "old",
            2**64 - 1,
            3,
            then,
        )
        assert (row["state"], row["tried_at"], row["details"]) == (None, None, None)
        now = datetime(2026, 2, 1, tzinfo=UTC)
        page = Page(
            url="http://a.example/", host="http://a.example", fetched_at=now, status=200, digest="sha1:B"
        )
        metadata.upsert([page.row()])
        row = metadata.get("http://a.example/")
        assert row is not None
        assert (row["title"], row["fetches"], row["first_fetched_at"], row["state"]) == (
            None,
            4,
            then,
            "fetched",
        )
        history = metadata.history("http://a.example/")
        assert [(fetch.fetched_at, fetch.digest, fetch.changed) for fetch in history] == [
            (then, "sha1:A", False),
            (now, "sha1:B", True),
        ]


def test_failed_step_leaves_the_database_unchanged(new_uri: Callable[[], str]) -> None:
    uri = make_old(new_uri())
    before = tables_of(uri)
    broken = schema.Step((*schema.STEPS[-1].statements, "ALTER TABLE pages ADD COLUMN title TEXT"))
    changed = schema.PAGES._replace(steps=(*schema.STEPS[:-1], broken))
    database = Database(uri)
    with pytest.raises(StoreError, match=r"(crawl\d|\.db).*(duplicate column|already exists)"):
        database.write(lambda connection: schema.prepare(connection, database.name, changed))
    database.close()
    assert tables_of(uri) == before
    with Metadata(uri) as metadata:
        assert metadata.count() == 1


READS = "GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}"
WRITES = (
    "GRANT SELECT ON schema_version TO {role}",
    "GRANT SELECT, INSERT, UPDATE ON pages TO {role}",
    "GRANT SELECT, INSERT, DELETE ON fetches TO {role}",
)


def test_roles_without_create_permission_can_read_or_write_existing_tables(postgres: PostgresServer) -> None:
    """With the permissions listed in docs/exports.md."""
    uri = postgres.new_database()
    Metadata(uri).close()
    reader, writer = (postgres.as_role(uri, role) for role in ("reader", "writer"))
    postgres.execute(uri, READS.format(role="reader"), *(words.format(role="writer") for words in WRITES))
    page = Page(url="http://a.example/", host="http://a.example", fetched_at=datetime(2026, 2, 1, tzinfo=UTC))
    with Metadata(writer, history=1) as metadata:
        for day in range(1, 5):
            page.fetched_at = datetime(2026, 2, day, tzinfo=UTC)
            metadata.upsert([page.row()])
    with Metadata(reader) as metadata:
        assert [row["fetches"] for row in metadata.scan()] == [4]
        assert len(metadata.history(page.url)) == 2
        with pytest.raises(StoreError, match="permission denied for table"):
            metadata.upsert([page.row()])


def test_role_without_permissions_is_rejected(postgres: PostgresServer) -> None:
    uri = postgres.new_database()
    outsider = postgres.as_role(uri, "outsider")
    # the default since PostgreSQL 15
    postgres.execute(uri, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    with pytest.raises(StoreError, match="permission denied for schema public"):
        Metadata(outsider)
    Metadata(make_old(uri)).close()
    with pytest.raises(StoreError, match="permission denied for table schema_version"):
        Metadata(outsider)


def test_dropped_tables_are_recreated(new_uri: Callable[[], str]) -> None:
    uri, whole = new_uri(), new_uri()
    for one in (uri, whole):
        Metadata(one).close()
    engine = create_engine(uri)
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE pages"))
    engine.dispose()
    Metadata(uri).close()
    assert tables_of(uri) == tables_of(whole)


def _upgrade(uris: list[str], start: Any) -> None:
    for uri in uris:
        start.wait(30)
        with Metadata(uri) as metadata:
            assert metadata.count() == 1


def test_concurrent_processes_can_upgrade_one_database(new_uri: Callable[[], str]) -> None:
    uris = [make_old(new_uri()) for _ in range(4)]
    together(2, _upgrade, uris)


def test_worker_of_an_older_version_can_write_after_the_upgrade(new_uri: Callable[[], str]) -> None:
    """A running crawl keeps writing while another process upgrades its database."""
    uri = make_old(new_uri())
    engine = create_engine(uri)
    insert = text(
        "INSERT INTO pages (url, final_url, host, fetched_at, first_fetched_at, fetches, depth, attempts) VALUES"
        f" ('http://b.example/', '', '', '{THEN}', '{THEN}', 1, 0, 1)"
    )
    with engine.connect() as old_worker:
        assert old_worker.execute(text("SELECT count(*) FROM pages")).scalar() == 1
        old_worker.rollback()
        Metadata(uri).close()
        old_worker.execute(insert)
        old_worker.commit()
    engine.dispose()
    with Metadata(uri) as metadata:
        assert metadata.count() == 2


def test_an_older_file_that_may_only_be_read_is_refused(tmp_path: Path) -> None:
    uri = make_old(f"sqlite:///{tmp_path}/old.db")
    with pytest.raises(
        StoreError, match=r"old\.db was written by an older webcrawl \(schema 1, .* may write to it"
    ):
        Metadata(uri, read_only=True)
