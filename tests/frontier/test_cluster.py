"""The frontier on a Valkey Cluster: scripts keep to one slot, and no write is lost as slots move and servers die."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from redis import RedisCluster
from scrapy import Request

from tests.cluster import LocalCluster
from tests.crawls import CHECKOUT
from tests.frontier.cold import cold_hosts_of, cold_of
from tests.frontier.copying import copied
from tests.frontier.credits import use_importance
from tests.frontier.listed import change, set_urls
from tests.frontier.pages import all_done, page
from tests.frontier.spilling import serve, spilling
from tests.frontier.test_machine import FrontierMachine
from tests.frontier.test_sealed_duplicates import SealedIndex
from tests.frontier.turns import use_turns_and_budgets
from webcrawl.dupefilter import CompactDupeFilter
from webcrawl.engine.client import Engine
from webcrawl.engine.keys import LIVE_URLS, Keys
from webcrawl.engine.lock import EngineLock
from webcrawl.engine.scripts import script_call, script_source
from webcrawl.engine.server_loads import ServerLoads
from webcrawl.errors import EngineError, EngineUnavailable
from webcrawl.frontier import Candidate, Crawl, Frontier, Lease, Settlement
from webcrawl.frontier.crawl import last_end, note_end
from webcrawl.frontier.figures import figures
from webcrawl.frontier.gauges import gauges, next_waits
from webcrawl.frontier.history import History
from webcrawl.frontier.host_costs import HostCosts
from webcrawl.frontier.ledger import BudgetEntry, Ledger
from webcrawl.frontier.listing.open_urls import OpenURLs
from webcrawl.frontier.planning import QUEUED, Planning
from webcrawl.frontier.records import HostLimits, LeaseReport
from webcrawl.frontier.url_state import url_state
from webcrawl.hosts.costs import Cost
from webcrawl.live.asks import Asks, LiveAsk, WantedURL
from webcrawl.live.lane import LiveLane
from webcrawl.live.messages import LiveMessages
from webcrawl.live.request import LiveRequest
from webcrawl.live.sweeping import sweep
from webcrawl.service.caller import Quota
from webcrawl.stores.duplicate_index import DuplicateIndex
from webcrawl.stores.listeners import Publisher
from webcrawl.urlfrontier.conversion import DISCOVERED, Row
from webcrawl.urlfrontier.queues import NO_LIMIT, ClientQueues

HOST = "http://a.test"
HOSTS = [f"http://h{n}.test" for n in range(40)]
SCRIPTS = {path.stem for path in (CHECKOUT / "webcrawl" / "engine" / "lua").glob("*.lua")}

Frontiers = Callable[..., Awaitable[Frontier]]


@pytest.fixture
def frontier(runner: asyncio.Runner, frontier_on: Callable[..., Any]) -> Frontier:
    made: Frontier = runner.run(frontier_on())
    return made


def shard_key(frontier: Frontier, host: str = HOST) -> str:
    """A key in the slot of a host's shard."""
    return frontier.keys.counters(frontier.keys.shard(host))


async def test_the_loads_of_primaries_follow_a_slot_that_moves(
    frontier: Frontier, cluster: LocalCluster
) -> None:
    keys, loads = frontier.keys, ServerLoads(frontier.engine)
    before = {load.address: load for load in await loads.read(keys)}
    assert len(before) == 3
    assert sum(load.shards for load in before.values()) == keys.shards
    assert all(load.cores is None and load.memory > 0 and load.commands > 0 for load in before.values())
    moved = shard_key(frontier)
    source = cluster.owner(moved)
    target = next(node for node in cluster.primaries if node is not source)
    cluster.move(moved, target)
    await frontier.add([page(f"{HOST}/1")])  # the reply says where the slot is now
    await asyncio.sleep(1.0)
    after = {load.address: load for load in await loads.read(keys)}
    gains = {address.rpartition(":")[2]: after[address].shards - before[address].shards for address in after}
    assert gains == {str(node.port): (node is target) - (node is source) for node in cluster.primaries}
    assert all(load.cores is not None and load.cores >= 0 for load in after.values())


