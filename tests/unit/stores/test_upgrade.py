"""Tables of an older version are upgraded by the first process that may write to them."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from tests.metadata import row
from tests.postgres import PostgresServer
from tests.unit.stores import version_7
from tests.unit.stores.test_schema import READS, WRITES, tables_of
from webcrawl.errors import StoreError
from webcrawl.stores.metadata import Metadata
from webcrawl.stores.schema import PAGES

URL = "https://example.org/Grüße"
FIRST, LAST = datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)

OPEN_FOUR_TIMES = """
import os, sys
from webcrawl.stores.metadata import Metadata
children = []
while len(children) < 4:
    if not (child := os.fork()):
        Metadata(sys.argv[1]).close()
        os._exit(0)
    children.append(child)
sys.exit(any([os.waitpid(child, 0)[1] for child in children]))
"""
# the process dies after the last statement of the upgrade, before the commit
OPEN_AND_DIE = """
import os, signal, sys
from webcrawl.stores import schema
from webcrawl.stores.metadata import Metadata
last = schema.PAGES.version
step = schema.PAGES.upgrades[last]
def dying(connection):
    step(connection)
    os.kill(os.getpid(), signal.SIGKILL)
schema.PAGES.upgrades[last] = dying
Metadata(sys.argv[1])
"""


@pytest.fixture
def old_uri(new_uri: Callable[[], str]) -> str:
    """Returns the URI of a database of version 7 with one page."""
    uri = new_uri()
    version_7.create(uri)
    return uri


def started(program: str, uri: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", program, uri])


def version_of(uri: str) -> list[int]:
    engine = create_engine(uri)
    with engine.connect() as connection:
        versions = list(connection.execute(text("SELECT version FROM schema_version")).scalars())
    engine.dispose()
    return versions


def test_upgraded_tables_are_those_of_a_new_database(old_uri: str, new_uri: Callable[[], str]) -> None:
    Metadata(new := new_uri()).close()
    for _ in range(2):
        Metadata(old_uri).close()
        assert tables_of(old_uri) == tables_of(new)
        assert version_of(old_uri) == [PAGES.version]


def test_rows_survive_the_upgrade_and_are_continued(old_uri: str) -> None:
    with Metadata(old_uri) as metadata:
        page = metadata.get(URL)
        assert page is not None
        assert (page["simhash"], page["redirects"], page["details"]) == (
            2**64 - 1,
            ["https://example.org/a"],
            {"n": 1.5},
        )
        assert (page["fetches"], page["first_fetched_at"], page["changed_at"]) == (2, FIRST, LAST)
        assert (page["changes"], page["next_due"], page["change_rate"]) == (None, None, None)
        assert [fetch.digest for fetch in metadata.history(URL)] == ["sha1:A", "sha1:B"]
        later = LAST + timedelta(days=1)
        metadata.upsert([row(URL, status=200, digest="sha1:C", fetched_at=later)])
        page = metadata.get(URL)
        assert page is not None
        assert (page["fetches"], page["changes"], page["changed_at"]) == (3, 1, later)
        assert [fetch.digest for fetch in metadata.history(URL)] == ["sha1:A", "sha1:B", "sha1:C"]


def test_tables_of_version_8_get_the_columns_of_new_links(new_uri: Callable[[], str]) -> None:
    uri = new_uri()
    with Metadata(uri) as metadata:
        metadata.upsert([row(URL, status=200)])
    expected = tables_of(uri)
    engine = create_engine(uri)
    with engine.begin() as connection:
        for column in (
            "new_links",
            "link_rate",
            "is_date_set",
            "signals",
            "change_distance",
            "extracted",
            "structured_data",
        ):
            connection.execute(text(f"ALTER TABLE pages DROP COLUMN {column}"))
        connection.execute(text("DROP TABLE host_signals"))
        connection.execute(text("UPDATE schema_version SET version = 8"))
    engine.dispose()
    with Metadata(uri) as metadata:
        assert (tables_of(uri), version_of(uri)) == (expected, [PAGES.version])
        later = {"referrer": URL, "fetch_class": "freshness-get"}
        metadata.upsert([row(f"{URL}/new", status=200) | later])
        page = metadata.get(URL)
        assert page is not None
        assert page["new_links"] == 1


def test_an_upgrade_that_is_killed_is_repeated(old_uri: str) -> None:
    before = tables_of(old_uri)
    assert started(OPEN_AND_DIE, old_uri).wait(60) == -signal.SIGKILL
    assert (tables_of(old_uri), version_of(old_uri)) == (before, [7])
    with Metadata(old_uri) as metadata:
        assert metadata.count() == 1
    assert version_of(old_uri) == [PAGES.version]


def test_processes_that_open_the_tables_together_upgrade_them_once(old_uri: str) -> None:
    assert started(OPEN_FOUR_TIMES, old_uri).wait(60) == 0
    assert version_of(old_uri) == [PAGES.version]


def test_an_upgrade_makes_the_tables_that_are_missing(old_uri: str, new_uri: Callable[[], str]) -> None:
    engine = create_engine(old_uri)
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE pages"))
    engine.dispose()
    Metadata(old_uri).close()
    Metadata(new := new_uri()).close()
    assert tables_of(old_uri) == tables_of(new)


def test_an_older_file_that_may_only_be_read_says_what_to_do(tmp_path: Path) -> None:
    version_7.create(uri := f"sqlite:///{tmp_path}/old.db")
    with pytest.raises(StoreError, match=r"its schema is 7, .* for reading only\)\. Run scrapy pages once"):
        Metadata(uri, read_only=True)
    assert version_of(uri) == [7]
    Metadata(uri).close()
    Metadata(uri, read_only=True).close()


@pytest.mark.parametrize(("name", "privileges"), [("guest", (READS,)), ("crawling", WRITES)])
def test_a_role_that_does_not_own_older_tables_learns_who_can_upgrade_them(
    postgres: PostgresServer, name: str, privileges: tuple[str, ...]
) -> None:
    version_7.create(uri := postgres.new_database())
    role = postgres.as_role(uri, name)
    postgres.execute(uri, *(words.format(role=name) for words in privileges))
    refusal = (
        r"its schema is 7, .*\(permission denied for schema public\)\. "
        "Run scrapy pages once with an account that owns"
    )
    with pytest.raises(StoreError, match=refusal):
        Metadata(role)
    assert version_of(uri) == [7]
    Metadata(uri).close()
    Metadata(role).close()
