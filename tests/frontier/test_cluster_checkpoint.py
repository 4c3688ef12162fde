"""A checkpoint of a crawl on a cluster whose primaries die and whose slots move meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.cluster import LocalCluster
from tests.frontier.copying import exporter_of
from tests.frontier.pages import page
from webcrawl.engine.keys import Keys
from webcrawl.errors import StoreError
from webcrawl.frontier import Crawl, Frontier
from webcrawl.frontier.checkpoint.export import Exporter, Record
from webcrawl.frontier.checkpoint.restore import Importer
from webcrawl.frontier.checkpoint.save import load, save
from webcrawl.stores.objects.folder import FolderStore

SHARD = 7
"""The one before which the accident happens."""

URLS = [f"http://h{host}.test/{number}" for host in range(40) for number in range(3)]


@dataclass
class Disturbed(Exporter):
    accident: Callable[[], object] = lambda: None

    async def shard(self, shard: int) -> AsyncIterator[Record]:
        if shard == SHARD:
            await asyncio.to_thread(self.accident)
        async for record in super().shard(shard):
            yield record


def moves(cluster: LocalCluster, key: str) -> None:
    cluster.move(key, next(node for node in cluster.primaries if node is not cluster.owner(key)))


def moves_key_by_key(cluster: LocalCluster, key: str) -> None:
    cluster.move_by_keys(key, next(node for node in cluster.primaries if node is not cluster.owner(key)))


def dies(cluster: LocalCluster, key: str) -> None:
    primary = cluster.owner(key)
    replica = cluster.replica_of(primary)
    primary.kill()
    cluster.takes_over(replica)
    primary.start()


async def begin_anew(frontier: Frontier, store: FolderStore) -> None:
    """As an operator does, until a new replica answers in time."""
    for attempt in range(3):
        # as if the time had passed for which one that could not end counts
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
    [(moves, SHARD - 3), (moves, SHARD + 3), (moves_key_by_key, SHARD + 3), (dies, SHARD - 3)],
)
async def test_a_checkpoint_is_void_when_a_slot_moves_or_a_primary_dies(
    frontier_on: Callable[..., Awaitable[Frontier]],
    cluster: LocalCluster,
    tmp_path: Path,
    accident: Callable[[LocalCluster, str], None],
    shard: int,
) -> None:
    """Of a shard that is written already, or is still to be. It leaves nothing, and one that is begun anew is whole."""
    frontier, store = await frontier_on(), FolderStore(tmp_path.as_uri())
    record = Crawl(frontier.engine, frontier.keys, "w1")
    await record.begin()
    await frontier.engine.retry_until_available(lambda: frontier.add([page(url) for url in URLS]))
    usual = exporter_of(frontier)
    key = frontier.keys.counters(shard)
    exporter = Disturbed(
        usual.engine, usual.keys, "first", usual.tails, accident=lambda: accident(cluster, key)
    )
    with pytest.raises(StoreError, match="anew"):
        await save(exporter, store, force=False)
    assert [*tmp_path.iterdir()] == []

    (added,) = await frontier.engine.retry_until_available(lambda: frontier.add([page("http://new.test/")]))
    assert added
    await asyncio.to_thread(cluster.settle)
    await begin_anew(frontier, store)
    copy = replace(frontier, keys=Keys("copy", 16))

    async def nothing() -> None:
        pass

    importer = Importer(copy.engine, copy.keys, "r")
    await load(importer, store, Crawl(copy.engine, copy.keys, "w1"), nothing, nothing, force=False)
    counts = await copy.counts()
    assert (counts.queued, counts.seen) == (121, 121)