async def test_every_script_uses_keys_of_one_slot(
    frontier: Frontier, cluster: LocalCluster, tmp_path: Path
) -> None:
    """The servers refuse a script that touches keys of another slot."""
    crawl = Crawl(frontier.engine, frontier.keys, "w1")
    await use_the_crawl_and_its_indexes(crawl)
    leases = await use_leases(frontier)
    await use_operator_commands(frontier, crawl, leases)
    with RedisCluster.from_url(cluster.url) as client:
        dupefilter = CompactDupeFilter(client, "{walk}:dupefilter")
        assert [dupefilter.request_seen(Request(HOST)) for _ in range(2)] == [False, True]
    await use_copies_and_long_queues(frontier, tmp_path)
    await use_the_cold_part_of_the_seen_set(frontier, tmp_path)
    await use_the_store_of_idle_hosts(frontier, tmp_path)
    await use_sealed_runs(SealedIndex(frontier.engine, frontier.keys, tmp_path))
    await use_importance(frontier, [f"http://i{n}.test" for n in range(40)])
    await use_the_plan(frontier)
    await use_the_queues_of_clients(frontier.engine, frontier.keys)
    await use_the_live_lane(frontier)
    for script in SCRIPTS:
        sha = script_source(script)[0]
        assert any(node.client.script_exists(sha)[0] for node in cluster.primaries), f"{script} was not run"

    await frontier.clear()
    await crawl.forget()
    assert await frontier.finished()
    assert not await crawl.exists()


async def use_sealed_runs(both: SealedIndex) -> None:
    assert await both.index.near_text(0xFFFF, "sealed", 3) is None
    assert await both.sealer.seal() > 0
    assert await both.index.near_text(0xFFFE, "copy", 3) == "sealed"
    assert await both.index.near_text(0xFFFE, "sealed", 3) is None


async def use_the_crawl_and_its_indexes(crawl: Crawl) -> None:
    index, now = DuplicateIndex(crawl.engine, crawl.keys), datetime.now(UTC)
    assert not await crawl.begin()
    assert await crawl.begin()
    assert (await crawl.workers.beat(seeding=True, counted={"pages": 1})).seeding == 1
    assert await crawl.workers.reserve_pages(5, 100) == 5
    await crawl.count_hosts(HOSTS)
    assert await crawl.host_count() == len(HOSTS)
    await HostCosts(crawl.engine, crawl.keys, "w1", 9.0).add({HOST: Cost(seconds=1.0)})
    await crawl.sets.add("scope", ["a.test", "b.test"])
    assert await crawl.sets.members("scope") == {"a.test", "b.test"}
    assert await crawl.workers.names() == ["w1"]
    await note_end(crawl, "finished")
    assert await last_end(crawl) == "finished"
    assert await index.same_payload(b"digest00", "u1", now) is None
    await index.kept(b"digest00", "u1", now)
    assert await index.same_payload(b"digest00", "u2", now) == ("u1", now, "")
    assert [await index.near_text(7, url, 3) for url in ("u1", "u2")] == [None, "u1"]
    assert await Publisher(crawl.engine, crawl.keys, 10).publish({"url": "u1"})
    assert (
        await crawl.engine.run(
            script_call(
                "keep_cookies",
                [crawl.keys.cookies("a.test")],
                field="jar",
                cookies=b"cookies",
                most_jars=10,
                most_bytes=99,
            )
        )
        == 1
    )


async def use_the_cold_part_of_the_seen_set(frontier: Frontier, folder: Path) -> None:
    urls = [page(f"{host}/cold{n}") for host in HOSTS for n in range(20)]
    assert all(await frontier.add(urls))
    cold = cold_of(frontier, folder, full_share=0.0, least_hot=1)
    # one move for each shard, although the servers stay full
    assert await cold.spill_if_full(range(frontier.keys.shards)) >= len(urls)
    assert not any(await frontier.add(urls))
    assert await frontier.is_seen(HOSTS[0], urls[0].fingerprint or 0)
    assert not await frontier.is_seen(HOSTS[0], 1)


async def use_the_store_of_idle_hosts(frontier: Frontier, folder: Path) -> None:
    cold, names = cold_hosts_of(frontier, folder), [f"n{n}.test" for n in range(40)]
    ledger = Ledger(frontier.engine, frontier.keys)
    await ledger.add({name: BudgetEntry(1) for name in names})
    assert sum([await cold.move(shard) for shard in range(frontier.keys.shards)]) >= len(names)
    assert (await cold.read(names)).keys() == set(names)
    await ledger.add({name: BudgetEntry(1) for name in names})
    assert await cold.wake_all(range(frontier.keys.shards)) == len(names)
    assert {row.spent for row in (await ledger.add({name: BudgetEntry() for name in names})).values()} == {2}


async def use_the_plan(frontier: Frontier) -> None:
    planning = Planning(frontier.engine, frontier.keys, "w1")
    assert (await planning.turn(2, 60)) == (True, 2, None)
    pages = [(Candidate(host, "/again", None), 0.0) for host in HOSTS]
    assert await planning.add(pages, 0.0, 10) == [QUEUED] * len(HOSTS)
    assert (await planning.counts()).open == len(HOSTS)
    await planning.leave()


