"""The frontier on a server whose memory is full: nothing new is added, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from redis import Redis

from tests.frontier.pages import all_done, page, past
from webcrawl.engine.client import UNAVAILABLE, Engine
from webcrawl.engine.keys import Keys
from webcrawl.engine.scripts import script_source
from webcrawl.errors import EngineUnavailable
from webcrawl.frontier import Crawl, Frontier, Settlement
from webcrawl.frontier.ledger import Ledger
from webcrawl.stores.duplicate_index import DuplicateIndex
from webcrawl.worker.budgets import Budgets

HOST = "http://a.test"

Engines = Callable[..., Engine]
Frontiers = Callable[..., Frontier]


async def test_a_full_server_is_unavailable_and_loses_nothing(frontier_of: Frontiers, valkey: Redis) -> None:
    frontier = frontier_of(shards=2)
    await frontier.add([page(f"{HOST}/1"), page("http://b.test/1")])
    before = await frontier.counts()
    valkey.config_set("maxmemory", "1")
    try:
        with pytest.raises(EngineUnavailable, match="maxmemory"):
            await frontier.add([page(f"{HOST}/2")])
        with pytest.raises(EngineUnavailable, match="maxmemory"):
            await frontier.add([page(f"http://h{n}.test/") for n in range(20)])
        with pytest.raises(UNAVAILABLE):
            await frontier.schedule([page(f"{HOST}/1")], 1.0)
        with pytest.raises(UNAVAILABLE):
            await Crawl(frontier.engine, frontier.keys, "w1").sets.add("seeds", ["a.test 80"])
        assert await frontier.counts() == before
    finally:
        valkey.config_set("maxmemory", "0")
    assert all(await frontier.add([page(f"{HOST}/2"), *(page(f"http://h{n}.test/") for n in range(20))]))


async def test_a_full_server_refuses_only_new_data(frontier_of: Frontiers, valkey: Redis) -> None:
    """Otherwise its data could never shrink, and leases of live workers would expire."""
    hosts = [f"http://h{n}.test" for n in range(7)]
    frontier, brief = frontier_of(), frontier_of(worker="dead", lease_seconds=0.001)
    await frontier.add([page(f"{host}/{n}") for host in hosts for n in range(3)])
    (dead,) = await brief.lease(1, 2)
    leases = await frontier.lease(4, 2)
    crawl = Crawl(frontier.engine, frontier.keys, "w1")
    valkey.config_set("maxmemory", "1")
    valkey.script_flush()
    try:
        assert (await crawl.workers.beat(seeding=True, counted={"pages": 2})).seeding == 1
        assert await crawl.workers.reserve_pages(2, 9) == 2
        await crawl.count_hosts(hosts)
        assert await frontier.extend(leases) == set()
        more = await frontier.acknowledge(leases[0], [Settlement(1, "retry"), Settlement(2, "dead")], more=1)
        assert more is not None and len(more) == 1
        again = [Settlement(1, "again", 9.0, pages=1), Settlement(2)]
        assert await frontier.acknowledge(leases[1], again) == []
        assert await frontier.release(leases[2], all_done(leases[2]))
        await frontier.block(leases[3].host)
        await past(frontier.engine)
        assert await frontier.reap() == (1, 0)
        assert await frontier.condemn(dead.host, "given up") == 3
        budgets = Budgets(Ledger(frontier.engine, frontier.keys), 1.0)
        budgets.spend(leases[0].host, None)
        await budgets.send_if_due([0], lambda _: None)  # a worker does so before it leases
        assert await frontier.lease(9, 1) != []
        await crawl.workers.leave()
    finally:
        valkey.config_set("maxmemory", "0")
    counts = await frontier.counts()
    assert (counts.dead, counts.done, counts.scheduled, counts.refused) == (4, 4, 1, 0)


def test_a_full_server_runs_scripts_that_add_no_urls() -> None:
    folder = Path(__file__).parent.parent.parent / "webcrawl" / "engine" / "lua"
    names = {path.stem for path in folder.glob("*.lua")}
    refused = {name for name in names if not script_source(name)[1].startswith("#!lua flags=allow-oom\n")}
    assert {"add", "schedule", "requeue", "restore"} <= refused
    assert names - refused == {
        *(
            "acknowledge",
            "address",
            "borrow",
            "budgets",
            "bury_part",
            "charge",
            "client_delete",
            "client_get",
            "client_queues",
            "client_review",
            "forget_hosts",
            "close_purse",
            "condemn",
            "copy",
            "empty_purse",
            "hold_for_copy",
            "extend",
            "confirm_payload",
            "lease",
            "count_hosts",
            "count_trust",
            "park",
            "pass_trust",
            "permit",
            "reap",
            "receive",
            "refill",
            "repay",
            "set_part",
            "set_runs",
            "set_urls",
            "set_waiting",
            "slow",
            "spend",
            "standings",
            "take_messages",
        ),
        *(
            "copy_piece",
            "regain",
            "review",
            "plan_spill",
            "heartbeat",
            "time",
            "unindex_text",
            "drop_sealed",
            "unindex_sealed",
            "confirm_segment",
            "announce",
            "drop_seen",
            "merge_seen",
            "merge_hosts",
            "idle_hosts",
            "wake_hosts",
            "waits",
            "lock",
            "gauges",
            "sample",
            "note_end",
            "planned",
        ),
    }


async def test_a_full_engine_finds_duplicates_but_remembers_no_new_pages(
    engine_at: Engines, redis_url: str, valkey: Redis
) -> None:
    index, now = DuplicateIndex(engine_at(redis_url), Keys("crawl", 4)), datetime.now(UTC)
    for url in ("u1", "full"):
        assert await index.same_payload(url.encode() + b"digest", url, now) is None
    await index.kept(b"u1digest", "u1", now)
    assert await index.near_text(7, "u1", 3) is None
    valkey.config_set("maxmemory", "1")
    try:
        await index.kept(b"fulldigest", "full", now)
        assert await index.same_payload(b"u1digest", "u2", now) == ("u1", now, "")
        assert await index.same_payload(b"fulldigest", "u2", now) == ("full", now, "")
        assert await index.near_text(6, "u2", 3) == "u1"
        for url in ("u3", "u4"):
            assert await index.same_payload(b"digest33", url, now) is None
            assert await index.near_text(2**40 - 1, url, 3) is None
    finally:
        valkey.config_set("maxmemory", "0")
    assert await index.same_payload(b"digest33", "u4", now) is None
    assert await index.same_payload(b"digest33", "u3", now) == ("u4", None, "")
