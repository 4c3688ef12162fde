"""Checkpoints of a crawl in S3."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from redis import Redis

from tests.frontier.copying import exporter_of
from tests.frontier.pages import page
from tests.s3server import Line
from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.errors import StoreError
from webcrawl.frontier import Crawl, Frontier
from webcrawl.frontier.checkpoint.restore import Importer
from webcrawl.frontier.checkpoint.save import load, save
from webcrawl.stores.objects.store import ObjectStore, open_store

URLS = [f"http://{letter}.test/{n}" for letter in "abc" for n in range(9)]


def test_a_checkpoint_is_saved_replaced_and_restored(
    line: Line, bucket: Callable[[], dict[str, bytes]], redis_url: str, valkey: Redis
) -> None:
    asyncio.run(_save_and_restore(bucket, redis_url, line))


async def _save_and_restore(bucket: Callable[[], dict[str, bytes]], url: str, line: Line) -> None:
    engine = Engine(url)
    crawl, copy = (Frontier(engine, Keys(name, 2), "w1") for name in ("crawl", "copy"))
    store = open_store("s3://pages/copies/monday", "checkpoint")
    exporter = exporter_of(crawl)
    with pytest.raises(StoreError, match="there is no checkpoint at s3://pages/copies/monday"):
        await _load(copy, store)
    await crawl.add([page(one) for one in URLS[:3]])
    await save(exporter, store, force=False)
    first = set(bucket())
    assert len(first) == 4
    assert "copies/monday/manifest.json" in first
    with pytest.raises(StoreError, match="--force replaces it"):
        await save(exporter, store, force=False)
    await crawl.add([page(one) for one in URLS])
    await save(exporter, store, force=True)
    second = set(bucket())
    assert len(second) == 4
    assert first & second == {"copies/monday/manifest.json"}
    await _load(copy, store)
    assert (await copy.counts()).queued == len(URLS)

    line.cut()
    with pytest.raises(StoreError):
        await save(exporter, store, force=True)
    assert not [key async for key in engine.client.scan_iter("*:copying")]
    await engine.close()


async def _load(copy: Frontier, store: ObjectStore) -> None:
    importer = Importer(copy.engine, copy.keys, "r")
    record = Crawl(copy.engine, copy.keys, "w1")
    await load(importer, store, record, copy.clear, record.totals, record.totals, force=False)  # type: ignore[arg-type]
