"""The index of near-duplicates with many texts: bytes a text, and lookups a second of one client and of two.

Run by benchmarks/duplicates.py.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import uvloop

from benchmarks.command import Section, machine, table, today, write_figures
from benchmarks.frontier_bench import Bench, cpu_seconds, fresh_bench
from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.stores.duplicate_index import ENTRY, DuplicateIndex, url_id

SECTION = Section("bench-duplicates")
KEYS = Keys("duplicates", 16)
BLOCKS, BLOCK_BITS = 4, 16
ROUNDS = 8
"""The blocks grow in this number of steps, because a string that is appended to takes more memory."""
LOOKED_UP = 20_000
"""Texts, by each client."""
AT_ONCE = 64
"""Pages of a busy worker that ask at the same time."""
CLIENT_SECONDS = 600
TOGETHER = 100_000


def url_of(number: int) -> str:
    """A URL of 80 characters."""
    return f"https://www.site-{number % 99_991:05d}.example.org/section/of-it/page-{number:010d}/index.html"


async def fill(bench: Bench, simhashes: npt.NDArray[np.uint64]) -> None:
    """Fills the engine as if it had indexed this number of texts, none of them near another."""
    entries = np.zeros((len(simhashes), ENTRY), np.uint8)
    entries[:, :8] = simhashes.astype(">u8").view(np.uint8).reshape(-1, 8)
    for start in range(0, len(entries), TOGETHER):
        some = entries[start : start + TOGETHER]
        buckets: dict[str, list[bytes]] = {}
        for number, entry in enumerate(some, start):
            url = url_of(number)
            entry[8:] = np.frombuffer(url_id(url), np.uint8)
            packed = entry.tobytes()
            buckets.setdefault(KEYS.text(packed[8:]), []).extend((packed[8:], packed[:8] + url.encode()))
        pipeline = bench.engine.client.pipeline(transaction=False)
        for key, fields in buckets.items():
            pipeline.execute_command("HSET", key, *fields)
        await pipeline.execute()
    for some in np.array_split(np.arange(len(entries)), ROUNDS):
        for number in range(BLOCKS):
            await append(bench, number, simhashes[some], entries[some])


async def append(
    bench: Bench, number: int, simhashes: npt.NDArray[np.uint64], entries: npt.NDArray[np.uint8]
) -> None:
    """Puts texts into the block with this number."""
    blocks = (simhashes >> np.uint64(number * BLOCK_BITS)) & np.uint64(2**BLOCK_BITS - 1)
    order = np.argsort(blocks, kind="stable")
    values, starts = np.unique(blocks[order], return_index=True)
    rows, ends = entries[order], [*starts[1:], len(order)]
    for first in range(0, len(values), TOGETHER // 10):
        pipeline = bench.engine.client.pipeline(transaction=False)
        for index in range(first, min(first + TOGETHER // 10, len(values))):
            key = KEYS.like(number << BLOCK_BITS | int(values[index]))
            pipeline.append(key, rows[starts[index] : ends[index]].tobytes())
        await pipeline.execute()


@dataclass(frozen=True, slots=True)
class Lookups:
    """The cost of looking up and adding texts: CPU in microseconds a text."""

    texts: str
    clients: int
    each_second: float
    client_cpu: float
    engine_cpu: float
    found: int


def client(url: str, name: str, texts: Sequence[int], start: Any, results: Any) -> None:
    """A process that looks up texts like a busy worker; reports when it began and ended, its CPU, and what it found."""

    async def look_up() -> None:
        engine, waiting = Engine(url), iter(enumerate(texts))
        index, near = DuplicateIndex(engine, KEYS), 0

        async def ask() -> None:
            nonlocal near
            for number, simhash in waiting:
                first = await index.near_text(simhash, f"https://other.example/{name}/{number}", 3)
                near += first is not None

        await engine.check()
        start.wait(CLIENT_SECONDS)
        begun = time.monotonic(), time.process_time()
        await asyncio.gather(*[ask() for _ in range(AT_ONCE)])
        results.put((begun[0], time.monotonic(), time.process_time() - begun[1], near))
        await engine.close()

    uvloop.run(look_up())


def look_up(url: str, pid: int, name: str, texts: Sequence[Sequence[int]]) -> Lookups:
    """Looks up each list in a client of its own, all at the same time."""
    context = multiprocessing.get_context("spawn")
    start, results = context.Barrier(len(texts) + 1), context.Queue()
    clients = [
        context.Process(target=client, args=(url, f"{name}-{len(texts)}-{number}", some, start, results))
        for number, some in enumerate(texts)
    ]
    for process in clients:
        process.start()
    start.wait(CLIENT_SECONDS)
    engine = cpu_seconds(pid)
    begun, ended, cpu, found = zip(*[results.get(timeout=CLIENT_SECONDS) for _ in clients], strict=True)
    engine = cpu_seconds(pid) - engine
    for process in clients:
        process.join(CLIENT_SECONDS)
    count = sum(map(len, texts))
    seconds = max(ended) - min(begun)
    return Lookups(
        name, len(texts), count / seconds, sum(cpu) / count * 1e6, engine / count * 1e6, sum(found)
    )


async def measure(count: int) -> tuple[float, list[Lookups]]:
    """Bytes a text for this number of texts, and the cost of lookups among them."""
    simhashes = np.random.default_rng(1).integers(0, 2**64, count, np.uint64)
    dice, figures = random.Random(1), []
    async with fresh_bench(1.0, aof=False) as bench:
        empty = await bench.memory()
        await fill(bench, simhashes)
        each = (await bench.memory() - empty) / count
        url = bench.engine.url
        for clients in (1, 2):
            new = [[dice.getrandbits(64) for _ in range(LOOKED_UP)] for _ in range(clients)]
            figures.append(await asyncio.to_thread(look_up, url, bench.pid, "new", new))
            near = [[changed(int(text), dice) for text in dice.choices(simhashes, k=LOOKED_UP)] for _ in new]
            figures.append(await asyncio.to_thread(look_up, url, bench.pid, "near", near))
    return each, figures


def changed(simhash: int, dice: random.Random) -> int:
    """A SimHash that differs in three bits."""
    return simhash ^ sum(1 << bit for bit in dice.sample(range(64), 3))


def lookups_table(count: int, each: float, figures: Sequence[Lookups], load: float) -> str:
    """The table of docs/benchmarks.md."""
    on = machine()
    rows = (
        (
            *(lookups.texts, lookups.clients, f"{lookups.each_second:,.0f}", f"{lookups.client_cpu:.0f}"),
            *(f"{lookups.engine_cpu:.0f}", f"{1e6 / lookups.engine_cpu:,.0f}"),
            f"{lookups.found / lookups.clients / LOOKED_UP:.1%}",
        )
        for lookups in figures
    )
    return (
        f"Measured on {today()}: {on['cpu']}, {on['cores']} cores, {on['system']}, load {load:.1f} before.\n"
        f"{count:,} texts in one engine, {each:.0f} bytes each with URLs of 80 characters.\n\n"
        + table(
            "looked up | clients: | texts/s: | CPU us, client: | CPU us, engine: | texts/s of engine CPU: | found:",
            rows,
        )
    )


def report_index(count: int, file: Path | None = None, page: Path | None = None) -> None:
    """Prints the figures, writes them as JSON to a file, and as a table into a page."""
    load = os.getloadavg()[0]
    each, figures = uvloop.run(measure(count))
    text = lookups_table(count, each, figures, load)
    print(f"\n{text}\n", flush=True)
    if file:
        lookups = list(map(asdict, figures))
        write_figures(file, today(), load_before=load, texts=count, bytes_each=each, lookups=lookups)
    if page:
        SECTION.replace(page, text)
