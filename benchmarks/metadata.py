"""Measures table `pages` of a PostgreSQL server, and the same rows as a table of Iceberg.

    python -m benchmarks.metadata --rows 5e7 [--partitions 0,16] [--writers 2] [--batch 500] [--no-lake] [--json FILE]

The server fills the tables: the primary key grows in random order, the other indexes are made after the rows. Then
processes store new and known rows by the code of a crawl, with fsync, and look up pages and what is due.
"""

from __future__ import annotations

import multiprocessing
import random
import re
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, text

from benchmarks.command import command_line, seconds_of, table, write_figures
from benchmarks.measured import tree
from benchmarks.metadata_lake import measure_lake
from tests.postgres import PostgresServer, postgres_folder
from webcrawl.documents.page import Page
from webcrawl.stores import columns
from webcrawl.stores.due_pages import DuePages
from webcrawl.stores.metadata import Metadata

CRAWL = "bench"
HOST_PAGES = 50
SLICE = 1_000_000
_BATCHES = 40
_LOOKS = 100
_SETTINGS = {
    "shared_buffers": "1GB",
    "max_wal_size": "4GB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "maintenance_work_mem": "512MB",
    "checkpoint_timeout": "15min",
}
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
_FIRST, _SPAN = datetime(2026, 1, 31, tzinfo=UTC), 5_000_000
"""The first row is due then, and the last of all about so many seconds later."""


def url_of(number: int, hosts: int) -> str:
    """The URL of a filled row."""
    host, path = number * 7919 % hosts, number // hosts
    return f"https://www.host{host:09}.example/a/section/page-{path:03}.html"


