"""Near-duplicates: what the index of the engine costs and does, and how well texts are told apart.

make bench-duplicates                        everything; the index with 10 million texts
make bench-duplicates ARGS="--texts 1e6"     with a million
make bench-duplicates ARGS="--only texts"    only what becomes of changed pages
make bench-duplicates ARGS="--only main"     only the main part of pages, beside other tools where they are installed
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time

import numpy as np
import numpy.typing as npt

from benchmarks.changed_texts import report_changed_texts
from benchmarks.frontier import Bench, _cpu_seconds, fresh_bench
from benchmarks.main_parts import report_main_parts
from webcrawl.duplicate_index import ENTRY, DuplicateIndex, url_id
from webcrawl.frontier import Keys

BLOCKS, BLOCK_BITS = 4, 16
ROUNDS = 8
"""In so many steps the blocks grow: a string that is appended to takes more memory than one written at once."""
LOOKED_UP = 20_000
AT_ONCE = 64
TOGETHER = 100_000


def url_of(number: int) -> str:
    """80 characters."""
    return f"https://www.site-{number % 99_991:05d}.example.org/section/of-it/page-{number:010d}/index.html"


async def fill(bench: Bench, keys: Keys, simhashes: npt.NDArray[np.uint64]) -> None:
    """What the index leaves in the engine after as many texts of which none is near another one."""
    entries = np.zeros((len(simhashes), ENTRY), np.uint8)
    entries[:, :8] = simhashes.astype(">u8").view(np.uint8).reshape(-1, 8)
    for start in range(0, len(entries), TOGETHER):
        some = entries[start : start + TOGETHER]
        buckets: dict[str, list[bytes]] = {}
        for number, entry in enumerate(some, start):
            url = url_of(number)
            entry[8:] = np.frombuffer(url_id(url), np.uint8)
            packed = entry.tobytes()
            buckets.setdefault(keys.text(packed[8:]), []).extend((packed[8:], packed[:8] + url.encode()))
        pipeline = bench.engine.client.pipeline(transaction=False)
        for key, fields in buckets.items():
            pipeline.execute_command("HSET", key, *fields)
        await pipeline.execute()
    for some in np.array_split(np.arange(len(entries)), ROUNDS):
        for number in range(BLOCKS):
            await append(bench, keys, number, simhashes[some], entries[some])


async def append(
    bench: Bench, keys: Keys, number: int, simhashes: npt.NDArray[np.uint64], entries: npt.NDArray[np.uint8]
) -> None:
    """Put texts into their block of this number."""
    blocks = (simhashes >> np.uint64(number * BLOCK_BITS)) & np.uint64(2**BLOCK_BITS - 1)
    order = np.argsort(blocks, kind="stable")
    found, starts = np.unique(blocks[order], return_index=True)
    rows, ends = entries[order], [*starts[1:], len(order)]
    for first in range(0, len(found), TOGETHER // 10):
        pipeline = bench.engine.client.pipeline(transaction=False)
        for place in range(first, min(first + TOGETHER // 10, len(found))):
            key = keys.like(number << BLOCK_BITS | int(found[place]))
            pipeline.append(key, rows[starts[place] : ends[place]].tobytes())
        await pipeline.execute()


async def look_up(bench: Bench, index: DuplicateIndex, texts: list[int], name: str) -> int:
    """Ask for texts as a busy worker does; how many have a near-duplicate. Prints what one costs."""
    waiting = iter(enumerate(texts))
    found = 0

    async def ask() -> None:
        nonlocal found
        for number, simhash in waiting:
            first = await index.near_text(simhash, f"https://other.example/{name}/{number}", 3)
            found += first is not None

    begun = time.perf_counter(), time.process_time(), _cpu_seconds(bench.pid)
    await asyncio.gather(*[ask() for _ in range(AT_ONCE)])
    seconds, worker, engine = (
        after - before
        for after, before in zip(
            (time.perf_counter(), time.process_time(), _cpu_seconds(bench.pid)), begun, strict=True
        )
    )
    micro = 1e6 / len(texts)
    print(
        f"| {name} | {len(texts) / seconds:,.0f} | {worker * micro:.0f} | {engine * micro:.0f} |"
        f" {len(texts) / engine:,.0f} |",
        flush=True,
    )
    return found


async def report_index(count: int) -> None:
    chance = np.random.default_rng(1)
    simhashes = chance.integers(0, 2**64, count, np.uint64)
    async with fresh_bench(1.0, aof=False) as bench:
        keys = Keys("duplicates", 16)
        index = DuplicateIndex(bench.engine, keys)
        empty = await bench.memory()
        begun = time.perf_counter()
        await fill(bench, keys, simhashes)
        each = (await bench.memory() - empty) / count
        print(
            f"\n{count:,} texts, filled in {time.perf_counter() - begun:.0f} s: {each:.0f} bytes each\n",
            flush=True,
        )
        print(
            "| looked up | texts/s of one worker | CPU us, worker | CPU us, engine | texts/s of an engine |"
        )
        print("|---|---:|---:|---:|---:|")
        random.seed(1)
        new = [random.getrandbits(64) for _ in range(LOOKED_UP)]
        assert await look_up(bench, index, new, "new") <= LOOKED_UP // 100
        near = [
            int(text) ^ sum(1 << bit for bit in random.sample(range(64), 3)) for text in simhashes[:LOOKED_UP]
        ]
        found = await look_up(bench, index, near, "near")
        print(f"\nOf {len(near):,} texts that differ in 3 bits from one in the index {found:,} were found.")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--texts", type=float, default=1e7, help="how many the index holds")
    parser.add_argument("--only", choices=("index", "texts", "main"))
    options = parser.parse_args()
    if options.only in (None, "texts"):
        report_changed_texts()
    if options.only in (None, "main"):
        report_main_parts()
    if options.only in (None, "index"):
        asyncio.run(report_index(int(options.texts)))


if __name__ == "__main__":
    main()
