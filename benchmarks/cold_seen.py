"""The parts of the benchmark of the frontier on more known URLs, and more idle hosts, than the engine has memory for.

200 million URLs of 10 million hosts in an engine of 1 GB. To save an hour, most URLs are put into the store and the
engine without `add`, as moves and restores put them there; the last tenth is added.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.command import size_of
from benchmarks.frontier_bench import (
    BATCH,
    SHARDS,
    Bench,
    Clock,
    Figure,
    batches,
    candidates,
    figure,
    host_of,
    keep_tails,
    send,
)
from webcrawl.engine.scripts import script_call
from webcrawl.frontier import Candidate
from webcrawl.frontier.cold_bucket import Marks, as_marks
from webcrawl.frontier.cold_hosts import ColdHosts
from webcrawl.frontier.cold_move import SeenMove
from webcrawl.frontier.cold_seen import LEAST_HOT, ColdSeen
from webcrawl.frontier.ledger import owners
from webcrawl.frontier.tails import Tails

URLS, HOSTS, MEMORY = 200_000_000, 10_000_000, 1_000_000_000
EMPTY_SERVER = 2_500_000
COLD, HOT = 0.64, 0.26
"""The shares of URLs that are in the store and in the engine before the last ones are added."""
LINKS = 20
"""Links of a page that are added together, all of its host."""
SAMPLE = 20_000
ROUND = 20 * BATCH
"""New URLs between two looks at the memory."""
TARGET = 50_000


async def cold_seen(bench: Bench) -> list[Figure]:
    """Adds new URLs of cold hosts, and pages with as many links to known URLs, while known URLs move to the store."""
    await bench.engine.client.config_set("maxmemory", _limit(bench))
    with tempfile.TemporaryDirectory(prefix="bench") as name:
        folder = Path(name)
        tails = Tails(bench.engine, bench.frontier.keys, bench.crawl, folder.as_uri(), kept_seconds=5.0)
        cold = _Counted(tails, least_hot=bench.scaled(LEAST_HOT, 1000))
        bench.frontier.cold = cold
        known = await _fill(bench, tails)
        await bench.engine.client.config_resetstat()
        figures = await _add(bench, cold, known)
        figures += await _check(bench, known)
        counts = await bench.engine.hashes(map(bench.frontier.keys.counters, range(SHARDS)))
        stored = sum(int(shard[b"cold"]) for shard in counts)
        await _delete_unused(tails)
        each = size_of(folder) / stored
        return [*figures, figure("in the store, a known URL", each, "bytes", f"{stored:,} URLs")]


async def cold_hosts(bench: Bench) -> list[Figure]:
    """Puts what is known of idle hosts into the engine, moves all of it to the store, and brings a sample back."""
    hosts, keys, client = bench.scaled(HOSTS), bench.frontier.keys, bench.engine.client
    before = await bench.memory()
    for some in batches(hosts):
        pipeline = client.pipeline(transaction=False)
        for host in map(host_of, some):
            pipeline.hset(f"{keys.queue(keys.shard(host))[0]}spent", host, "5 200000")
            pipeline.hset(f"{keys.queue(keys.shard(host))[0]}trust", host, bytes(20))
            for owner in owners(host):
                pipeline.hset(f"{keys.queue(keys.shard(owner))[0]}budgets", owner, bytes(8))
        await pipeline.execute()
    full = await bench.memory()
    with tempfile.TemporaryDirectory(prefix="bench") as name:
        tails = Tails(bench.engine, keys, bench.crawl, Path(name).as_uri(), kept_seconds=5.0)
        cold, moves, moved = ColdHosts(tails), Clock(bench.pid), 0
        for shard in range(SHARDS):
            while some_moved := await moves.run(cold.move(shard)):
                moved += some_moved
        left = await bench.memory()
        await _delete_unused(tails)
        sample = [Candidate(host_of(n), "/", None) for n in range(0, hosts, max(1, hosts // 2000))]
        await bench.frontier.add(sample)
        wakes = Clock(bench.pid)
        while await wakes.run(cold.wake_all(range(SHARDS))):
            pass
        note = f"{moved:,} records of {hosts:,} hosts; {moves.note(moved)}"
        return [
            figure("an idle host in the engine", (full - before) / hosts, "bytes", "before"),
            figure("an idle host in the store", size_of(Path(name)) / hosts, "bytes", note),
            figure("its share of the engine", (left - before) / hosts, "bytes", most=10),
            figure("come back", len(sample) / wakes.seconds, "hosts/s", wakes.note(len(sample))),
        ]


def _limit(bench: Bench) -> int:
    """The memory limit. What an empty server takes does not become less with the scale."""
    return bench.scaled(MEMORY) + (EMPTY_SERVER if bench.scale < 1 else 0)


class _Counted(ColdSeen):
    """Counts the marks for which add.lua wants an answer."""

    asked = 0

    async def answers(self, marks: Sequence[int], parts: Sequence[str]) -> list[str]:
        self.asked += len(marks)
        return await super().answers(marks, parts)


async def _fill(bench: Bench, tails: Tails) -> int:
    """Puts known URLs into the store and the engine; returns the number for each host."""
    hosts, each = bench.scaled(HOSTS), URLS // HOSTS
    cold, known = round(COLD * each), round((COLD + HOT) * each)
    keys = bench.frontier.keys
    numbers = [as_marks(()).tolist() for _ in range(SHARDS)]
    for number in range(hosts):
        numbers[keys.shard(host_of(number))].append(number)
    for shard, some in enumerate(numbers):
        marks = _marks(bench, some, range(known))
        stored = marks[: cold * len(some)]
        await SeenMove(tails, shard, 0, _never).store(np.sort(stored))
        for field in ("seen", "cold"):
            await bench.engine.change(keys.counters(shard), "HINCRBY", field, len(stored))
        hot = marks[len(stored) :]
        for start in range(0, len(hot), BATCH):
            part = hot[start : start + BATCH].tolist()
            record = {"name": [""], "value": [""], "n": [len(part)]}
            await bench.engine.run(
                script_call("restore", keys.queue(shard), kind="seen", record=record, parts=part)
            )
    return known


async def _never(shard: int, descriptor: str) -> Marks:
    raise AssertionError(f"part {descriptor} of shard {shard} is lost")


def _marks(bench: Bench, numbers: Sequence[int], rounds: range) -> Marks:
    """The marks of the URLs that `candidates` makes of these hosts, one URL of each host after another."""
    keys, hosts = bench.frontier.keys, bench.scaled(HOSTS)
    high = as_marks(keys.mark(host_of(number), 0) for number in numbers)
    pieces = [as_marks(())]
    for turn in rounds:
        number = np.array(numbers, np.uint64) + np.uint64(turn * hosts)
        value = (number + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        value = (value ^ value >> np.uint64(29)) * np.uint64(0xBF58476D1CE4E5B9)
        pieces.append(high | (value & np.uint64(2**48 - 1)).astype(np.int64))
    return np.concatenate(pieces)


async def _add(bench: Bench, cold: _Counted, known: int) -> list[Figure]:
    """Adds half of the new URLs alone, and half with as many known ones, in both cases by pages with 20 links."""
    hosts, total = bench.scaled(HOSTS), round((1 - COLD - HOT) * bench.scaled(URLS))
    figures, chance, first = [], random.Random(1), hosts * (known + 2)
    moves, moved, most = Clock(bench.pid), 0, 0
    for name, old in (("new URLs of cold hosts", 0), ("50% known", LINKS // 2)):
        clock, asked, new = Clock(bench.pid), cold.asked, 0
        moved_before = moves.seconds
        for some in batches(total // 2, ROUND):
            work = [
                _pages(hosts, range(first + part, first + part + BATCH), old, known, chance)
                for part in some[::BATCH]
            ]
            waiting = iter(work)
            await clock.run(asyncio.gather(*(send(bench.frontier, waiting) for _ in range(2))))
            new += sum(map(len, work))
            await _forget_queues(bench, {url.host for pages in work for url in pages})
            first += ROUND
            most = max(most, await bench.memory())
            moved += await moves.run(cold.spill_if_full(range(SHARDS)))
        seconds = clock.seconds + moves.seconds - moved_before
        note = f"{(cold.asked - asked) / new:.1%} ask the store; {clock.note(new)}; with the moves"
        figures.append(figure(f"add, {name}", new / seconds, "URLs/s", note, least=TARGET))
    figures.append(figure("memory of the engine, at most", most / 1e6, "MB", most=_limit(bench) / 1e6))
    if moved:
        figures.append(figure("move to the store", moved / moves.seconds, "URLs/s", moves.note(moved)))
    return figures


def _pages(hosts: int, numbers: range, old: int, known: int, chance: random.Random) -> list[Candidate]:
    """The links of pages: of each 20 for a host, `old` are known."""
    links = []
    for page in range(numbers.start, numbers.stop, LINKS):
        host = chance.randrange(hosts)
        turns = [*range(page, page + LINKS - old)]
        links += candidates((host + hosts * turn for turn in turns), hosts)
        links += candidates((host + hosts * turn for turn in chance.sample(range(known), old)), hosts)
    return links


async def _forget_queues(bench: Bench, hosts: Iterable[str]) -> None:
    """Deletes the queues, because only the seen set is measured."""
    names = ["queued", *(f"{name}:{level}" for name in ("ready", "new", "due") for level in range(8))]
    lists = bench.frontier.keys.by_shard(hosts, str)
    for shard in range(SHARDS):
        prefix = bench.frontier.keys.queue(shard)[0]
        queues = [f"q:{host} 3" for host in lists.get(shard, ())]
        await bench.engine.client.unlink(*(prefix + name for name in [*names, *queues]))


async def _check(bench: Bench, known: int) -> list[Figure]:
    """Adds a sample of the known URLs again: none may be new."""
    hosts, chance = bench.scaled(HOSTS), random.Random(2)
    sample = [chance.randrange(hosts) + hosts * chance.randrange(known) for _ in range(SAMPLE)]
    new = 0
    for start in range(0, SAMPLE, BATCH):
        new += sum(await bench.frontier.add(candidates(sample[start : start + BATCH], hosts)))
    return [figure(f"lost, of {SAMPLE:,} known URLs", new, "URLs", most=0)]


async def _delete_unused(tails: Tails) -> None:
    await asyncio.sleep(5.5)
    await keep_tails(tails, range(SHARDS))
