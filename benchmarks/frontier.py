"""Measures the frontier on one Valkey process: the embedded binary with the embedded engine's settings.

    make bench-frontier [ARGS="--scale 0.01 --only add --importance --json FILE"]

One client process uses only the public verbs, over a unix socket. At full scale it takes a quarter of an hour, 3 GB of
memory and 5 GB of disk. Speeds are medians of five runs. Each bar is a target of the frontier; the exit status is 1 if
a full run misses one. `--only cold-seen` is not part of it: it takes about half an hour, 3 GB and 8 GB.
"""

from __future__ import annotations

import asyncio
import math
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.cold_seen import cold_hosts, cold_seen
from benchmarks.command import command_line, records_table, size_of, write_figures
from benchmarks.frontier_bench import (
    BATCH,
    SHARDS,
    Bench,
    Clock,
    Figure,
    batches,
    candidates,
    figure,
    finished,
    fresh_bench,
    host_of,
    keep_tails,
    send,
)
from webcrawl.engine.keys import Keys
from webcrawl.frontier import Frontier, LeaseReport, level_of_priority
from webcrawl.frontier.tails import Tails

LEASE_HOSTS, LEASE_URLS = 256, 20
"""Hosts and URLs of one `lease` call, as in the default settings."""
RUNS = 5
PRIORITIES = range(-20, 21)
"""Only eight of them have a level of their own in an entry's first byte."""


async def add(bench: Bench) -> list[Figure]:
    """Batches like those of the links of pages, with 20 URLs a host, the same with priorities, and 2 URLs a host."""
    return [
        await _add(bench, 10, "add, 50% known, 20 URLs a host", 60_000 if bench.frontier.purse else 100_000),
        await _add(bench, 10, "add, 50% known, 41 priorities", 0, PRIORITIES),
        await _add(bench, 1, "add, 50% known, 2 URLs a host", 0),
    ]