async def use_leases(frontier: Frontier) -> list[Lease]:
    """Add 200 URLs of 40 hosts, lease them, and settle them in every way; returns the leases."""
    assert all(await frontier.add([page(f"{host}/{n}") for host in HOSTS for n in range(5)]))
    leases = await frontier.lease(100, 2)
    assert {lease.host for lease in leases} == set(HOSTS)
    assert await frontier.extend(leases) == set()
    assert not await frontier.is_seen(HOST, 1)
    await frontier.settle_all([LeaseReport(lease, all_done(lease), more=1) for lease in leases[:9]])
    for lease in leases[:9]:
        assert await frontier.release(lease, [Settlement(3, "retry", delay=60.0)])
    assert await frontier.release(leases[9], [Settlement(1, "dead", reason="x"), Settlement(2, "dead")])
    dead = [letter.url async for letter in frontier.dead_letters()]
    assert await frontier.requeue((leases[9].host, url) for url in dead) == 2
    assert await frontier.reap(everything=True) == (30, 0)
    await use_turns_and_budgets(frontier)
    for shard in range(frontier.keys.shards):
        call = script_call("regain", frontier.keys.queue(shard), caller="other", number=1, lease_ms=1000)
        assert await frontier.engine.run(call) == []
    return leases


async def use_operator_commands(frontier: Frontier, crawl: Crawl, leases: list[Lease]) -> None:
    assert await History(frontier.engine, frontier.keys).add(await figures(frontier, crawl))
    assert (await gauges(frontier)).ready == len(leases)
    keys = frontier.keys
    lock = EngineLock(frontier.engine, keys.own("watcher"), "w1", 15.0, keys.own("watched"))
    assert await lock.claim() == ""
    assert (await url_state(frontier, leases[0].host, "/4")).state == "queued"
    assert (await OpenURLs(frontier.engine, frontier.keys, parts=("queued",)).window()).urls
    await frontier.block_until(leases[0].host, 60.0)
    await frontier.set_delay(leases[0].host, 2.0)
    assert await frontier.condemn(leases[1].host, "gone") == 2
    counts = await frontier.counts()
    assert (counts.done, counts.later, counts.dead, counts.seen) == (18, 9, 2, 200)
    # also the condemned host, one URL of which waits for its next attempt
    assert len(await frontier.hosts(100)) == 40
    assert not await frontier.finished()
    assert (await next_waits(frontier))[0] is not None
    await frontier.block(HOST)
    await frontier.unblock(HOST)
    await frontier.limit(HOST, HostLimits(pages=3))
    await frontier.review()
    assert (await frontier.host(HOST)).limits.pages == 3
    assert await frontier.schedule([page(f"{HOST}/again")], 60.0) == 1
    assert (await url_state(frontier, HOST, "/again")).state == "scheduled"
    assert not await crawl.limits_changed(HostLimits(pages=9))
    await crawl.pause()
    assert (await crawl.workers.beat()).paused
    await crawl.resume()
    await crawl.workers.leave()


async def use_copies_and_long_queues(frontier: Frontier, folder: Path) -> None:
    await frontier.add([page(f"{HOST}/long{n}") for n in range(40)])
    await copied(frontier, replace(frontier, keys=Keys("copy", 16)), batch=5)
    assert (await replace(frontier, keys=Keys("copy", 16)).counts()).seen == 240
    tails = await spilling(frontier, folder)
    assert all(await frontier.add([page(f"{host}/stored{n}") for host in HOSTS[:2] for n in range(100)]))
    await serve(tails, frontier)
    assert (await frontier.counts()).spilled > 100
    changes = [change(url, drop=True) for url in (f"{HOST}/again", f"{HOSTS[1]}/stored50")]
    assert (await set_urls(frontier, changes, folder))["changed"] == 2
    assert await frontier.condemn(HOSTS[0], "gone") > 100
    leases = await frontier.lease(100, 20, [frontier.keys.shard(HOSTS[1])])
    assert HOSTS[1] in {lease.host for lease in leases}
    await serve(tails, frontier)


class AllServers(RedisCluster):
    def keys(self, pattern: Any = "*", **_: Any) -> Any:
        return super().keys(pattern, target_nodes=self.PRIMARIES)


class ClusterMachine(FrontierMachine):
    client = AllServers


