"""Lists of all known URLs of a crawl, also while its workers go on."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st
from redis import Redis

from tests.frontier.copying import HOSTS, NEVER, VERBS, Crawling, Step, exporter_of
from tests.frontier.listed import listed
from tests.frontier.pages import page
from tests.frontier.spilling import HOST, numbered, serve, spilling
from webcrawl.errors import StoreError
from webcrawl.frontier import Crawl, Frontier, Settlement
from webcrawl.frontier.listing import engine_urls

Frontiers = Callable[..., Frontier]
verbs = st.tuples(st.sampled_from([*VERBS, "serve", "serve", "better", "better"]), st.integers(0, 40))


async def list_meanwhile(crawling: Crawling, before: list[Step], meanwhile: list[list[Step]]) -> None:
    await crawling.configure(crawling.frontier)
    for verb, number in before:
        await crawling.do(verb, number)
    todo = iter(meanwhile)

    async def goes() -> None:
        for verb, number in next(todo, ()):
            await crawling.do(verb, number)

    known = set(crawling.added)
    found = await listed(crawling.frontier, crawling.root, rows=crawling.settled, goes=goes)
    urls = [row["url"] for row in found]
    assert len(urls) == len(set(urls)), "URLs are listed twice"
    assert known <= set(urls) <= crawling.added
    # a host that was blocked has lost its lease
    held = [lease for lease in crawling.leases if not await crawling.frontier.extend([lease])]
    leased = {url.url for lease in held for url in lease.urls}
    if not meanwhile:
        assert leased == {row["url"] for row in found if row["state"] == "leased"}


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.sampled_from(["breadth-first", "depth-first", "random"]),
    st.lists(verbs, max_size=20),
    st.lists(st.lists(verbs, max_size=2), max_size=40),
    st.booleans(),
)
@example("breadth-first", [], [[("better", 30)]], True)
@example("breadth-first", [("lease", 1), ("block", 0)], [], False)
@example("breadth-first", [("condemn", 0)], [[("better", 4)]], True)
def test_every_url_is_listed_once_while_workers_go_on(
    frontier_of: Frontiers,
    runner: asyncio.Runner,
    valkey: Redis,
    order: str,
    before: list[Step],
    meanwhile: list[list[Step]],
    importance: bool,
) -> None:
    valkey.flushall()
    if not importance:
        before, meanwhile = [
            [one for one in before if one[0] != "better"],
            [[one for one in some if one[0] != "better"] for some in meanwhile],
        ]
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine_urls, "BATCH", 2)
        crawling = Crawling(
            frontier_of(lease_seconds=NEVER),
            hosts=HOSTS[:2],
            together=30,
            root=Path(folder),
            order=order,
            importance=importance,
        )
        start = [("add", 3), ("serve", 0), ("add", 13)]
        runner.run(list_meanwhile(crawling, [*start, *before], meanwhile))
    assert not [key for key in valkey.scan_iter() if key.endswith((b":copying", b":moved", b":reading"))]


async def test_each_state_is_told(frontier_of: Frontiers, tmp_path: Path) -> None:
    frontier = frontier_of(lease_seconds=NEVER)
    await frontier.add([page(f"{HOST}/{name}", referrer=f"{HOST}/from", depth=2) for name in "abcdef"])
    [lease] = await frontier.lease(1, 5)
    verdicts = [("done", 0.0), ("retry", 60.0), ("again", 3600.0), ("dead", 0.0)]
    settled = [
        Settlement(url.index, verdict, delay, "DownloadFailedError: no answer")  # type: ignore[arg-type]
        for url, (verdict, delay) in zip(lease.urls, verdicts, strict=False)
    ]
    await frontier.acknowledge(lease, settled)
    found = {row["url"].rpartition("/")[2]: row for row in await listed(frontier, rows=[f"{HOST}/a"])}
    assert {name: row["state"] for name, row in found.items()} == {
        "a": "done",
        "b": "waiting",
        "c": "scheduled",
        "d": "dead",
        "e": "leased",
        "f": "queued",
    }
    assert (found["b"]["attempts"], found["d"]["reason"]) == (1, "no answer")
    assert 3000 < (found["c"]["date"] - found["d"]["time"]).total_seconds() < 3700
    assert {(row["level"], row["depth"], row["referrer"]) for name, row in found.items() if name != "a"} == {
        (3, 2, f"{HOST}/from")
    }
    assert all(row["importance"] is None for row in found.values())


async def test_one_host_is_listed_alone(frontier: Frontier) -> None:
    await frontier.add([page(f"{host}/{number}") for host in HOSTS for number in range(3)])
    for lease in await frontier.lease(6, 1):
        await frontier.release(lease, [Settlement(lease.urls[0].index, "retry", 60.0)])
    found = await listed(frontier, host=HOSTS[2], rows=[f"{HOSTS[2]}/row", f"{HOSTS[1]}/row"])
    assert sorted(row["url"] for row in found) == [f"{HOSTS[2]}/{name}" for name in (0, 1, 2, "row")]


async def test_importance_is_that_of_now(frontier: Frontier) -> None:
    await Crawl(frontier.engine, frontier.keys, "w").configure(0, "breadth-first", importance=True)
    await frontier.add([page(f"{HOST}/{number}", rise=0) for number in range(3)])
    assert {row["importance"] for row in await listed(frontier)} == {0.0}


async def test_parts_that_are_lost_are_counted(frontier: Frontier, tmp_path: Path) -> None:
    tails = await spilling(frontier, tmp_path)
    await frontier.add([page(url) for url in numbered(100)])
    await serve(tails, frontier)
    assert len(await listed(frontier, tmp_path)) == 100
    for segment in tmp_path.glob("*/0*/*"):
        segment.unlink()
    reading = engine_urls.EngineURLs(frontier.engine, frontier.keys, tails, "reader", HOST)
    with tempfile.TemporaryFile() as file:
        urls = await reading.read(frontier.keys.shard(HOST), file)
        assert reading.lost == 100 - sum(map(len, urls.batches())) > 0


async def test_a_listing_waits_for_a_checkpoint(frontier: Frontier, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_urls, "_LOOK_SECONDS", 0.01)
    await frontier.add([page(f"{HOST}/{number}") for number in range(3)])
    exporter, told = exporter_of(frontier, "checkpoint"), asyncio.Event()
    await exporter.begin()
    reading = engine_urls.EngineURLs(
        frontier.engine, frontier.keys, exporter.tails, "me", HOST, lambda _: told.set()
    )
    with tempfile.TemporaryFile() as file:
        task = asyncio.create_task(reading.read(frontier.keys.shard(HOST), file))
        await told.wait()
        await exporter.end()
        assert sum(map(len, (await task).batches())) == 3


async def test_a_listing_that_lost_its_hold_fails(frontier: Frontier, valkey: Redis) -> None:
    await frontier.add([page(f"{HOST}/{number}") for number in range(3)])

    async def goes() -> None:
        for key in valkey.scan_iter("*:copying"):
            valkey.delete(key)

    with pytest.raises(StoreError, match="read it again"):
        await listed(replace(frontier), goes=goes)
