"""Tables in partitions, and batches of rows that PostgreSQL takes by COPY."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine, event, text

from tests.metadata import at, row
from tests.postgres import PostgresServer, postgres_folder
from webcrawl.errors import StoreError
from webcrawl.policies.crawl_value import Bounds
from webcrawl.policies.revisit_dates import RevisitDates
from webcrawl.stores import due_pages
from webcrawl.stores.due_pages import DuePages
from webcrawl.stores.metadata import Metadata
from webcrawl.stores.page_statements import LEAST_COPIED, page_statements

URLS = [f"https://host{number % 7}.example/{number}" for number in range(2 * LEAST_COPIED)]


@pytest.fixture
def uri(postgres: PostgresServer) -> Iterator[str]:
    """The URI of an empty database in PostgreSQL."""
    with postgres.database() as uri:
        yield uri


def partitions(uri: str, table: str) -> dict[str, int]:
    """Partition -> its number of rows."""
    query = "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = CAST(:name AS regclass)"
    engine = create_engine(uri)
    with engine.connect() as connection:
        names = connection.execute(text(query), {"name": table}).scalars().all()
        numbers = {
            name: connection.execute(text(f"SELECT count(*) FROM {name}")).scalar_one()
            for name in names
            if "_pkey" not in name
        }
    engine.dispose()
    return numbers


def rows_of(urls: Sequence[str], minutes: int, **values: Any) -> list[dict[str, Any]]:
    return [
        row(url, status=200, digest=f"sha1:{minutes}", title=f"Grüße % {url}\t\\", fetched_at=at(minutes))
        | {"details": {"entries": [url, None]}, "crawl": "news", **values}
        for url in urls
    ]


def stored(metadata: Metadata) -> list[dict[str, Any]]:
    return list(metadata.scan())


def test_new_tables_are_split_by_the_hash_of_the_url(uri: str) -> None:
    with Metadata(uri, partitions=5) as metadata:
        for minutes in (0, 1):
            metadata.upsert(rows_of(URLS, minutes))
        assert [page["url"] for page in metadata.scan()] == sorted(URLS)
        assert len(metadata.history(URLS[0])) == 2
    for table in ("pages", "fetches"):
        numbers = partitions(uri, table)
        assert sorted(numbers) == [f"{table}_{number}" for number in range(5)]
        assert all(numbers.values())
        assert sum(numbers.values()) == len(URLS)
    # tables that exist stay as they are
    Metadata(uri, partitions=3).close()
    assert len(partitions(uri, "pages")) == 5


def test_no_partitions_are_wanted(uri: str) -> None:
    with Metadata(uri, partitions=0) as metadata:
        metadata.upsert(rows_of(URLS, 0))
        assert len(metadata.get_many(URLS)) == len(URLS)
    assert partitions(uri, "pages") == partitions(uri, "fetches") == {}


def test_a_dump_moves_rows_into_partitions(postgres: PostgresServer, uri: str) -> None:
    """With the commands of docs/scale.md."""
    with Metadata(uri, partitions=0) as old:
        for minutes in (0, 1):
            old.upsert(rows_of(URLS, minutes))
        expected = stored(old)
    binaries, new = postgres_folder(), postgres.new_database()
    assert binaries is not None
    with Metadata(new, partitions=4) as split:
        tables = ["--table=pages", "--table=fetches", "--table=host_signals"]
        dump = [str(binaries / "pg_dump"), "--data-only", *tables, uri]
        sent = subprocess.run(dump, check=True, capture_output=True, timeout=60)
        restore = [str(binaries / "psql"), "--quiet", "--set=ON_ERROR_STOP=1", new]
        subprocess.run(restore, check=True, input=sent.stdout, timeout=60, env={**os.environ, "PAGER": ""})
        assert stored(split) == expected
        assert all(partitions(new, "pages").values())


def test_each_url_is_looked_for_in_its_own_partition(uri: str) -> None:
    with Metadata(uri, partitions=8) as metadata:
        metadata.upsert(rows_of(URLS, 0))
        statements = page_statements(metadata.database.dialect)

        def plan(connection: Connection, statement: str, parameters: dict[str, Any]) -> str:
            for way in ("hashjoin", "mergejoin", "seqscan", "bitmapscan"):
                connection.exec_driver_sql(f"SET LOCAL enable_{way} = off")
            rows = connection.exec_driver_sql(
                f"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) {statement}", parameters
            )
            return "\n".join(line for (line,) in rows)

        for statement in (statements.look, statements.visits, statements.payloads):
            lines = metadata.database.write(
                lambda connection, sql=statement.text: plan(connection, sql, {"urls": URLS[:20]})
            )
            looks = [int(loops) for loops in re.findall(r"pages_\d_pkey on .*loops=(\d+)", lines)]
            assert sum(looks) == 20, lines
        lines = metadata.database.write(
            lambda connection: plan(connection, statements.get.text, {"key": URLS[0]})
        )
        assert len(set(re.findall(r"pages_\d_pkey", lines))) == 1, lines


def test_copied_rows_are_those_that_are_stored_one_by_one(postgres: PostgresServer) -> None:
    """New rows, answers, confirmations, failures, a URL twice, history and its limit, and rows between transactions."""
    rounds = [
        rows_of(URLS, 0),
        rows_of(URLS, 1) + rows_of(URLS[:3], 2),
        rows_of(URLS, 3, status=304),
        rows_of(URLS, 4, status=None, error="TimeoutError"),
        rows_of([*URLS, *(f"{url}/new" for url in URLS)], 5, redirects=["http://a.example/"], soft_404=True),
    ]
    both = []
    for size in (len(URLS) * 3, LEAST_COPIED - 1):
        with postgres.database() as uri, Metadata(uri, history=3) as metadata:
            statements: list[str] = []
            event.listen(
                metadata.database._engine,
                "before_cursor_execute",
                lambda *event, seen=statements: seen.append(event[2]),
            )
            for rows in rounds:
                for first in range(0, len(rows), size):
                    metadata.upsert(rows[first : first + size])
            both.append((stored(metadata), [metadata.history(url) for url in URLS]))
            # what is copied does not pass SQLAlchemy
            assert any("INSERT INTO pages" in sql for sql in statements) == (size < LEAST_COPIED)
    assert both[0] == both[1]


def test_a_row_that_is_refused_stores_no_row_of_its_batch(uri: str) -> None:
    with Metadata(uri) as metadata:
        rows = rows_of(URLS, 0)
        rows[7]["status"] = 2**40
        with pytest.raises(StoreError, match="out of range for type integer"):
            metadata.upsert(rows)
        assert metadata.count() == 0
        metadata.upsert(rows_of(URLS, 0))
        assert metadata.count() == len(URLS)


def test_a_role_without_temporary_tables_stores_batches(postgres: PostgresServer) -> None:
    uri = postgres.new_database()
    Metadata(uri).close()
    writer = postgres.as_role(uri, "bulk_writer")
    name = uri.split("/")[3].partition("?")[0]
    postgres.execute(
        uri,
        f"REVOKE TEMPORARY ON DATABASE {name} FROM PUBLIC",
        "GRANT SELECT ON schema_version TO bulk_writer",
        "GRANT SELECT, INSERT, UPDATE ON pages TO bulk_writer",
        "GRANT SELECT, INSERT, DELETE ON fetches TO bulk_writer",
    )
    with Metadata(writer) as metadata:
        for minutes in (0, 1):
            metadata.upsert(rows_of(URLS, minutes))
        assert metadata.count() == len(URLS)


@pytest.mark.parametrize("number", [0, 3])
def test_the_plan_of_a_large_table_is_estimated_from_some_blocks(
    postgres: PostgresServer, uri: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = [f"https://host{host}.example/{page}" for host in range(20) for page in range(100)]
    with Metadata(uri, partitions=number, dates=RevisitDates(Bounds())) as metadata:
        metadata.upsert(rows_of(urls, 0))
        metadata.upsert(rows_of([f"{url}/other" for url in urls[:400]], 0, crawl="other"))
    monkeypatch.setattr(due_pages, "_LARGE_TABLE", 1_000)
    monkeypatch.setattr(due_pages, "_READ_FOR_SAMPLE", 10)
    with DuePages(uri, "news") as plan, DuePages(uri, "unknown") as unknown:
        # the rows were not counted yet
        assert plan._sample_of_blocks(100) is None
        assert plan.sample(100)[1] == 2_000
        postgres.execute(uri, "ANALYZE pages")
        sample, number = plan._sample_of_blocks(100) or ([], 0)
        assert len({page.url for page in sample}) == 100 and {page.url for page in sample} <= set(urls)
        assert 1_400 <= number <= 2_400
        assert unknown._sample_of_blocks(100) is None
        assert unknown.sample(100) == ([], 0)
