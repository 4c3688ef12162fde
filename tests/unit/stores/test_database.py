"""The metadata database with several processes, and when it is locked, away, or none."""

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
from webcrawl.stores.schema import SCHEMA_VERSION


def _count(uri: str, start: Any) -> None:
    start.wait(30)
    with Metadata(uri) as it:
        for _ in range(50):
            it.update("https://example.org/", lambda stored: {"depth": stored["depth"] + 1})


def test_read_modify_write_by_several_processes_loses_nothing(uri: str) -> None:
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
    number = start.wait(30)
    with Metadata(uri) as it:
        for batch in range(25):
            shared = row("http://shared/", fetched_at=at(2 * batch + number))
            it.upsert([row(f"http://{number}/{batch}/{n}") for n in range(8)] + [shared])


def _create(uris: list[str], start: Any) -> None:
    for uri in uris:
        start.wait(30)
        Metadata(uri).close()


def test_several_processes_create_the_schema_at_once(tmp_path: Path, postgres: PostgresServer) -> None:
    uris = [f"sqlite:///{tmp_path}/{number}.db" for number in range(10)]
    uris += [postgres.new_database() for _ in range(3)]
    together(3, _create, uris)


def test_two_processes_write_one_database_from_its_creation(uri: str) -> None:
    together(2, _store, uri)
    with Metadata(uri) as it:
        assert it.count() == 2 * 25 * 8 + 1
        shared = it.get("http://shared/")
    assert shared is not None
    assert shared["fetches"] == 50
    # only when both wrote it for the first time in the same moment
    with Metadata(uri) as it:
        assert 30 <= len(it.history("http://shared/")) <= 31


def test_a_locked_database_is_waited_for_and_given_up(
    in_sqlite: Metadata, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "LOCK_TIMEOUT", 0.05)
    with Metadata(f"sqlite:///{path}") as impatient:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match=r"metadata\.db.*locked"):
            impatient.upsert([row()])
        assert impatient.count() == 0  # reading goes on
        other.execute("COMMIT")
        other.close()
        impatient.upsert([row()])
        assert impatient.count() == 1


def test_a_newer_schema_is_refused(in_sqlite: Metadata, path: Path) -> None:
    in_sqlite.close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE schema_version SET version = version + 1")
    with pytest.raises(StoreError, match=rf"metadata\.db.*newer.*{SCHEMA_VERSION + 1}"):
        Metadata(f"sqlite:///{path}")


def test_what_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    path.write_bytes(b"no database at all " * 100)
    with pytest.raises(StoreError, match=r"metadata\.db.*not a database"):
        Metadata(f"sqlite:///{path}")
    with pytest.raises(StoreError, match="cannot create"):
        Metadata(f"sqlite:///{path}/metadata.db")
    with pytest.raises(StoreError, match="unable to open"):
        Metadata(f"sqlite:///{tmp_path}")


@pytest.mark.parametrize("uri", ["nonsense", "no-such-dialect://x", "mysql://x/y"])
def test_a_wrong_uri_is_named(uri: str) -> None:
    with pytest.raises(ConfigurationError, match=uri):
        Metadata(uri)


def test_a_database_that_is_away_is_told_from_one_that_refuses(postgres: PostgresServer) -> None:
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


def test_a_database_without_its_table_or_column_may_take_the_row_later(uri: str) -> None:
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


def test_a_database_whose_rights_were_taken_may_take_the_row_later(postgres: PostgresServer) -> None:
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


def test_a_file_that_may_only_be_read_may_take_the_row_later(in_sqlite: Metadata, path: Path) -> None:
    database = Database(f"sqlite:///{path}")

    def write(connection: Connection) -> None:
        # root may write to any file
        connection.execute(text("PRAGMA query_only = 1"))
        connection.execute(text("DELETE FROM pages"))

    with pytest.raises(StoreUnavailable, match="readonly"):
        database.write(write)
    database.close()


def test_what_is_told_of_a_row_that_is_refused_is_one_line_without_its_values(metadata: Metadata) -> None:
    with pytest.raises(StoreError, match=r"(?i)not.null constraint") as refused:
        metadata.upsert([row(title="in\nner", final_url=None)])
    assert "\n" not in str(refused.value) and "inner" not in str(refused.value)


def test_the_longest_url_that_may_be_crawled_has_room_in_both_tables(postgres: PostgresServer) -> None:
    dice = random.Random(1)  # what can be compressed takes less
    letters = string.ascii_letters + string.digits
    with Metadata(postgres.new_database()) as metadata:
        longest, longer = (
            "http://a/" + "".join(dice.choices(letters, k=LONGEST_KEY - 9 + more)) for more in (0, 1)
        )
        metadata.upsert([row(longest)])
        metadata.upsert([row(longest, fetched_at=at(1))])
        assert len(metadata.history(longest)) == 2
        metadata.upsert([row(longer)])
        with pytest.raises(StoreError, match="index row size"):
            metadata.upsert([row(longer, fetched_at=at(1))])


def test_a_server_that_hangs_is_away_until_it_goes_on(
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


def test_what_reads_or_changes_whole_tables_may_take_any_time(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "ANSWER_SECONDS", 0.5)
    database = Database(postgres.new_database())

    def sleep(connection: Connection) -> None:
        connection.execute(text("SELECT pg_sleep(1)"))

    database.write(sleep, at_leisure=True)
    with database.reading() as connection:
        sleep(connection)
    # the same connections are in a hurry again
    with pytest.raises(StoreUnavailable, match="no answer"):
        database.write(sleep)
    with pytest.raises(StoreUnavailable, match="no answer"), database.reading(at_leisure=False) as connection:
        sleep(connection)
    database.close()


def test_a_database_that_does_not_exist_is_refused(postgres: PostgresServer) -> None:
    uri = postgres.new_database()
    with pytest.raises(StoreError, match="no_such.*does not exist"):
        Metadata(uri.replace("@/", "@/no_such_"))
