"""Measures what it costs to plan a recrawl: processor time of the planner, and memory of the engine.

    python -m benchmarks.recrawl_plan --pages 1000000 --a-second 44 --seconds 60 [--postgresql]

Makes a metadata database of so many pages, of which some become due each second, and an engine whose frontier hands the
queued pages out at once. Nothing is fetched. The planner's share is that of its own thread and queries; handing pages
out and storing their rows belong to the crawl.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections import Counter
from contextlib import ExitStack

from sqlalchemy import Connection, text

from benchmarks.command import command_line, seconds_of
from benchmarks.frontier_bench import fresh_bench
from tests.postgres import PostgresServer, postgres_folder
from webcrawl.frontier import Frontier, Settlement
from webcrawl.policies.crawl_value import Bounds
from webcrawl.policies.revisit_dates import RevisitDates
from webcrawl.stores import columns
from webcrawl.stores.database import Database
from webcrawl.stores.due_pages import DuePages
from webcrawl.stores.metadata import Metadata
from webcrawl.worker.recrawl_planner import RecrawlPlanner

_CRAWL = "bench"
"""The crawl of `fresh_bench`."""
_HOST_PAGES = 10_000
_EVIDENCE = '[3,0.0,0.0,0.0,90.0,0,0.05,-3.4,1,"bench"]'
# the rows come in the order of their URLs, and their dates in none; {pages} must have no factor of 7,919
_FILL = """
WITH RECURSIVE numbers(n) AS (SELECT CAST(0 AS BIGINT) UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < {pages}),
named AS (
    SELECT n, 'https://host' || (100000 + n / {host_pages}) || '.example' AS host,
        '/a/page/' || (100000 + n % {host_pages}) AS path, 5 + n * 7919 % {pages} / {a_second} AS wait
    FROM numbers)
INSERT INTO pages (url, final_url, host, status, fetched_at, first_fetched_at, fetches, depth, attempts, state,
    tried_at, mime_type, digest, title, crawl, change_rate, changes, next_due, change_evidence)
SELECT host || path, host || path, host, 200, {tried}, {tried}, 3, 4, 1, 'fetched', {tried}, 'text/html',
    'sha1:' || (100000000 + n), 'The title of a page', '{crawl}', 0.05, 0, {due}, '{evidence}'
FROM named
"""
_DUE = {
    "sqlite": "strftime('%Y-%m-%dT%H:%M:%f000+00:00', {now}, 'unixepoch', wait || ' seconds')",
    "postgresql": "to_timestamp({now} + wait)",
}
_TRIED = {
    "sqlite": "strftime('%Y-%m-%dT%H:%M:%f000+00:00', {now}, 'unixepoch', '-60 days')",
    "postgresql": "to_timestamp({now} - 5184000)",
}


def fill(uri: str, pages: int, a_second: float) -> None:
    """Makes the rows; one becomes due each 1 / a_second seconds. The indexes are made after them, as this is faster."""
    Metadata(uri).close()
    database = Database(uri)
    dialect, now = database.dialect.name, time.time()
    numbers = {"pages": pages, "host_pages": _HOST_PAGES, "a_second": float(a_second)}
    texts = {"crawl": _CRAWL, "evidence": _EVIDENCE, "due": _DUE[dialect].format(now=now)}
    rows = _FILL.format(**numbers, **texts, tried=_TRIED[dialect].format(now=now))

    def work(connection: Connection) -> None:
        for index in columns.pages.indexes:
            index.drop(connection)
        connection.execute(text(rows))
        for index in columns.pages.indexes:
            index.create(connection)

    database.write(work, at_leisure=True)
    database.close()


async def consume(frontier: Frontier, done: asyncio.Event) -> int:
    """Hands out and settles queued pages until `done`; returns their number."""
    number = 0
    while not done.is_set():
        leases = await frontier.lease(200, 20)
        for lease in leases:
            await frontier.release(lease, [Settlement(url.index) for url in lease.urls])
            number += len(lease.urls)
        await asyncio.sleep(0.2)
    return number


async def measure(uri: str, seconds: float) -> None:
    async with fresh_bench(1.0, aof=False) as bench:
        due, dates = DuePages(uri, _CRAWL), RevisitDates(Bounds())
        planner = RecrawlPlanner(bench.frontier, due, dates, Counter(), lambda: None)
        planner._adopted = None
        done = asyncio.Event()
        consumer = asyncio.create_task(consume(bench.frontier, done))
        before, spent, turns = time.monotonic(), 0.0, 0
        peak = memory = (await bench.engine.memory()).used
        while time.monotonic() - before < seconds:
            began, worked = time.monotonic(), time.process_time()
            await planner.turn()
            spent += time.process_time() - worked
            turns += 1
            peak = max(peak, (await bench.engine.memory()).used)
            await asyncio.sleep(max(0.0, 2.0 - (time.monotonic() - began)))
        done.set()
        number, passed = await consumer, time.monotonic() - before
        await planner.stop()
    print(f"{number:,} pages queued in {passed:.0f} s ({number / passed:.1f}/s), {turns} turns")
    print(f"planner: {100 * spent / passed:.2f} % of a core")
    print(f"engine: {memory / 1e6:.1f} MB before, {peak / 1e6:.1f} MB at most")


def main() -> None:
    postgresql = (False, "instead of SQLite")
    parser = command_line(__doc__, pages=1_000_000, a_second=44.0, seconds=60.0, postgresql=postgresql)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="recrawl") as folder, ExitStack() as stack:
        uri = f"sqlite:///{folder}/metadata.db"
        if options.postgresql:
            binaries = postgres_folder()
            if binaries is None:
                parser.error("PostgreSQL is not installed")
            uri = stack.enter_context(PostgresServer(binaries)).new_database()
        took = seconds_of(lambda: fill(uri, options.pages, options.a_second))
        print(f"{options.pages:,} rows, made in {took:.0f} s")
        asyncio.run(measure(uri, options.seconds))


if __name__ == "__main__":
    main()
