"""The tables of the metadata database: who may open them, and of which version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any

import pytest
from sqlalchemy import create_engine, inspect, text

from tests.postgres import PostgresServer
from webcrawl.documents.page import Page
from webcrawl.errors import StoreError
from webcrawl.stores.metadata import Metadata


def _plain(index: Mapping[str, Any]) -> dict[str, Any]:
    """An index with its condition as text, which can be compared."""
    options = {name: str(value) for name, value in index.get("dialect_options", {}).items()}
    return {**index, "dialect_options": options}


def tables_of(uri: str) -> dict[str, Any]:
    """The columns in order with their types and collations, the primary key, indexes and options of each table.

    Of a partition only the names of its columns: the rest is as its table has it, and PostgreSQL names the indexes.
    """
    engine = create_engine(uri)
    looked = inspect(engine)
    found = {
        table: [column["name"] for column in looked.get_columns(table)]
        if "postgresql_inherits" in looked.get_table_options(table)
        else (
            [(c["name"], repr(c["type"]), c["nullable"], c["default"]) for c in looked.get_columns(table)],
            looked.get_pk_constraint(table)["constrained_columns"],
            sorted((_plain(index) for index in looked.get_indexes(table)), key=itemgetter("name")),
            looked.get_table_options(table),
        )
        for table in looked.get_table_names()
    }
    engine.dispose()
    return found


READS = "GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}"
WRITES = (
    "GRANT SELECT ON schema_version TO {role}",
    "GRANT SELECT, INSERT, UPDATE ON pages TO {role}",
    "GRANT SELECT, INSERT, DELETE ON fetches TO {role}",
)


def test_roles_without_create_permission_can_read_or_write_existing_tables(postgres: PostgresServer) -> None:
    """With the permissions listed in docs/guide/exports.md."""
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
    Metadata(uri).close()
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


@pytest.mark.parametrize("read_only", [False, True])
def test_tables_of_an_older_version_are_refused(new_uri: Callable[[], str], read_only: bool) -> None:
    uri = new_uri()
    Metadata(uri).close()
    engine = create_engine(uri)
    with engine.begin() as connection:
        connection.execute(text("UPDATE schema_version SET version = 3"))
    engine.dispose()
    before = tables_of(uri)
    refusal = r"(crawl\d|\.db).* was written by an older webcrawl: its schema is 3, .* supports 12\. Set METADATA_URI"
    with pytest.raises(StoreError, match=refusal):
        Metadata(uri, read_only=read_only and uri.startswith("sqlite"))
    assert tables_of(uri) == before
