"""Measures table `pages` of a PostgreSQL server, and the same rows as a table of Iceberg.

    python -m benchmarks.metadata --rows 5e7 [--partitions 0,16] [--writers 2] [--batch 500] [--no-lake] [--json FILE]

The server fills the tables: the primary key grows in random order, the other indexes are made after the rows. Then
processes store new and known rows by the code of a crawl, with fsync, and look up pages and what is due.
"""

from __future__ import annotations

import multiprocessing
import random
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path

from sqlalchemy import Connection

from benchmarks.command import command_line, seconds_of, table, write_figures
from benchmarks.measured import tree
from benchmarks.metadata_rows import CRAWL, FIRST, HOST_PAGES, SPAN, fill, measure_lake, new_rows, url_of
from tests.postgres import PostgresServer, postgres_folder
from webcrawl.stores import columns
from webcrawl.stores.due_pages import DuePages
from webcrawl.stores.metadata import Metadata

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


def _write(task: tuple[str, int, int, int, bool]) -> tuple[float, float]:
    """Stores batches by a process of their own; returns seconds and processor seconds."""
    uri, hosts, batch, writer, known = task
    chance = random.Random(writer)
    with Metadata(uri) as metadata:
        start = writer * batch * _BATCHES
        batches = [
            new_rows(start + batch * number, batch, hosts, known=known, chance=chance)
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

    now = FIRST + timedelta(seconds=min(rows, SPAN) / 2)
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
        figures = fill(uri, rows)
        figures["vacuum s"] = seconds_of(lambda: server.execute(uri, "VACUUM ANALYZE pages"))
        figures |= _sizes(uri, rows, "filled")
        server.execute(uri, "ALTER SYSTEM SET fsync = on", "SELECT pg_reload_conf()", "CHECKPOINT")
        figures |= _reads(uri, rows)
        figures |= _writes(server, uri, rows, writers, batch)
        figures["vacuum after writes s"] = seconds_of(lambda: server.execute(uri, "VACUUM ANALYZE pages"))
        return figures | _sizes(uri, rows + writers * batch * _BATCHES, "after writes")


def main() -> None:
    parser = command_line(
        __doc__,
        json=True,
        rows=(1e6, "rows of each table, by default 1e6"),
        partitions=("0,16", "numbers of partitions, by default 0,16"),
        writers=(2, "processes that store rows, by default 2"),
        batch=(500, "rows of a transaction, by default 500"),
        lake=(True, "leave out Iceberg"),
    )
    given = parser.parse_args()
    # a multiple of the pages of a host
    rows = int(given.rows) // HOST_PAGES * HOST_PAGES
    layouts = [int(number) for number in given.partitions.split(",") if number]
    print(f"{rows:,} rows, {given.writers} writers, batches of {given.batch}", flush=True)
    results = {}
    for number in layouts:
        results[number] = measure(rows, number, given.writers, given.batch)
        _print(f"{number} partitions", results[number])
    lake = measure_lake(rows) if given.lake else {}
    if lake:
        _print("Iceberg", lake)
    write_figures(given.json, rows=rows, postgresql=results, iceberg=lake)


def _print(layout: str, figures: dict[str, float]) -> None:
    lines = [(name, f"{value:,.3g}" if value < 100 else f"{value:,.0f}") for name, value in figures.items()]
    print("\n" + table(f"figure | {layout}:", lines), flush=True)


if __name__ == "__main__":
    main()
