"""The rows of `benchmarks.metadata`: filled by a server, as a crawl stores them, and in a table of Iceberg."""

from __future__ import annotations

import random
import re
import statistics
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, text

from benchmarks.command import seconds_of, size_of
from webcrawl.documents.page import Page
from webcrawl.stores import columns
from webcrawl.stores.metadata import Metadata

CRAWL = "bench"
HOST_PAGES = 50
SLICE = 1_000_000
CHANGED = 500
# PostgreSQL and DuckDB take this; {host} and {path} are the numbers of a row, of which each pair occurs once
ROWS = """
SELECT host || path AS url, host || path AS final_url, host AS host, 200 AS status, visited AS fetched_at,
    visited AS first_fetched_at, 1 AS fetches, 4 AS depth, host || '/' AS referrer, 'text/html' AS mime_type,
    'utf-8' AS charset, 40000 AS length, 'sha1:' || upper(md5(host || path)) AS digest, n * 7919 AS simhash,
    'The title of page ' || n || ' in some words' AS title, 'en' AS language,
    'crawl-20260203040506-00001-host.warc.gz' AS warc_file, n * 9000 AS warc_offset, 9000 AS warc_length,
    1 AS attempts, 'fetched' AS state, visited AS tried_at, 0.1 AS latency, '{crawl}' AS crawl, 0.5 AS importance,
    0.05 AS change_rate, 0 AS changes, visited + INTERVAL '30 days' AS next_due, n * 31337 AS text_digest
FROM (
    SELECT n, 'https://www.host' || lpad(CAST({host} AS VARCHAR), 9, '0') || '.example' AS host,
        '/a/section/page-' || lpad(CAST({path} AS VARCHAR), 3, '0') || '.html' AS path,
        TIMESTAMPTZ '2026-01-01 00:00:00+00' + n % 5000000 * INTERVAL '1 second' AS visited
    FROM {numbers}
) AS numbered
"""
_NAMES = re.findall(r" AS (\w+)[,\n]", ROWS.partition("FROM (")[0])
FIRST, SPAN = datetime(2026, 1, 31, tzinfo=UTC), 5_000_000
"""The first row is due then, and the last of all about so many seconds later."""


def url_of(number: int, hosts: int) -> str:
    """The URL of a filled row."""
    return _url(number * 7919 % hosts, number // hosts)


def _url(host: int, path: int) -> str:
    return f"https://www.host{host:09}.example/a/section/page-{path:03}.html"


def fill(uri: str, rows: int) -> dict[str, float]:
    hosts = rows // HOST_PAGES
    with Metadata(uri) as metadata:

        def insert(first: int, connection: Connection) -> None:
            numbers = f"generate_series(CAST({first} AS BIGINT), {min(first + SLICE, rows) - 1}) AS n"
            host, path = f"n * 7919 % {hosts}", f"n / {hosts}"
            source = ROWS.format(crawl=CRAWL, host=host, path=path, numbers=numbers)
            connection.execute(text(f"INSERT INTO pages ({', '.join(_NAMES)}) {source}"))

        def index(connection: Connection, *, has: bool) -> None:
            for each in columns.pages.indexes:
                each.create(connection) if has else each.drop(connection)

        def run(work: Callable[[Connection], object]) -> float:
            return seconds_of(lambda: metadata.database.write(work, at_leisure=True))

        run(partial(index, has=False))
        seconds = sum(run(partial(insert, first)) for first in range(0, rows, SLICE))
        return {"fill s": seconds, "index s": run(partial(index, has=True))}


def new_rows(
    start: int, number: int, hosts: int, *, known: bool, chance: random.Random
) -> list[dict[str, Any]]:
    rows, now = [], datetime.now(UTC)
    for position in range(start, start + number):
        number = chance.randrange(hosts * HOST_PAGES) if known else position
        url = url_of(number, hosts) + ("" if known else "?new")
        host = url[: url.index("/", 8)]
        page = Page(url=url, host=host, fetched_at=now, status=200, depth=4, referrer=f"{host}/")
        page.mime_type, page.charset, page.length = "text/html", "utf-8", 40_000
        page.digest, page.simhash = f"sha1:{position:032X}", position * 7919
        page.title, page.language = f"The title of page {position} in some words", "en"
        page.warc_file, page.warc_offset = "crawl-20260203040506-00001-host.warc.gz", position * 9000
        rows.append({**page.row(), "crawl": CRAWL})
    return rows


def measure_lake(rows: int) -> dict[str, float]:
    """Returns the figures of a table of Iceberg with the same rows, in files sorted by URL, as the lake of a crawl."""
    import duckdb
    import pyarrow.parquet as parquet
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.expressions import EqualTo, In

    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name, duckdb.connect() as database:
        folder = Path(name)
        database.execute("SET memory_limit = '2GB'; SET TimeZone = 'UTC'")

        def write(first: int) -> None:
            numbers = f"range({first}, {min(first + SLICE, rows)}) AS numbers(n)"
            host, path = f"n // {HOST_PAGES}", f"n % {HOST_PAGES}"
            sql = ROWS.format(crawl=CRAWL, host=host, path=path, numbers=numbers)
            file = folder / f"{first:012}.parquet"
            database.execute(f"COPY ({sql}) TO '{file}' (FORMAT parquet, COMPRESSION zstd)")

        figures["write s"] = sum(seconds_of(partial(write, first)) for first in range(0, rows, SLICE))
        files = sorted(folder.glob("*.parquet"))
        figures["B/row"] = size_of(folder) / rows
        places = {"uri": f"sqlite:///{folder}/catalogue.db", "warehouse": f"file://{folder}/lake"}
        catalogue = SqlCatalog("bench", **places)
        catalogue.create_namespace("bench")
        made = catalogue.create_table("bench.pages", parquet.read_schema(files[0]))
        figures["commit all files s"] = seconds_of(lambda: made.add_files([str(file) for file in files]))

        def scan(condition: Any, count: int) -> None:
            assert made.scan(row_filter=condition).to_arrow().num_rows == count

        numbers = (number * 7919 * 31 % rows for number in range(CHANGED))
        some = [_url(*divmod(number, HOST_PAGES)) for number in numbers]
        looks = [seconds_of(partial(scan, EqualTo("url", url), 1)) for url in some[:5]]
        figures["look-up ms"] = 1e3 * statistics.median(looks)
        figures["500 look-ups ms"] = 1e3 * seconds_of(lambda: scan(In("url", some), len(set(some))))
        due = f"SELECT url FROM read_parquet('{folder}/*.parquet') WHERE next_due IS NOT NULL"
        first_due = f"{due} ORDER BY next_due LIMIT 1000"
        figures["1,000 due ms"] = 1e3 * seconds_of(lambda: database.execute(first_due).fetchall())
        new = parquet.read_table(files[0]).slice(0, CHANGED)
        figures["commit 500 new rows ms"] = 1e3 * seconds_of(lambda: made.append(new))

        def rewrite() -> None:
            """A changed row replaces its file."""
            parquet.write_table(parquet.read_table(files[0]), folder / "changed.parquet", compression="zstd")

        figures["rewrite a file s"] = seconds_of(rewrite)
        figures["files"] = len(files)
    return figures
