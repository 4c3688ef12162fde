"""The index of near-duplicates with many texts: bytes a text, and lookups a second of one client and of two.

    make bench-duplicates [ARGS="--texts 1e7 --json FILE"]
    make bench-duplicates ARGS="--annotated FILE"
    make bench-duplicates ARGS="--reference"
    make bench-duplicates ARGS="--news FOLDER"

With the last three, the main part of pages is measured instead: see main_parts.py and news_texts.py.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.command import command_line, records_table, write_figures
from benchmarks.frontier_bench import cpu_seconds, fresh_bench
from benchmarks.main_parts import report_main_parts, report_reference
from benchmarks.news_texts import report_news_texts
from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.stores.duplicate_index import DuplicateIndex

KEYS = Keys("duplicates", 16)
LOOKED_UP = 20_000
"""Texts, by each client."""
AT_ONCE = 64
"""Pages of a busy worker that ask at the same time."""
CLIENT_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class Lookups:
    """The cost of looking up and adding texts: CPU in microseconds a text."""

    texts: str
    clients: int
    each_second: float
    client_cpu: float
    engine_cpu: float
    found: int


def url_of(name: str, number: int) -> str:
    """A URL of 80 characters."""
    host = f"https://www.site-{number % 99_991:05d}.example.org"
    return f"{host}/{name}/".ljust(59, "x") + f"/page-{number:010d}.html"


def client(url: str, name: str, texts: Sequence[int], start: Any, results: Any) -> None:
    """A process that looks up texts like a busy worker; reports when it began and ended, its CPU, and what it found."""

    async def look_up() -> None:
        engine, waiting = Engine(url), iter(enumerate(texts))
        index, near = DuplicateIndex(engine, KEYS), 0

        async def ask() -> None:
            nonlocal near
            for number, simhash in waiting:
                first = await index.near_text(simhash, url_of(name, number), 3)
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
    """Bytes a text for this number of texts, and the cost of adding them and of lookups among them."""
    dice, figures = random.Random(1), []
    texts = [dice.getrandbits(64) for _ in range(count)]
    async with fresh_bench(1.0, aof=False) as bench:
        empty = await bench.memory()

        async def look_up_all(name: str, lists: Sequence[Sequence[int]]) -> None:
            figures.append(await asyncio.to_thread(look_up, bench.engine.url, bench.pid, name, lists))

        await look_up_all("first", [texts[::2], texts[1::2]])
        each = (await bench.memory() - empty) / count
        for clients in (1, 2):
            await look_up_all(
                "new", [[dice.getrandbits(64) for _ in range(LOOKED_UP)] for _ in range(clients)]
            )
            near = [
                [changed(text, dice) for text in dice.choices(texts, k=LOOKED_UP)] for _ in range(clients)
            ]
            await look_up_all("near", near)
    return each, figures


def changed(simhash: int, dice: random.Random) -> int:
    """A SimHash that differs in three bits."""
    return simhash ^ sum(1 << bit for bit in dice.sample(range(64), 3))


def report_index(count: int, file: Path | None = None) -> None:
    """Prints the figures, and writes them as JSON to a file."""
    load = os.getloadavg()[0]
    each, figures = uvloop.run(measure(count))
    print(f"\n{count:,} texts in one engine, {each:.0f} bytes each with URLs of 80 characters\n")
    print(records_table(figures), flush=True)
    write_figures(file, load_before=load, texts=count, bytes_each=each, lookups=figures)


def main() -> None:
    parser = command_line(__doc__, json=True)
    parser.add_argument("--texts", type=float, default=1e6, help="how many the index holds")
    parser.add_argument("--annotated", type=Path, metavar="FILE", help="an archive of annotated pages")
    parser.add_argument("--reference", action="store_true", help="measure installed reference documentation")
    parser.add_argument("--news", type=Path, metavar="FOLDER", help="packages with news pages and texts")
    options = parser.parse_args()
    if options.news:
        report_news_texts(options.news)
    elif options.reference:
        report_reference()
    elif options.annotated:
        report_main_parts(options.annotated)
    else:
        report_index(int(options.texts), options.json)


if __name__ == "__main__":
    main()
