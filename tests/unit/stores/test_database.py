"""The metadata database: concurrent processes, locks, unavailable servers, and invalid databases or URIs."""

from __future__ import annotations

import random
import sqlite3
import string
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine, text

from tests.metadata import at, row
from tests.postgres import PostgresServer
from tests.together import together
from webcrawl.errors import ConfigurationError, StoreError, StoreUnavailable
from webcrawl.stores import answering, database as database_module
from webcrawl.stores.columns import LONGEST_KEY
from webcrawl.stores.database import Database
from webcrawl.stores.metadata import Metadata
from webcrawl.stores.schema import PAGES


def _count(uri: str, start: Any) -> None:
    start.wait(60)
    with Metadata(uri) as it:
        for _ in range(50):
            it.update("https://example.org/", lambda stored: {"depth": stored["depth"] + 1})


def test_concurrent_updates_of_one_row_are_not_lost(uri: str) -> None:
    with Metadata(uri) as it:
        it.upsert([row(title="stays")])
        assert it.update("https://example.org/", lambda stored: {}) == it.get("https://example.org/")
        assert it.update("https://example.org/other", lambda stored: {"depth": 1}) is None
    together(2, _count, uri)
    with Metadata(uri) as it:
        stored = it.update("https://example.org/", lambda stored: {"details": {"seen": stored["depth"]}})
        assert stored is not None
        assert (stored["depth"], stored["title"]) == (100, "stays")
        assert it.get("https://example.org/") == stored


def _store(uri: str, start: Any) -> None:
    number = start.wait(60)
    with Metadata(uri) as it:
        for batch in range(25):
            shared = row("http://shared/", fetched_at=at(2 * batch + number))
            it.upsert([row(f"http://{number}/{batch}/{n}") for n in range(8)] + [shared])


def _create(uris: list[str], start: Any) -> None:
    for uri in uris:
        start.wait(60)
        Metadata(uri).close()


def test_concurrent_processes_can_create_the_schema(tmp_path: Path, postgres: PostgresServer) -> None:
    uris = [f"sqlite:///{tmp_path}/{number}.db" for number in range(10)]
    uris += [postgres.new_database() for _ in range(3)]
    together(3, _create, uris)


def test_two_processes_can_write_a_new_database_concurrently(uri: str) -> None:
    together(2, _store, uri)
    with Metadata(uri) as it:
        assert it.count() == 2 * 25 * 8 + 1
        shared = it.get("http://shared/")
    assert shared is not None
    assert shared["fetches"] == 50
    # 31 if both processes inserted the row at the same moment
    with Metadata(uri) as it:
        assert 30 <= len(it.history("http://shared/")) <= 31


def test_write_to_a_locked_database_times_out_and_reads_continue(
    in_sqlite: Metadata, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "LOCK_TIMEOUT", 0.05)
    with Metadata(f"sqlite:///{path}") as writer:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match=r"metadata\.db.*locked"):
            writer.upsert([row()])
        assert writer.count() == 0  # reads are not blocked
        other.execute("COMMIT")
        other.close()
        writer.upsert([row()])
        assert writer.count() == 1


def test_newer_schema_is_rejected(in_sqlite: Metadata, path: Path) -> None:
    in_sqlite.close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE schema_version SET version = version + 1")
    with pytest.raises(StoreError, match=rf"metadata\.db.*newer.*{PAGES.version + 1}"):
        Metadata(f"sqlite:///{path}")