@contextmanager
def _server() -> Iterator[PostgresServer]:
    binaries = postgres_folder()
    if binaries is None:
        raise SystemExit("PostgreSQL is not installed (on Debian: apt install postgresql)")
    with PostgresServer(binaries) as server:
        with (server.folder / "data" / "postgresql.auto.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in _SETTINGS.items())
        server.stop()
        server.start()
        yield server


def _cpu(server: PostgresServer) -> float:
    """Seconds of processor time of all processes of the server, also of those that have ended."""
    pid = int((server.folder / "data" / "postmaster.pid").read_text().split()[0])
    ended = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[13:15]
    return sum(process.cpu for process in tree(pid).values()) + sum(map(int, ended)) / 100


def _fill(uri: str, rows: int) -> dict[str, float]:
    hosts = rows // HOST_PAGES
    with Metadata(uri) as metadata:

        def insert(first: int, connection: Connection) -> None:
            numbers = f"generate_series(CAST({first} AS BIGINT), {min(first + SLICE, rows) - 1}) AS n"
            source = ROWS.format(
                crawl=CRAWL, host=f"n * 7919 % {hosts}", path=f"n / {hosts}", numbers=numbers
            )
            connection.execute(text(f"INSERT INTO pages ({', '.join(_NAMES)}) {source}"))

        def index(connection: Connection, *, has: bool) -> None:
            for each in columns.pages.indexes:
                each.create(connection) if has else each.drop(connection)

        def run(work: Callable[[Connection], object]) -> float:
            return seconds_of(lambda: metadata.database.write(work, at_leisure=True))

        run(partial(index, has=False))
        seconds = sum(run(partial(insert, first)) for first in range(0, rows, SLICE))
        return {"fill s": seconds, "index s": run(partial(index, has=True))}


def _rows(start: int, number: int, hosts: int, *, known: bool, chance: random.Random) -> list[dict[str, Any]]:
    rows, now = [], datetime.now(UTC)
    for position in range(start, start + number):
        url = (
            url_of(chance.randrange(hosts * HOST_PAGES), hosts) if known else f"{url_of(position, hosts)}?new"
        )
        host = url[: url.index("/", 8)]
        page = Page(url=url, host=host, fetched_at=now, status=200, depth=4, referrer=f"{host}/")
        page.mime_type, page.charset, page.length = "text/html", "utf-8", 40_000
        page.digest, page.simhash = f"sha1:{position:032X}", position * 7919
        page.title, page.language = f"The title of page {position} in some words", "en"
        page.warc_file, page.warc_offset = "crawl-20260203040506-00001-host.warc.gz", position * 9000
        rows.append({**page.row(), "crawl": CRAWL})
    return rows


def _write(task: tuple[str, int, int, int, bool]) -> tuple[float, float]:
    """Stores batches by a process of their own; returns seconds and processor seconds."""
    uri, hosts, batch, writer, known = task
    chance = random.Random(writer)
    with Metadata(uri) as metadata:
        start = writer * batch * _BATCHES
        batches = [
            _rows(start + batch * number, batch, hosts, known=known, chance=chance)
            for number in range(_BATCHES)
        ]
        began, cpu = time.perf_counter(), time.process_time()
        for rows in batches:
            metadata.upsert(rows)
        return time.perf_counter() - began, time.process_time() - cpu


def _writes(server: PostgresServer, uri: str, rows: int, writers: int, batch: int) -> dict[str, float]:
    figures = {}
    for name, known in (("new", False), ("known", True)):
        before = _cpu(server)
        tasks = [(uri, rows // HOST_PAGES, batch, writer, known) for writer in range(writers)]
        with multiprocessing.get_context("spawn").Pool(writers) as pool:
            results = pool.map(_write, tasks, chunksize=1)
        stored = writers * batch * _BATCHES
        figures[f"{name} rows/s"] = stored / max(seconds for seconds, _ in results)
        figures[f"{name} client us"] = sum(cpu for _, cpu in results) / stored * 1e6
        figures[f"{name} server us"] = (_cpu(server) - before) / stored * 1e6
    return figures


def _reads(uri: str, rows: int) -> dict[str, float]:
    chance, hosts = random.Random(1), rows // HOST_PAGES

    def urls(number: int) -> list[str]:
        return [url_of(chance.randrange(rows), hosts) for _ in range(number)]

    now = _FIRST + timedelta(seconds=min(rows, _SPAN) / 2)
    with Metadata(uri) as metadata, DuePages(uri, CRAWL) as due:
        looks: dict[str, tuple[int, Callable[[], object]]] = {
            "look-up": (_LOOKS, lambda: metadata.get(urls(1)[0])),
            "500 look-ups": (10, lambda: metadata.get_many(urls(500))),
            "500 visits": (10, lambda: metadata.last_visits(urls(500))),
            "host": (10, lambda: list(metadata.scan(urls(1)[0].rpartition("/a/")[0]))),
            "1,000 rows by URL": (3, lambda: metadata.database.write(partial(_part, urls(1)[0]))),
            "claim 1,000 due": (5, lambda: due.claim(now, now, 1_000)),
            "count late": (3, lambda: due.late(now)),
            "sample the plan": (1, lambda: due.sample(200)),
        }
        return {
            f"{name} ms": 1e3 * statistics.median(seconds_of(look) for _ in range(times))
            for name, (times, look) in looks.items()
        }


def _part(after: str, connection: Connection) -> None:
    query = (
        columns.pages.select().where(columns.pages.c.url > after).order_by(columns.pages.c.url).limit(1_000)
    )
    connection.execute(query).all()


def _sizes(uri: str, rows: int, when: str) -> dict[str, float]:
    query = """
    SELECT sum(pg_relation_size(c.oid)) FILTER (WHERE relkind = 'r') AS heap,
        sum(pg_relation_size(c.oid)) FILTER (WHERE relkind = 'i' AND relname LIKE '%pkey') AS key,
        sum(pg_relation_size(c.oid)) FILTER (WHERE relkind = 'i' AND relname NOT LIKE '%pkey') AS indexes
    FROM pg_class AS c WHERE relname ~ '^pages'
    """
    with Metadata(uri) as metadata, metadata.database.reading() as connection:
        sizes = connection.exec_driver_sql(query.replace("%", "%%")).mappings().one()
    return {f"{name} B/row, {when}": int(size) / rows for name, size in sizes.items()}


def measure(rows: int, partitions: int, writers: int, batch: int) -> dict[str, float]:
    """Returns the figures of one layout, in the order in which they are measured."""
    with _server() as server:
        uri = server.new_database()
        Metadata(uri, partitions=partitions).close()
        figures = _fill(uri, rows)
        figures["vacuum s"] = seconds_of(lambda: server.execute(uri, "VACUUM ANALYZE pages"))
        figures |= _sizes(uri, rows, "filled")
        server.execute(uri, "ALTER SYSTEM SET fsync = on", "SELECT pg_reload_conf()", "CHECKPOINT")
        figures |= _reads(uri, rows)
        figures |= _writes(server, uri, rows, writers, batch)
        figures["vacuum after writes s"] = seconds_of(lambda: server.execute(uri, "VACUUM ANALYZE pages"))
        return figures | _sizes(uri, rows + writers * batch * _BATCHES, "after writes")


def main() -> None:
    parser = command_line(__doc__, json=True)
    parser.add_argument("--rows", type=float, default=1e6, help="rows of each table, by default 1e6")
    parser.add_argument("--partitions", default="0,16", help="numbers of partitions, by default 0,16")
    parser.add_argument("--writers", type=int, default=2, help="processes that store rows, by default 2")
    parser.add_argument("--batch", type=int, default=500, help="rows of a transaction, by default 500")
    parser.add_argument("--no-lake", action="store_true", help="leave out Iceberg")
    given = parser.parse_args()
    # a multiple of the pages of a host
    rows = int(given.rows) // HOST_PAGES * HOST_PAGES
    layouts = [int(number) for number in given.partitions.split(",") if number]
    print(f"{rows:,} rows, {given.writers} writers, batches of {given.batch}", flush=True)
    results = {}
    for number in layouts:
        results[number] = measure(rows, number, given.writers, given.batch)
        _print(f"{number} partitions", results[number])
    lake = {} if given.no_lake else measure_lake(ROWS, rows, HOST_PAGES, CRAWL)
    if lake:
        _print("Iceberg", lake)
    write_figures(given.json, rows=rows, postgresql=results, iceberg=lake)


def _print(layout: str, figures: dict[str, float]) -> None:
    lines = [(name, f"{value:,.3g}" if value < 100 else f"{value:,.0f}") for name, value in figures.items()]
    print("\n" + table(f"figure | {layout}:", lines), flush=True)


if __name__ == "__main__":
    main()
