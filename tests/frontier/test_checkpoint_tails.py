"""Checkpoints of long queues whose tails are in the store."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from redis import Redis

from tests.frontier.copying import (
    HOSTS,
    NEVER,
    VERBS,
    Crawling,
    Frontiers,
    Interleaved,
    Step,
    compare,
    copied,
    drained,
    serve,
)
from tests.frontier.pages import page
from webcrawl.engine.keys import Keys

ORDERS = ("breadth-first", "depth-first", "random")
EVERY_STEP = (("lease", "random"), ("serve", "breadth-first"))

verbs = st.tuples(st.sampled_from([*VERBS, *["serve"] * 3, "add"]), st.integers(0, 60))


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    st.sampled_from(ORDERS),
    st.lists(verbs, max_size=15),
    st.lists(st.lists(verbs, max_size=3), max_size=40),
    st.integers(1, 2),
    st.integers(1, 3),
    st.booleans(),
)
def test_concurrent_operations_neither_lose_nor_revive_urls(
    interleaved: Interleaved,
    order: str,
    before: list[Step],
    meanwhile: list[list[Step]],
    shards: int,
    others: int,
    by_class: bool,
) -> None:
    start = [("add", 3), ("serve", 0), ("add", 13)]
    with tempfile.TemporaryDirectory() as folder:
        queues = {
            "hosts": HOSTS[:2],
            "together": 40,
            "root": Path(folder),
            "order": order,
            "by_class": by_class,
        }
        interleaved([*start, *before], meanwhile, shards, others, **queues)


@pytest.mark.parametrize(
    ("verb", "order"),
    [
        *((verb, "breadth-first") for verb in ("add", "serve", "drain")),
        *(pytest.param(verb, "depth-first", marks=pytest.mark.slow) for verb in ("add", "serve", "drain")),
        pytest.param("lease", "random", marks=pytest.mark.slow),
        ("condemn", "breadth-first"),
        ("bury", "breadth-first"),
    ],
)
async def test_an_operation_between_any_two_steps_loses_nothing(
    frontier_of: Frontiers, valkey: Redis, tmp_path: Path, verb: str, order: str
) -> None:
    """A host has URLs in its hot list, outbox and the store, or in condemned parts that are not dead letters yet."""
    one = frontier_of(lease_seconds=NEVER)
    before: list[Step] = [("add", 0), ("serve", 0), ("serve", 0), ("add", 420), ("lease", 0)]
    then: list[Step] = [(verb, 840)]
    if verb == "drain":
        then = [("release", 0), ("lease", 11), ("serve", 0), ("serve", 0)] * 6
    if verb == "bury":
        before, then = [*before, ("condemn", 1)], [("serve", 0)]
    if verb == "lease":
        before.pop()  # lease the host whose queue is read first
    for place in range(10, 26, 1 if (verb, order) in EVERY_STEP else 4):
        valkey.flushall()
        root = tmp_path / str(place)
        crawl, copy = replace(one, keys=Keys("crawl", 1)), replace(one, keys=Keys("copy", 2))
        crawling = Crawling(crawl, hosts=HOSTS[:2], together=60, root=root, order=order)
        await compare(crawling, copy, valkey, before, [*([] for _ in range(place)), then])
        shutil.rmtree(root)


@pytest.mark.parametrize("order", ["breadth-first", "depth-first"])
@pytest.mark.parametrize(("batch", "level"), [(5, 3), (5, -997), (1000, 3)])
async def test_a_queue_with_a_tail_keeps_its_order(
    frontier_of: Frontiers, valkey: Redis, tmp_path: Path, order: str, batch: int, level: int
) -> None:
    crawl, copy = frontier_of(), frontier_of("copy", shards=3)
    crawling = Crawling(crawl, root=tmp_path, order=order)
    for frontier in (crawl, copy):
        await crawling.configure(frontier)
    urls = [f"{HOSTS[0]}/{n}" for n in range(300)]
    for start in range(0, 300, 20):
        await crawl.add([page(url, level=level) for url in urls[start : start + 20]])
        if start < 280:
            await serve(crawling.tails_of(crawl), 4)
    assert (await crawl.counts()).spilled > 200
    await copied(crawl, copy, batch=batch, root=tmp_path)
    assert (await copy.counts()).queued == 300
    found = await drained(copy, crawling.tails_of(copy))
    assert found == (urls if order == "breadth-first" else urls[::-1])


async def test_lost_parts_are_counted_and_the_rest_is_copied(frontier_of: Frontiers, tmp_path: Path) -> None:
    crawl, copy = frontier_of(), frontier_of("copy")
    crawling = Crawling(crawl, root=tmp_path)
    await crawling.configure(crawl)
    await crawl.add([page(f"{HOSTS[0]}/{n}") for n in range(100)])
    while await serve(crawling.tails_of(crawl), 4):
        pass
    segments = [path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_size]
    spilled = (await crawl.counts()).spilled
    for segment in segments:
        segment.write_bytes(b"something else")
    exporter = await copied(crawl, copy, root=tmp_path)
    assert exporter.lost == spilled > 50
    assert (await copy.counts()).queued == 100 - spilled
    shutil.rmtree(tmp_path)