def test_any_interleaving_matches_the_model(cluster: LocalCluster) -> None:
    run_state_machine_as_test(
        lambda: ClusterMachine(cluster.url, 8, "breadth-first"),
        settings=settings(
            max_examples=6,
            stateful_step_count=25,
            suppress_health_check=[HealthCheck.too_slow],
            phases=[Phase.generate],
        ),
    )


async def test_a_cluster_has_only_one_database(
    engine_at: Callable[..., Engine], cluster: LocalCluster
) -> None:
    with pytest.raises(EngineError, match="DB index"):
        await engine_at(f"{cluster.url}/1").check()


async def test_writes_that_no_replica_confirms_fail(frontier: Frontier, cluster: LocalCluster) -> None:
    """The primary dies before its replica confirms a write, so the worker must repeat it."""
    primary = cluster.owner(shard_key(frontier))
    replica = cluster.replica_of(primary)
    await frontier.add([page(f"{HOST}/1")])
    replica.process.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(EngineUnavailable, match="no replica"):
            await frontier.add([page(f"{HOST}/2")])
        with pytest.raises(EngineUnavailable, match="no replica"):
            await frontier.engine.change(shard_key(frontier), "HSET", "x", "1")
        primary.kill()
    finally:
        replica.process.send_signal(signal.SIGCONT)
    await asyncio.to_thread(cluster.takes_over, replica)
    first, _ = await frontier.engine.retry_until_available(
        lambda: frontier.add([page(f"{HOST}/{n}") for n in (1, 2)])
    )
    assert not first, "the confirmed write survived"
    assert [len(lease.urls) for lease in await frontier.lease(10, 10)] == [2]


async def test_writes_do_not_wait_for_a_dead_replica(frontier: Frontier, cluster: LocalCluster) -> None:
    await frontier.add([page(f"{HOST}/1")])
    primary = cluster.owner(shard_key(frontier))
    replica = cluster.replica_of(primary)
    replica.kill()
    try:
        assert await frontier.add([page(f"{HOST}/2")]) == [True]
        primary.client.config_set("min-replicas-to-write", "1")
        with pytest.raises(EngineUnavailable, match="NOREPLICAS"):
            await frontier.add([page(f"{HOST}/3")])
        with pytest.raises(EngineUnavailable, match="NOREPLICAS"):
            await frontier.engine.change(shard_key(frontier), "HSET", "x", "1")
    finally:
        primary.client.config_set("min-replicas-to-write", "0")
        replica.start()


async def test_an_atomically_moved_slot_is_followed(frontier: Frontier, cluster: LocalCluster) -> None:
    await frontier.add([page(f"{HOST}/1")])
    before = cluster.owner(shard_key(frontier))
    for other in [node for node in cluster.primaries if node is not before]:
        await asyncio.to_thread(cluster.move, shard_key(frontier), other)
        assert await frontier.add([page(f"{HOST}/1"), page(f"{HOST}/{other.port}")]) == [False, True]
        (lease,) = await frontier.lease(10, 1)
        assert (await frontier.counts()).leased == 1
        assert await frontier.release(lease)


async def test_a_slot_is_unavailable_while_it_moves_key_by_key(
    frontier: Frontier, cluster: LocalCluster
) -> None:
    """During the move a script would find some of its keys on one server, some on the other."""
    await frontier.add([page(f"{HOST}/{n}") for n in range(50)])
    (lease,) = await frontier.lease(1, 3)
    before, attempts = await frontier.counts(), []
    work: list[Callable[[], Awaitable[Any]]] = [
        lambda: frontier.add([page(f"{HOST}/new")]),
        lambda: frontier.lease(9, 9, [frontier.keys.shard(HOST)]),
        lambda: frontier.release(lease),
    ]

    async def run_all_steps() -> None:
        for step in work:
            with pytest.raises(EngineUnavailable, match="moved"):
                await step()
            attempts.append(step)

    loop = asyncio.get_running_loop()
    source = cluster.owner(shard_key(frontier))
    target = next(node for node in cluster.primaries if node is not source)
    await asyncio.to_thread(
        cluster.move_by_keys,
        shard_key(frontier),
        target,
        lambda: asyncio.run_coroutine_threadsafe(run_all_steps(), loop).result(60),
    )
    assert len(attempts) >= 3
    assert await frontier.counts() == before
    assert await frontier.add([page(f"{HOST}/new")]) == [True]
    assert await frontier.release(lease, all_done(lease))
    ((_, *urls),) = [lease.urls for lease in await frontier.lease(10, 100)]
    assert [url.path for url in urls] == [*(f"/{n}" for n in range(4, 50)), "/new"]