async def _add(bench: Bench, together: int, name: str, bar: int, priorities: Iterable[int] = (0,)) -> Figure:
    """Half of each batch was added in an earlier run, for the same hosts."""
    size, rates = bench.scaled(100_000, 10 * BATCH), []
    clock, numbers = Clock(bench.pid), random.Random(1)
    levels = [level_of_priority(priority) for priority in priorities]
    first = size * RUNS * (together + len(levels))  # different in each measure
    hosts = size // together
    for batch in batches(size):
        await bench.frontier.add(candidates((first + number for number in batch), hosts, together))
    for turn in range(1, RUNS + 1):
        work = []
        for batch in batches(size, BATCH // 2):
            new = [first + size * turn + number for number in batch]
            old = [number - size * numbers.randint(1, turn) for number in new]
            urls = zip(candidates(new + old, hosts, together), cycle(levels), strict=False)
            work.append([replace(url, level=level) for url, level in urls])
        before, waiting = clock.seconds, iter(work)
        await clock.run(asyncio.gather(*(send(bench.frontier, waiting) for _ in range(2))))
        rates.append(2 * size / (clock.seconds - before))
    note = clock.note(2 * size * RUNS, rates)
    return figure(name, statistics.median(rates), "URLs/s", note, least=bar or -math.inf)


async def lease(bench: Bench) -> list[Figure]:
    """Leases like a worker, and settles everything in one round trip."""
    clock, rates = Clock(bench.pid), []
    hosts = bench.scaled(10_000, LEASE_HOSTS)
    size = hosts * LEASE_URLS
    for turn in range(RUNS):
        for batch in batches(size):
            await bench.frontier.add(
                candidates((size * turn + number for number in batch), hosts, LEASE_URLS)
            )
        before, done = clock.seconds, 0
        while done < size:
            leases = await clock.run(bench.frontier.lease(LEASE_HOSTS, LEASE_URLS))
            await clock.run(bench.frontier.settle_all([finished(lease) for lease in leases]))
            done += sum(len(lease.urls) for lease in leases)
        rates.append(done / (clock.seconds - before))
    note = clock.note(RUNS * size, rates)
    return [figure("lease and acknowledge", statistics.median(rates), "URLs/s", note, least=20_000)]


async def seen(bench: Bench) -> list[Figure]:
    """The memory that remains when everything has been crawled."""
    total, hosts = bench.scaled(10_000_000, 20_000), 1000
    # so that the cost of hosts, counters and scripts is not counted
    await bench.frontier.add(candidates(range(-hosts, 0), hosts))
    await bench.drain()
    before = await bench.memory()
    for part in batches(total, 500_000):
        for start in range(part.start, part.stop, BATCH):
            await bench.frontier.add(candidates(range(start, min(start + BATCH, part.stop)), hosts))
        await bench.drain()
    return [figure(f"seen URL, of {total:,}", (await bench.memory() - before) / total, "bytes", most=10)]


async def queued(bench: Bench) -> list[Figure]:
    """The memory of queued URLs, including their share of the seen set."""
    hosts, figures = bench.scaled(1_000_000, 1000), []
    before = await bench.memory()
    for depth in range(1, 11):
        for batch in batches(hosts):
            await bench.frontier.add(candidates((hosts * (depth - 1) + number for number in batch), hosts))
        if depth in (1, 4, 10):
            each = (await bench.memory() - before) / (hosts * depth)
            name = f"queued URL, {depth} on each of {hosts:,} hosts"
            figures.append(figure(name, each, "bytes", most=150))
    return figures


async def slowest_lease(bench: Bench) -> list[Figure]:
    """The lease call with few hosts and with many, alternating, each on a crawl of its own."""
    sizes = (1000, bench.scaled(1_000_000, 10_000))
    frontiers = {size: Frontier(bench.engine, Keys(f"hosts{size}", SHARDS), "bench") for size in sizes}
    times: dict[int, list[float]] = {size: [] for size in sizes}
    for size, frontier in frontiers.items():
        for batch in batches(2 * size):
            await frontier.add(candidates(batch, size))
    for _ in range(bench.scaled(5000, 200)):
        for size, frontier in frontiers.items():
            start = time.perf_counter()
            leases = await frontier.lease(SHARDS, LEASE_URLS)
            times[size].append((time.perf_counter() - start) * 1000)
            assert len(leases) == SHARDS
            await frontier.settle_all([LeaseReport(lease, (), pause=0.0) for lease in leases])
    few, many = (statistics.quantiles(times[size], n=100)[98] for size in sizes)
    medians = " and ".join(f"{statistics.median(times[size]):.2f} ms" for size in sizes)
    return [
        figure(f"p99 of lease, {sizes[0]:,} hosts", few, "ms"),
        figure(f"p99 of lease, {sizes[1]:,} hosts", many, "ms", f"medians {medians}", most=round(2 * few, 2)),
    ]


async def long_queue(bench: Bench) -> list[Figure]:
    """One host with very many URLs, which are added and then all fetched; its queue continues in a folder."""
    total, added, refilled = bench.scaled(2_000_000, 50_000), Clock(bench.pid), Clock(bench.pid)
    with tempfile.TemporaryDirectory(prefix="bench") as folder:
        tails = Tails(bench.engine, bench.frontier.keys, bench.crawl, Path(folder).as_uri())
        shards = [bench.frontier.keys.shard(host_of(0))]
        before = await bench.memory()
        for batch in batches(total):
            # so that only the queue is measured
            await bench.frontier.add([replace(url, fingerprint=None) for url in candidates(batch, 1)])
            await added.run(keep_tails(tails, shards))
        held, on_disk = await bench.memory() - before, size_of(Path(folder))
        spilled = (await bench.frontier.counts()).spilled
        while leases := await bench.frontier.lease(1, 500):
            await bench.frontier.settle_all([finished(lease) for lease in leases])
            await refilled.run(keep_tails(tails, shards))
    note = f"{spilled:,} of them in the store, {on_disk / spilled:.1f} bytes each"
    return [
        figure(f"a host with {total:,} URLs, in the engine", held, "bytes", note),
        *(
            figure(f"{name}, one host", spilled / clock.seconds, "URLs/s", clock.note(spilled))
            for name, clock in (("spill", added), ("refill", refilled))
        ),
    ]


LONG = ("cold-seen", "cold-hosts")
"""The measures that run only if they are named."""
MEASURES: dict[str, Callable[[Bench], Awaitable[list[Figure]]]] = {
    "add": add,
    "lease": lease,
    "seen": seen,
    "queued": queued,
    "slowest": slowest_lease,
    "long": long_queue,
    "cold-seen": cold_seen,
    "cold-hosts": cold_hosts,
}


async def measure(names: Sequence[str], scale: float, **options: Any) -> list[Figure]:
    """Returns the figures; `options` are those of `fresh_bench`."""
    figures = []
    for name in names:
        async with fresh_bench(scale, **options) as bench:
            for figure in await MEASURES[name](bench):
                figures.append(figure)
                print(f"{figure.name}: {figure.value:,.0f} {figure.unit}", flush=True)
    return figures


def main() -> int:
    parser = command_line(
        __doc__,
        MEASURES,
        json=True,
        scale=(1.0, "of all counts; 0.01 takes some seconds"),
        importance=(False, "URLs have credit, as in a crawl"),
        unit=("name", "POLITENESS_UNIT", ("name", "origin")),
    )
    parser.set_defaults(only=[name for name in MEASURES if name not in LONG])
    options = parser.parse_args()
    crawl = {"aof": True, "importance": options.importance, "unit": options.unit}
    figures = uvloop.run(measure(options.only, options.scale, **crawl))
    print(records_table(figures))
    write_figures(options.json, scale=options.scale, figures=figures)
    return 1 if options.scale >= 1 and not all(figure.good for figure in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
