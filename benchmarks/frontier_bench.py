"""The server, the URLs and the clock of the benchmarks of the frontier."""

from __future__ import annotations

import asyncio
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.servers import wait_until
from webcrawl.config import DEFAULTS
from webcrawl.engine.client import Engine
from webcrawl.engine.embedded import answers, server_binary
from webcrawl.engine.keeper import server_arguments
from webcrawl.engine.keys import Keys
from webcrawl.engine.server_folder import socket_path
from webcrawl.frontier import Candidate, Crawl, Frontier, Lease, LeaseReport, Settlement
from webcrawl.frontier.tails import Tails

SHARDS = 16
BATCH = 2000
"""URLs of one `add`, as many as a worker sends at once."""
URL_LENGTH = 80


@dataclass(frozen=True, slots=True)
class Bench:
    """An empty server with a frontier on it. `scale` makes the counts smaller, never the shape of the work."""

    engine: Engine
    frontier: Frontier
    crawl: Crawl
    pid: int
    scale: float

    def scaled(self, number: int, least: int = 1) -> int:
        return max(least, int(number * self.scale))

    async def memory(self) -> int:
        """Bytes used by the server's data, after it has freed what it frees in the background."""
        while (await self.engine.client.info("memory"))["lazyfree_pending_objects"]:
            await asyncio.sleep(0.05)
        info = await self.engine.client.info("memory")
        return int(info["used_memory"]) - int(info["mem_aof_buffer"]) - int(info["mem_clients_normal"])

    async def drain(self) -> int:
        """Leases and settles everything that is queued; returns the number of URLs."""
        drained = 0
        while leases := await self.frontier.lease(4 * SHARDS, 100):
            await self.frontier.settle_all([finished(lease) for lease in leases])
            drained += sum(len(lease.urls) for lease in leases)
        return drained


@dataclass(frozen=True, slots=True)
class Figure:
    """One measure: its value, its target (`bar`), and a note."""

    name: str
    value: float
    unit: str
    bar: str
    good: bool
    note: str


def figure(
    name: str, value: float, unit: str, note: str = "", *, least: float = -math.inf, most: float = math.inf
) -> Figure:
    """A measure whose target is at least `least`, or at most `most`."""
    bar = f"at least {least:,}" if least > -math.inf else f"at most {most:,}" if most < math.inf else ""
    return Figure(name, value, unit, bar, least <= value <= most, note)


async def send(frontier: Frontier, waiting: Iterator[list[Candidate]]) -> None:
    """Adds batches; two of these at once prepare a batch while the server processes another."""
    for batch in waiting:
        await frontier.add(batch)


async def keep_tails(tails: Tails, shards: Sequence[int]) -> None:
    """Does all spills, refills and deletions that are due."""
    while work := [plan for plan in await tails.plan(shards) if plan]:
        for plan in work:
            await tails.carry_out(plan)


_LINKS = ("https://www.site-0000000.example/",)


def finished(lease: Lease) -> LeaseReport:
    """A report that all URLs of a lease are done and the host may be asked again at once."""
    return LeaseReport(lease, [Settlement(url.index, links=_LINKS) for url in lease.urls], pause=0.0)


def host_of(number: int) -> str:
    return f"https://www.site-{number:07}.example"


def candidates(numbers: Iterable[int], hosts: int, together: int = 1) -> list[Candidate]:
    """URLs of 80 characters; the same number is always the same URL.

    Of each `hosts` * `together` consecutive numbers, every host has `together`, next to each other.
    """
    made = []
    for number in numbers:
        host = host_of(number // together % hosts)
        path = f"/articles/{number:012}/"
        # a bijection of 64-bit numbers that looks like a hash, to avoid the cost of computing one
        fingerprint = (number + 1) * 0x9E3779B97F4A7C15 % 2**64
        fingerprint = (fingerprint ^ fingerprint >> 29) * 0xBF58476D1CE4E5B9 % 2**64 - 2**63
        made.append(Candidate(host, path.ljust(URL_LENGTH - len(host), "x"), fingerprint, depth=3, rise=0))
    return made


def batches(total: int, size: int = BATCH) -> Iterator[range]:
    for start in range(0, total, size):
        yield range(start, min(start + size, total))


@dataclass(slots=True)
class Clock:
    """Time and processor time, of the client and of the server, during work."""

    pid: int
    seconds: float = 0.0
    client: float = 0.0
    server: float = 0.0

    async def run(self, work: Awaitable[Any]) -> Any:
        start = time.perf_counter(), time.process_time(), cpu_seconds(self.pid)
        result = await work
        self.seconds += time.perf_counter() - start[0]
        self.client += time.process_time() - start[1]
        self.server += cpu_seconds(self.pid) - start[2]
        return result

    def note(self, urls: int, rates: Sequence[float] = ()) -> str:
        client, server = (1e6 * seconds / urls for seconds in (self.client, self.server))
        best = f"best run {max(rates):,.0f}; " if rates else ""
        return f"{best}CPU a URL: client {client:.1f} us, server {server:.1f} us"


def cpu_seconds(pid: int) -> float:
    """User and system time of another process, by its CPU clock as clock_getcpuclockid(3) of Linux computes it."""
    return time.clock_gettime((~pid << 3) | 2) if sys.platform == "linux" else math.nan


@contextmanager
def embedded_server(folder: Path, *options: str) -> Iterator[tuple[str, int]]:
    """Starts a server like that of an embedded engine, with its files in a folder; yields its URL and process."""
    words, socket = [*server_arguments(folder, server_binary()), *options], socket_path(folder)
    server = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        wait_until(partial(answers, socket), server, folder / "valkey.log")
        yield f"unix://{socket}", server.pid
    finally:
        server.kill()
        server.wait()


@asynccontextmanager
async def fresh_bench(
    scale: float, *, aof: bool, importance: bool = False, unit: str = DEFAULTS["POLITENESS_UNIT"]
) -> AsyncIterator[Bench]:
    """Starts an empty server with a frontier on it, and ends it afterwards.

    `importance`: URLs have credit; `unit` is POLITENESS_UNIT.
    """
    log = ("--appendonly", "yes" if aof else "no")
    with (
        tempfile.TemporaryDirectory(prefix="bench") as folder,
        embedded_server(Path(folder), *log) as (url, pid),
    ):
        engine, keys = Engine(url), Keys("bench", SHARDS, unit)
        crawl = Crawl(engine, keys, "bench")
        try:
            hot, order = DEFAULTS["FRONTIER_HOT_URLS"], DEFAULTS["FRONTIER_ORDER"]
            await crawl.configure(hot, order, importance=importance)
            frontier = Frontier(engine, keys, "bench", purse="bench" if importance else "")
            yield Bench(engine, frontier, crawl, pid, scale)
        finally:
            await engine.close()