async def test_replies_of_available_servers_count_when_another_fails(
    frontier: Frontier, cluster: LocalCluster
) -> None:
    """Otherwise no worker would know about some leased hosts, and some leases would be released twice."""
    await frontier.add([page(f"{host}/{n}") for host in HOSTS for n in range(2)])
    refusing = cluster.owner(shard_key(frontier, HOSTS[0]))
    there = {host for host in HOSTS if cluster.owner(shard_key(frontier, host)) is not refusing}
    refusing.client.config_set("min-replicas-to-write", "9")
    leases = await frontier.lease(100, 1)
    assert {lease.host for lease in leases} == there != set()
    with pytest.raises(EngineUnavailable, match="NOREPLICAS"):
        await frontier.lease(100, 1, [frontier.keys.shard(HOSTS[0])])
    refusing.client.config_set("min-replicas-to-write", "0")
    leases += await frontier.lease(100, 1)
    assert {lease.host for lease in leases} == {*HOSTS}

    refusing.client.config_set("min-replicas-to-write", "9")
    replies: list[tuple[str, int]] = []
    reports = [LeaseReport(lease, all_done(lease), more=1) for lease in leases]
    with pytest.raises(EngineUnavailable, match="NOREPLICAS"):
        await frontier.settle_all(
            reports, lambda report, urls, _: replies.append((report.lease.host, len(urls or ())))
        )
    refusing.client.config_set("min-replicas-to-write", "0")
    assert {*replies} == {(host, 1) for host in there}


async def test_any_node_that_answers_is_enough(
    engine_at: Callable[..., Engine], frontier: Frontier, cluster: LocalCluster
) -> None:
    await frontier.add([page(f"{HOST}/1")])
    dead, other = cluster.primaries[:2]
    replica = cluster.replica_of(dead)
    dead.kill()
    engine = engine_at(f"redis://127.0.0.1:{dead.port},127.0.0.1:{other.port}")
    await engine.check()
    assert engine.is_cluster
    await asyncio.to_thread(cluster.takes_over, replica)
    mine = replace(frontier, engine=engine, worker="w2")
    assert (await engine.retry_until_available(mine.counts)).queued == 1
    with pytest.raises(EngineUnavailable, match=f"REDIS_URL .*127.0.0.1:{dead.port}.*; .*127.0.0.1:1"):
        await engine_at(f"redis://127.0.0.1:{dead.port},127.0.0.1:1").check()


async def use_the_queues_of_clients(engine: Engine, keys: Keys) -> None:
    """Uses what clients of the open frontier use."""
    queues = ClientQueues(engine, keys, "server")
    rows = [Row("clients", f"client{n}.test", f"https://client{n}.test/", DISCOVERED, b"") for n in range(40)]
    assert all(await queues.put(rows)) and not any(await queues.put(rows))
    given = [delivery async for delivery in queues.get("clients", "", NO_LIMIT, 1, 60)]
    assert {delivery.queue for delivery in given} == {row.queue for row in rows}
    assert all(await queues.put([row._replace(date=0) for row in rows]))
    assert sum([state.completed async for state in queues.states("clients")]) == 40
    assert len([url async for url in queues.all_stored("clients")]) == 40
    assert await queues.set("clients", rows[0].queue, "limit", 1)
    await queues.announce("127.0.0.1:1", 60)
    assert await queues.nodes() == ["127.0.0.1:1"]
    await queues.set_active(False)
    await queues.set_default_delay(5)
    assert await queues.control() == (False, 5.0)
    assert "clients" in await queues.crawls()
    assert await queues.delete_crawl("clients") == 40
    assert "clients" not in await queues.crawls()


async def use_the_live_lane(frontier: Frontier) -> None:
    """Uses what waits for URLs of the live lane, and the quota of who puts them in."""
    asks, url = Asks(frontier.engine, frontier.keys), "https://live.test/"
    ask = LiveAsk("1-0", 0, 1, url, 1.0)
    assert await asks.add([WantedURL(url, ask)])
    assert await asks.of(url) == [ask]
    assert not await asks.remove(url, [ask])
    await sweep(frontier.engine, frontier.keys)
    await LiveLane(frontier.engine).put([LiveRequest((url,))])
    first, second = (
        LiveMessages(frontier.engine, LIVE_URLS, name, Counter()) for name in ("first", "second")
    )
    await first.begin()
    (delivered,) = await first.read()
    assert await second.claim(set()) == [delivered]
    async with Quota(frontier.engine, 1_000.0).taken("token", 1):
        pass
