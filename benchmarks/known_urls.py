"""Lists and changes queued URLs, as `scrapy urls` does: how fast, in how much memory, and how long the engine is busy.

    python -m benchmarks.known_urls [--urls 1000000 --each 10 --no-importance]

Adds URLs of 80 characters, `each` of them on a host, to an embedded Valkey with its settings. Lists them into a Parquet
file, then sets a level for all, for none that has it already, and drops a tenth of them. Long queues are in a folder.
Prints for each step URLs per second, the longest step of the engine (of those that took over half a millisecond), and
the peak of the process's memory so far, of which the interpreter and the libraries take the first figure.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.compute
import uvloop
from pyarrow import parquet

from benchmarks.frontier_bench import Bench, batches, candidates, fresh_bench
from webcrawl.frontier.listing.change_files import changes_in
from webcrawl.frontier.listing.changes import Changes
from webcrawl.frontier.listing.engine_urls import EngineURLs
from webcrawl.frontier.listing.listing import FIELDS, Listing
from webcrawl.frontier.listing.setting import Setting
from webcrawl.frontier.tails import Tails
from webcrawl.results.exports.parts import ParquetPart

_SLOW_US = 500


async def fill(bench: Bench, tails: Tails, urls: int, each: int) -> None:
    for numbers in batches(urls):
        await bench.frontier.add(candidates(numbers, urls // each, each))
        await serve(bench, tails)


async def serve(bench: Bench, tails: Tails) -> None:
    for plan in await tails.plan(range(bench.frontier.keys.shards)):
        if plan:
            await tails.carry_out(plan)


async def list_all(bench: Bench, tails: Tails, path: Path) -> int:
    reading = EngineURLs(bench.engine, bench.frontier.keys, tails, "bench")
    part, listed = ParquetPart(path, FIELDS), 0
    async for rows in Listing(reading).rows():
        part.write(rows)
        listed += len(rows)
    part.close()
    return listed


def write_changes(listed: Path, path: Path) -> None:
    """Another level for each URL; every tenth is dropped."""
    table = parquet.read_table(listed, columns=["url", "level"])
    levels = pyarrow.compute.if_else(pyarrow.compute.equal(table["level"], 4), 5, 4)
    drop = pyarrow.array([number % 10 == 0 for number in range(len(table))])
    parquet.write_table(pyarrow.table({"url": table["url"], "level": levels, "drop": drop}), path)


async def set_all(bench: Bench, tails: Tails, path: Path) -> int:
    with Changes(bench.frontier.keys.shard) as changes:
        changes.add(changes_in(path))
        await Setting(bench.engine, bench.frontier.keys, tails, changes, hash).run()
        counts = changes.counts()
    print({name: number for name, number in counts.items() if number})
    return counts["changed"]


async def measured(bench: Bench, name: str, work: Awaitable[int]) -> None:
    client: Any = bench.engine.client
    await client.config_set("slowlog-log-slower-than", _SLOW_US)
    await client.config_set("slowlog-max-len", 100_000)
    await client.slowlog_reset()
    start = time.perf_counter()
    urls = await work
    seconds = time.perf_counter() - start
    slowest = max((one["duration"] for one in await client.slowlog_get(-1)), default=0) / 1000
    print(
        f"{name}: {urls:,} URLs, {urls / seconds:,.0f} URLs/s, longest step {slowest:.1f} ms, {peak():.0f} MB"
    )


def peak() -> float:
    """The most memory that this process has taken, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--urls", type=int, default=1_000_000)
    parser.add_argument("--each", type=int, default=10, help="URLs of one host")
    parser.add_argument("--no-importance", dest="importance", action="store_false")
    return parser.parse_args()


async def main() -> None:
    said = arguments()
    async with fresh_bench(1.0, aof=True, importance=said.importance) as bench:
        with tempfile.TemporaryDirectory(prefix="bench") as name:
            folder = Path(name)
            keys = bench.frontier.keys
            tails = Tails(bench.engine, keys, bench.crawl, (folder / "tails").as_uri())
            await fill(bench, tails, said.urls, said.each)
            listed, changes = folder / "urls.parquet", folder / "changes.parquet"
            print(f"before: {peak():.0f} MB")
            await measured(bench, "list", list_all(bench, tails, listed))
            # its memory does not count
            process = multiprocessing.get_context("spawn").Process(
                target=write_changes, args=(listed, changes)
            )
            process.start()
            await asyncio.to_thread(process.join)
            await measured(bench, "set", set_all(bench, tails, changes))


if __name__ == "__main__":
    uvloop.run(main())