def test_invalid_database_file_is_named_in_the_error(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    path.write_bytes(b"no database at all " * 100)
    with pytest.raises(StoreError, match=r"metadata\.db.*not a database"):
        Metadata(f"sqlite:///{path}")
    with pytest.raises(StoreError, match="cannot create"):
        Metadata(f"sqlite:///{path}/metadata.db")
    with pytest.raises(StoreError, match="unable to open"):
        Metadata(f"sqlite:///{tmp_path}")


@pytest.mark.parametrize("uri", ["nonsense", "no-such-dialect://x", "mysql://x/y"])
def test_invalid_uri_is_named_in_the_error(uri: str) -> None:
    with pytest.raises(ConfigurationError, match=uri):
        Metadata(uri)


def test_messages_name_the_database_without_passwords() -> None:
    for uri in (
        "postgresql://me:secret@db:port/x?password=secret",
        "mysql://me:se/secret@db/x?sslpassword=secret",
    ):
        with pytest.raises(ConfigurationError, match="cannot use the metadata URI") as caught:
            Metadata(uri)
        assert "secret" not in str(caught.value)
    database = Database("postgresql://me:secret@db/x?sslpassword=secret&p%61ssword=secret")
    assert "secret" not in database.name and "me:***@db/x" in database.name


def test_stopped_server_raises_unavailable_and_a_rejected_row_does_not(postgres: PostgresServer) -> None:
    uri = postgres.new_database()
    with Metadata(uri) as metadata:
        metadata.upsert([row()])
        with pytest.raises(StoreError) as refused:
            metadata.upsert([row(final_url=None)])
        assert not isinstance(refused.value, StoreUnavailable)
        postgres.stop()
        try:
            for work in (
                lambda: metadata.upsert([row()]),
                lambda: metadata.get("https://example.org/"),
                metadata.count,
                lambda: Metadata(uri),
            ):
                with pytest.raises(StoreUnavailable, match=r"postgresql://crawler.*/crawl\d+"):
                    work()
        finally:
            postgres.start()
        metadata.upsert([row("https://example.org/after")])
        assert metadata.get("https://example.org/after") is not None
        assert metadata.count() == 2


def test_missing_table_or_column_is_a_retryable_error(uri: str) -> None:
    engine = create_engine(uri)

    def change(statement: str) -> None:
        with engine.begin() as connection:
            connection.execute(text(statement))

    with Metadata(uri) as metadata:
        for away, back, told in (
            ("ALTER TABLE pages RENAME TO p", "ALTER TABLE p RENAME TO pages", "pages"),
            ("ALTER TABLE pages RENAME title TO t", "ALTER TABLE pages RENAME t TO title", "title"),
        ):
            change(away)
            with pytest.raises(StoreUnavailable, match=told):
                metadata.upsert([row()])
            with pytest.raises(StoreUnavailable, match=told):
                metadata.get("https://example.org/")
            change(back)
            metadata.upsert([row()])
    engine.dispose()


def test_revoked_permission_is_a_retryable_error(postgres: PostgresServer) -> None:
    uri = postgres.new_database()
    theirs = postgres.as_role(uri, "tenant")
    postgres.execute(uri, "GRANT ALL ON SCHEMA public TO tenant")
    with Metadata(theirs) as metadata:
        metadata.upsert([row()])
        postgres.execute(uri, "ALTER TABLE pages OWNER TO crawler", "REVOKE ALL ON pages FROM tenant")
        with pytest.raises(StoreUnavailable, match="permission denied for table pages"):
            metadata.upsert([row("https://example.org/2")])
        postgres.execute(uri, "GRANT ALL ON pages TO tenant")
        metadata.upsert([row("https://example.org/2")])
        assert metadata.count() == 2


def test_read_only_file_is_a_retryable_error(in_sqlite: Metadata, path: Path) -> None:
    database = Database(f"sqlite:///{path}")

    def write(connection: Connection) -> None:
        # file permissions do not stop root
        connection.execute(text("PRAGMA query_only = 1"))
        connection.execute(text("DELETE FROM pages"))

    with pytest.raises(StoreUnavailable, match="readonly"):
        database.write(write)
    database.close()


def test_error_of_a_rejected_row_is_one_line_without_its_values(metadata: Metadata) -> None:
    with pytest.raises(StoreError, match=r"(?i)not.null constraint") as refused:
        metadata.upsert([row(title="in\nner", final_url=None)])
    assert "\n" not in str(refused.value) and "inner" not in str(refused.value)


def test_longest_allowed_url_fits_in_both_tables(postgres: PostgresServer) -> None:
    dice = random.Random(1)  # PostgreSQL compresses index keys, so use random letters
    letters = string.ascii_letters + string.digits
    with Metadata(postgres.new_database()) as metadata:
        longest, longer = (
            "http://a/" + "".join(dice.choices(letters, k=LONGEST_KEY - 9 + more)) for more in (0, 85)
        )
        metadata.upsert([row(longest)])
        metadata.upsert([row(longest, fetched_at=at(1))])
        assert len(metadata.history(longest)) == 2
        metadata.upsert([row(longer)])
        with pytest.raises(StoreError, match="index row size"):
            metadata.upsert([row(longer, fetched_at=at(1))])


def test_hanging_server_is_unavailable_until_it_resumes(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "ANSWER_SECONDS", 0.5)
    monkeypatch.setattr(database_module, "CONNECT_SECONDS", 2)
    uri = postgres.new_database()
    with Metadata(uri) as metadata, Metadata(uri) as other:
        metadata.upsert([row()])
        assert other.get("https://example.org/") is not None
        postgres.hang()
        try:
            for work in (
                lambda: metadata.upsert([row("https://example.org/2")]),
                lambda: metadata.upsert([row()]),
                lambda: other.get("https://example.org/"),
                lambda: other.get_many(["https://example.org/"]),
            ):
                with pytest.raises(StoreUnavailable, match=r"crawl\d+.*(no answer|timeout)"):
                    work()
        finally:
            postgres.go_on()
        metadata.upsert([row(), row("https://example.org/2")])
        assert [found["fetches"] for found in other.scan()] == [1, 1]


def test_whole_table_statements_have_no_answer_timeout(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "ANSWER_SECONDS", 0.5)
    database = Database(postgres.new_database())

    def sleep(connection: Connection) -> None:
        connection.execute(text("SELECT pg_sleep(1)"))

    database.write(sleep, at_leisure=True)
    with database.reading() as connection:
        sleep(connection)
    # the timeout applies again on the same connections
    with pytest.raises(StoreUnavailable, match="no answer"):
        database.write(sleep)
    with pytest.raises(StoreUnavailable, match="no answer"), database.reading(at_leisure=False) as connection:
        sleep(connection)
    database.close()


def test_missing_database_is_rejected(postgres: PostgresServer) -> None:
    uri = postgres.new_database()
    with pytest.raises(StoreError, match="no_such.*does not exist"):
        Metadata(uri.replace("@/", "@/no_such_"))
