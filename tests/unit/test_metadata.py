"""Rows of pages in SQLite: real files, several processes."""

from __future__ import annotations

import multiprocessing
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from sqlalchemy import Dialect
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from webcrawl.errors import ConfigurationError, StoreError
from webcrawl.page import ROW_FIELDS, Page
from webcrawl.stores import metadata as module
from webcrawl.stores.columns import SCHEMA_VERSION, pages
from webcrawl.stores.metadata import Metadata

NOW = datetime(2026, 2, 3, 4, 5, 6, 789, tzinfo=UTC)


def row(url: str = "https://example.org/", **values: Any) -> dict[str, Any]:
    host = "/".join(url.split("/")[:3])
    return Page(url=url, host=host, fetched_at=NOW).row() | values


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "metadata.db"


@pytest.fixture
def metadata(path: Path) -> Iterator[Metadata]:
    with Metadata(f"sqlite:///{path}") as it:
        yield it


def test_a_row_comes_back_as_it_went(metadata: Metadata) -> None:
    given_row = row(
        status=200,
        depth=2,
        mime_type="text/html",
        title="Grüße 👋",
        length=2**40,
        simhash=2**64 - 1,
        warc_offset=2**33,
    )
    metadata.upsert([given_row])
    stored = metadata.get("https://example.org/")
    assert stored == given_row | {"fetches": 1, "first_fetched_at": NOW}
    assert metadata.get("https://example.org/other") is None
    assert metadata.count() == 1


def test_every_field_of_a_page_has_a_column() -> None:
    assert set(ROW_FIELDS) | {"fetches", "first_fetched_at"} == {column.name for column in pages.columns}


def test_fetching_again_overwrites_and_counts(metadata: Metadata) -> None:
    later = NOW + timedelta(days=1)
    metadata.upsert([row(title="first")])
    metadata.upsert([row(title="second", fetched_at=later), row(title=None, status=404, fetched_at=later)])
    stored = metadata.get("https://example.org/")
    assert stored is not None
    assert (stored["title"], stored["status"], stored["fetches"]) == (None, 404, 3)
    assert (stored["first_fetched_at"], stored["fetched_at"]) == (NOW, later)
    assert metadata.count() == 1


def test_a_fetch_without_an_answer_keeps_what_an_earlier_one_brought(metadata: Metadata) -> None:
    failed = row(status=None, title=None, error="TimeoutError: too slow", attempts=2)
    metadata.upsert([row(status=200, title="a page"), failed])
    stored = metadata.get("https://example.org/")
    assert stored is not None
    assert (stored["status"], stored["title"], stored["fetches"]) == (200, "a page", 2)
    assert (stored["error"], stored["attempts"]) == ("TimeoutError: too slow", 2)
    metadata.upsert([row(status=200, title="again")])
    stored = metadata.get("https://example.org/")
    assert stored is not None
    assert (stored["title"], stored["error"]) == ("again", None)


def test_all_rows_or_none(metadata: Metadata) -> None:
    with pytest.raises(StoreError):
        metadata.upsert([row("http://a/"), row("http://b/", final_url=None)])
    assert metadata.count() == 0
    metadata.upsert([])


@given(
    simhash=st.none() | st.integers(0, 2**64 - 1),
    title=st.none() | st.text(st.characters(exclude_categories=[])),
)
def test_any_fingerprint_and_any_text(
    tmp_path_factory: pytest.TempPathFactory, simhash: int | None, title: str | None
) -> None:
    with Metadata(f"sqlite:///{tmp_path_factory.getbasetemp()}/any.db") as it:
        it.upsert([row(simhash=simhash, title=title)])
        stored = it.get("https://example.org/")
    assert stored is not None
    assert stored["simhash"] == simhash
    clean = title and title.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    assert stored["title"] == clean


def test_as_other_programs_see_it(metadata: Metadata, path: Path) -> None:
    east = NOW.astimezone(timezone(timedelta(hours=5)))
    metadata.upsert(
        [row(simhash=2**64 - 1, fetched_at=east), row("http://naive/", fetched_at=NOW.replace(tzinfo=None))]
    )
    with sqlite3.connect(path) as connection:
        found = connection.execute(
            "SELECT fetched_at, simhash, strftime('%H:%M', fetched_at) FROM pages ORDER BY url"
        )
        assert found.fetchall() == [
            ("2026-02-03T04:05:06.000789+00:00", None, "04:05"),
            ("2026-02-03T04:05:06.000789+00:00", -1, "04:05"),
        ]
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_scan_goes_host_by_host_past_its_batches(metadata: Metadata, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SCAN_BATCH", 7)
    hosts = ["http://a.example", "http://a.example:81", "http://a.example.org", "https://a.example"]
    metadata.upsert([row(f"{host}/{number}") for number in range(7) for host in hosts])
    seen = [found["host"] for found in metadata.scan()]
    assert len(seen) == 28
    assert sum(before != after for before, after in zip(seen, seen[1:], strict=False)) == 3
    monkeypatch.setattr(module, "SCAN_BATCH", 1_000)
    assert [found["host"] for found in metadata.scan()] == seen


def test_it_is_still_there_when_opened_again(metadata: Metadata, path: Path) -> None:
    metadata.upsert([row()])
    metadata.close()
    with Metadata(f"sqlite:///{path}") as again:
        assert again.count() == 1


def _store(uri: str, start: Any, number: int) -> None:
    start.wait(30)
    with Metadata(uri) as it:
        for batch in range(25):
            it.upsert([row(f"http://{number}/{batch}/{n}") for n in range(8)] + [row("http://shared/")])


def _create(folder: str, start: Any) -> None:
    for number in range(20):
        start.wait(30)
        Metadata(f"sqlite:///{folder}/{number}.db").close()


def test_several_processes_create_the_schema_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(3)
    creators = [context.Process(target=_create, args=(str(tmp_path), start)) for _ in range(3)]
    for creator in creators:
        creator.start()
    for creator in creators:
        creator.join(60)
    assert [creator.exitcode for creator in creators] == [0, 0, 0]


def test_two_processes_write_one_file_from_its_creation(path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(2)
    uri = f"sqlite:///{path}"
    writers = [context.Process(target=_store, args=(uri, start, number)) for number in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0, 0]
    with Metadata(uri) as it:
        assert it.count() == 2 * 25 * 8 + 1
        shared = it.get("http://shared/")
    assert shared is not None
    assert shared["fetches"] == 50


def test_a_locked_database_is_waited_for_and_given_up(
    metadata: Metadata, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOCK_TIMEOUT", 0.05)
    with Metadata(f"sqlite:///{path}") as impatient:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="locked"):
            impatient.upsert([row()])
        assert impatient.count() == 0  # reading goes on
        other.execute("COMMIT")
        other.close()
        impatient.upsert([row()])
        assert impatient.count() == 1


def test_a_newer_schema_is_refused(metadata: Metadata, path: Path) -> None:
    metadata.close()
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


def test_statements_suit_postgresql() -> None:
    """Without a server: at least they compile, with the types meant for it."""
    dialect: Dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    table = str(CreateTable(pages).compile(dialect=dialect))
    assert "simhash BIGINT" in table
    assert "fetched_at TIMESTAMP WITH TIME ZONE NOT NULL" in table
    statement = module._upsert_statement(dialect)
    assert isinstance(statement, postgresql.Insert)
    names = [column.name for column in pages.columns]
    upsert = str(statement.compile(dialect=dialect, column_keys=names))
    assert "ON CONFLICT (url) DO UPDATE SET" in upsert
    assert "fetches = (pages.fetches + " in upsert
