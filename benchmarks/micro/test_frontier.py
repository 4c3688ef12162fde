"""One call of each verb of the frontier, over a unix socket to a server that writes its append-only file."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from itertools import count

from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.frontier_bench import BATCH, Bench, candidates, finished
from webcrawl.frontier import Candidate, Lease, level_of_priority

HOSTS = 500
ROUNDS = 20
PRIORITIES = range(-20, 21)


def batches() -> Iterator[list[Candidate]]:
    """New URLs, as many as a worker sends at once."""
    for number in count():
        yield candidates(range(number * BATCH, (number + 1) * BATCH), HOSTS)


NEW = batches()


def test_add_new(benchmark: BenchmarkFixture, bench: Bench, runner: asyncio.Runner) -> None:
    """2,000 new URLs of 500 hosts."""

    def once(batch: list[Candidate]) -> None:
        runner.run(bench.frontier.add(batch))

    benchmark.pedantic(once, setup=lambda: ((next(NEW),), {}), rounds=ROUNDS)


def with_priorities(batch: list[Candidate]) -> list[Candidate]:
    """The same URLs, of 41 priorities; only eight of them have a level of their own in an entry's first byte."""
    levels = [level_of_priority(priority) for priority in PRIORITIES]
    return [replace(url, level=levels[n % len(levels)]) for n, url in enumerate(batch)]


def test_add_priorities(benchmark: BenchmarkFixture, bench: Bench, runner: asyncio.Runner) -> None:
    """2,000 new URLs of 500 hosts and 41 priorities."""

    def once(batch: list[Candidate]) -> None:
        runner.run(bench.frontier.add(batch))

    benchmark.pedantic(once, setup=lambda: ((with_priorities(next(NEW)),), {}), rounds=ROUNDS)


def test_add_known(benchmark: BenchmarkFixture, bench: Bench, runner: asyncio.Runner) -> None:
    """2,000 URLs that the frontier knows."""
    batch = next(NEW)
    runner.run(bench.frontier.add(batch))
    assert not any(benchmark(lambda: runner.run(bench.frontier.add(batch))))


def settle(bench: Bench, runner: asyncio.Runner, leases: list[Lease]) -> None:
    runner.run(bench.frontier.settle_all([finished(lease) for lease in leases]))


def lease(bench: Bench, runner: asyncio.Runner) -> list[Lease]:
    return runner.run(bench.frontier.lease(256, 20))


def fill(bench: Bench, runner: asyncio.Runner, *, priorities: bool = False) -> None:
    """20 URLs for each host."""
    runner.run(bench.drain())
    for _ in range(20 * HOSTS // BATCH):
        batch = next(NEW)
        runner.run(bench.frontier.add(with_priorities(batch) if priorities else batch))


def measure_lease(
    benchmark: BenchmarkFixture, bench: Bench, runner: asyncio.Runner, *, priorities: bool
) -> None:
    leases: list[Lease] = []

    def ready() -> None:
        settle(bench, runner, leases)
        fill(bench, runner, priorities=priorities)

    def once() -> None:
        leases[:] = lease(bench, runner)

    benchmark.pedantic(once, setup=ready, rounds=ROUNDS // 2)
    assert len(leases) == 256
    settle(bench, runner, leases)


def test_lease(benchmark: BenchmarkFixture, bench: Bench, runner: asyncio.Runner) -> None:
    """256 hosts with 20 URLs each."""
    measure_lease(benchmark, bench, runner, priorities=False)


def test_lease_priorities(benchmark: BenchmarkFixture, bench: Bench, runner: asyncio.Runner) -> None:
    """256 hosts with 20 URLs each, most of them of different priorities."""
    measure_lease(benchmark, bench, runner, priorities=True)


def test_settle(benchmark: BenchmarkFixture, bench: Bench, runner: asyncio.Runner) -> None:
    """256 hosts given back, all of their URLs done."""
    leases: list[Lease] = []

    def ready() -> None:
        fill(bench, runner)
        leases[:] = lease(bench, runner)

    benchmark.pedantic(lambda: settle(bench, runner, leases), setup=ready, rounds=ROUNDS // 2)
    assert len(leases) == 256
