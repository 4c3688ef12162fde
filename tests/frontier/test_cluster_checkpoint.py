"""Checkpoints of a crawl on a cluster whose primaries die and whose slots move meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import pytest

from tests.cluster import LocalCluster
from tests.frontier.copying import exporter_of
from tests.frontier.listed import change, listed, set_urls
from tests.frontier.pages import page
from webcrawl.engine.client import UNAVAILABLE
from webcrawl.engine.keys import Keys
from webcrawl.errors import StoreError
from webcrawl.frontier import Crawl, Frontier
from webcrawl.frontier.checkpoint.export import Exporter, Record
from webcrawl.frontier.checkpoint.restore import Importer
from webcrawl.frontier.checkpoint.save import load, save
from webcrawl.stores.objects.folder import FolderStore

SHARD = 7
"""The shard before which the accident happens."""

URLS = [f"http://h{host}.test/{number}" for host in range(40) for number in range(3)]


@dataclass
class Disturbed(Exporter):
    accident: Callable[[], object] = lambda: None

    async def shard(self, shard: int) -> AsyncIterator[Record]:
        if shard == SHARD:
            await asyncio.to_thread(self.accident)
        async for record in super().shard(shard):
            yield record


def move_slot(cluster: LocalCluster, key: str) -> None:
    cluster.move(key, next(node for node in cluster.primaries if node is not cluster.owner(key)))


def move_slot_by_keys(cluster: LocalCluster, key: str) -> None:
    cluster.move_by_keys(key, next(node for node in cluster.primaries if node is not cluster.owner(key)))


def kill_primary(cluster: LocalCluster, key: str) -> None:
    primary = cluster.owner(key)
    replica = cluster.replica_of(primary)
    primary.kill()
    cluster.takes_over(replica)
    primary.start()


async def save_again(frontier: Frontier, store: FolderStore) -> None:
    """Take a second checkpoint; repeats while a new replica confirms too slowly."""
    for attempt in range(3):
        # as if the first checkpoint, which could not end, had expired
        for shard_prefix in (frontier.keys.queue(one)[0] for one in range(frontier.keys.shards)):
            await frontier.engine.client.delete(f"{shard_prefix}copying")
        try:
            return await save(exporter_of(frontier, f"second {attempt}"), store, force=False)
        except StoreError:
            if attempt == 2:
                raise
    return None


@pytest.mark.parametrize(
    ("accident", "shard"),
    [
        (move_slot, SHARD - 3),
        (move_slot, SHARD + 3),
        (move_slot_by_keys, SHARD + 3),
        (kill_primary, SHARD - 3),
    ],
)
async def test_a_moved_slot_or_a_dead_primary_voids_a_checkpoint(
    frontier_on: Callable[..., Awaitable[Frontier]],
    cluster: LocalCluster,
    tmp_path: Path,
    accident: Callable[[LocalCluster, str], None],
    shard: int,
) -> None:
    """The shard is written already or still to come. No file is left, and a second checkpoint is complete."""
    frontier, store = await frontier_on(), FolderStore(tmp_path.as_uri())
    record = Crawl(frontier.engine, frontier.keys, "w1")
    await record.begin()
    await frontier.engine.retry_until_available(lambda: frontier.add([page(url) for url in URLS]))
    usual = exporter_of(frontier)
    key = frontier.keys.counters(shard)
    exporter = Disturbed(
        usual.engine, usual.keys, "first", usual.tails, accident=lambda: accident(cluster, key)
    )
    with pytest.raises(StoreError, match="run scrapy checkpoint again"):
        await save(exporter, store, force=False)
    assert [*tmp_path.iterdir()] == []

    (added,) = await frontier.engine.retry_until_available(lambda: frontier.add([page("http://new.test/")]))
    assert added
    await asyncio.to_thread(cluster.settle)
    await save_again(frontier, store)
    copy = replace(frontier, keys=Keys("copy", 16))

    async def nothing() -> None:
        pass

    importer = Importer(copy.engine, copy.keys, "r")
    await load(importer, store, Crawl(copy.engine, copy.keys, "w1"), nothing, nothing, nothing, force=False)
    counts = await copy.counts()
    assert (counts.queued, counts.seen) == (121, 121)


async def test_urls_are_changed_while_a_primary_dies_and_listed_while_no_slot_moves(
    frontier_on: Callable[..., Awaitable[Frontier]], cluster: LocalCluster
) -> None:
    frontier, calls = await frontier_on(), count()
    await Crawl(frontier.engine, frontier.keys, "w1").begin()
    await frontier.engine.retry_until_available(lambda: frontier.add([page(url) for url in URLS]))
    key = frontier.keys.counters(SHARD)

    async def goes() -> None:
        if next(calls) == 2:
            await asyncio.to_thread(kill_primary, cluster, key)

    found = await set_urls(frontier, [change(url, drop=True) for url in URLS[::2]], goes=goes)
    # a reply that was lost is asked for again
    assert sum(found.get(name, 0) for name in ("changed", "dropped")) == 60
    assert next(calls) > 2
    await asyncio.to_thread(cluster.settle)
    states = {row["url"]: row["state"] for row in await listed(frontier)}
    assert states == {url: ("queued", "dropped")[n % 2 == 0] for n, url in enumerate(URLS)}
    moved = count()

    async def moves() -> None:
        if next(moved) == 2:
            await asyncio.to_thread(move_slot, cluster, frontier.keys.counters(0))

    with pytest.raises((StoreError, *UNAVAILABLE)):
        await listed(frontier, goes=moves)
