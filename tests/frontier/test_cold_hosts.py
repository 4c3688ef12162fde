"""Records of idle hosts in the store: no fact is lost, whatever happens, and no host is leased without its record."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from tests.frontier.cold import cold_hosts_of, damage
from tests.frontier.copying import copied, exporter_of
from tests.frontier.pages import page
from webcrawl.engine.keys import Keys
from webcrawl.errors import StoreError
from webcrawl.frontier import Crawl, Frontier, LeaseReport, Settlement
from webcrawl.frontier.cold_host_move import HostMove
from webcrawl.frontier.host_report import host_report
from webcrawl.frontier.host_table import HostTable
from webcrawl.frontier.ledger import BudgetEntry, Ledger
from webcrawl.frontier.trust import Discovery, TrustLedger
from webcrawl.live.sweeping import sweep

Frontiers = Callable[..., Frontier]
HOST, OTHER, NEW = "https://a.test", "http://b.test", "https://c.test"


async def fetched(frontier: Frontier, host: str, path: str = "/") -> None:
    await frontier.add([page(f"{host}{path}")])
    for lease in await frontier.lease(9, 1):
        done = [Settlement(url.index, pages=1, bytes=10) for url in lease.urls]
        await frontier.settle_all([LeaseReport(lease, done, pause=1.0)])


def forget_politeness(valkey: Redis) -> None:
    """As if an hour had passed."""
    for key in valkey.scan_iter("wc:*:name:*"):
        valkey.delete(key)


async def test_an_idle_host_moves_and_comes_back_whole(
    frontier_of: Frontiers, valkey: Redis, tmp_path: Path
) -> None:
    frontier = frontier_of(shards=1)
    cold, trust = cold_hosts_of(frontier, tmp_path), TrustLedger(frontier.engine, frontier.keys)
    ledger = Ledger(frontier.engine, frontier.keys)
    await trust.pass_on(Discovery({HOST, OTHER}))
    await fetched(frontier, HOST)
    await ledger.add({"a.test": BudgetEntry(7, {"x.test"})})
    assert await cold.move(0) == 1, "only OTHER: the politeness record of HOST has not expired"
    forget_politeness(valkey)
    before = await ledger.add({"a.test": BudgetEntry()})
    assert await cold.move(0) == 2
    prefix = frontier.keys.queue(0)[0]
    assert not valkey.exists(*(prefix + name for name in ("spent", "trust", "budgets", "waking")))
    assert float(valkey.get(prefix + "trusted")) == 2.0

    await frontier.add([page(f"{HOST}/2"), page(f"{NEW}/1")])
    assert [lease.host for lease in await frontier.lease(9, 1)] == [NEW]
    assert await cold.wake_all([0]) == 1
    assert valkey.hget(prefix + "spent", HOST) == b"1 10"
    assert struct.unpack("<ddI", valkey.hget(prefix + "trust", HOST))[0] == 1.0
    assert [lease.host for lease in await frontier.lease(9, 1)] == [HOST]
    assert await ledger.add({"a.test": BudgetEntry(1, {"x.test", "y.test"})})
    assert await cold.wake_all([0]) == 1
    after = await ledger.add({"a.test": BudgetEntry()})
    assert (after["a.test"].spent, after["a.test"].domains) == (before["a.test"].spent + 1, 2)


async def test_a_checkpoint_has_what_is_in_the_store(
    frontier_of: Frontiers, valkey: Redis, tmp_path: Path
) -> None:
    """Also what is added to a budget meanwhile, and records that have come back and changed."""
    frontier = frontier_of()
    cold, trust = cold_hosts_of(frontier, tmp_path), TrustLedger(frontier.engine, frontier.keys)
    ledger, names = Ledger(frontier.engine, frontier.keys), [f"https://n{n}.test" for n in range(20)]
    owners = [name.removeprefix("https://") for name in names]
    await trust.pass_on(Discovery(set(names)))
    await ledger.add({owner: BudgetEntry(3) for owner in owners})
    assert sum([await cold.move(shard) for shard in range(4)]) == 40
    await trust.pass_on(Discovery(set(names[:9])))
    await cold.wake_all(range(4))
    await trust.pass_on(Discovery())
    await ledger.add({owner: BudgetEntry(1) for owner in owners[:5]})

    copy = replace(frontier, keys=Keys("copy", 3), cold_hosts=None)
    await copied(frontier, copy, root=tmp_path)
    spendings = await Ledger(copy.engine, copy.keys).add({owner: BudgetEntry() for owner in owners})
    assert [spendings[owner].spent for owner in owners] == [4] * 5 + [3] * 15
    copied_trust = TrustLedger(copy.engine, copy.keys)
    assert [await copied_trust.trust(name) for name in names] == [1.0] * 20
    assert (await copied_trust.standing(1.0)).trust == 20.0


async def test_no_host_moves_while_a_checkpoint_is_written(
    frontier_of: Frontiers, valkey: Redis, tmp_path: Path
) -> None:
    frontier = frontier_of(shards=1)
    cold = cold_hosts_of(frontier, tmp_path)
    await TrustLedger(frontier.engine, frontier.keys).pass_on(Discovery({HOST}))
    exporter = exporter_of(frontier, root=tmp_path)
    await exporter.begin()
    assert await cold.move(0) == 0
    await exporter.end()
    assert await cold.move(0) == 1


async def test_a_host_page_shows_a_host_that_is_in_the_store(
    frontier_of: Frontiers, valkey: Redis, tmp_path: Path
) -> None:
    frontier = frontier_of()
    crawl, cold = Crawl(frontier.engine, frontier.keys, "w1"), cold_hosts_of(frontier, tmp_path)
    await fetched(frontier, HOST)
    await Ledger(frontier.engine, frontier.keys).add({"a.test": BudgetEntry(2_000, {"x.test"})})
    valkey.hset(f"{frontier.keys.queue(frontier.keys.shard(HOST))[0]}errors", HOST, 4)
    forget_politeness(valkey)
    table = HostTable(crawl, cold)
    reports, rows = [await host_report(frontier, crawl, HOST)], [await table.rows([HOST, OTHER])]
    assert sum([await cold.move(shard) for shard in range(4)]) == 2
    reports.append(await host_report(frontier, crawl, HOST))
    rows.append(await table.rows([HOST, OTHER]))
    assert reports[0] == reports[1]
    assert rows[0] == rows[1]
    assert (reports[1].state.pages, rows[1][0].errors, reports[1].is_known) == (1, 4, True)
    assert not (await host_report(frontier, crawl, OTHER)).is_known
    assert await cold.wake_all(range(4)) == 0, "to look at a host does not bring it back"


async def test_a_full_server_moves_hosts_and_a_worker_brings_them_back(
    frontier_of: Frontiers, valkey: Redis, tmp_path: Path
) -> None:
    frontier, other = frontier_of(shards=2), frontier_of(shards=2, worker="w2")
    cold, names = cold_hosts_of(frontier, tmp_path), [f"https://n{n}.test" for n in range(3000)]
    await TrustLedger(frontier.engine, frontier.keys).pass_on(Discovery(set(names)))
    assert await cold.move_if_full(range(2)) is None
    valkey.config_set("maxmemory", int(valkey.info("memory")["used_memory"] * 1.1))
    try:
        assert await cold.move_if_full(range(2)) == 3000
    finally:
        valkey.config_set("maxmemory", 0)
    await other.add([page(f"{name}/1") for name in names[:50]])
    assert await other.lease(99, 1) == []
    cold.start(lambda: range(2))
    try:
        async with asyncio.timeout(20):
            leases = await other.lease(99, 1)
            while len(leases) < 50:
                await asyncio.sleep(0.05)
                leases += await other.lease(99, 1)
    finally:
        await cold.stop()
    assert {lease.host for lease in leases} == set(names[:50])


@pytest.mark.parametrize("gone", ["folder", "segment", "end", "byte"])
async def test_hosts_wait_for_the_store_and_a_lost_record_is_logged(
    frontier_of: Frontiers, valkey: Redis, tmp_path: Path, caplog: pytest.LogCaptureFixture, gone: str
) -> None:
    frontier = frontier_of(shards=1)
    cold = cold_hosts_of(frontier, tmp_path)
    await TrustLedger(frontier.engine, frontier.keys).pass_on(Discovery({HOST}))
    assert await cold.move(0) == 1
    (segment,) = tmp_path.glob("*/0000/*")
    await frontier.add([page(f"{HOST}/1")])
    if gone != "folder":
        damage(segment, gone)
        assert await cold.wake_all([0]) == 1
        assert "What was known of 1 idle hosts and domains is lost" in caplog.text
        assert len(await frontier.lease(9, 1)) == 1
        return
    folder, away = segment.parent.parent, tmp_path / "away"
    folder.rename(away)
    with pytest.raises(StoreError):
        await cold.wake_all([0])
    assert await frontier.lease(9, 1) == []
    away.rename(folder)
    assert await cold.wake_all([0]) == 1
    assert len(await frontier.lease(9, 1)) == 1


async def test_records_of_a_later_version_are_refused(
    frontier_of: Frontiers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frontier = frontier_of(shards=1)
    cold = cold_hosts_of(frontier, tmp_path)
    await TrustLedger(frontier.engine, frontier.keys).pass_on(Discovery({HOST}))
    with monkeypatch.context() as later:
        later.setattr("webcrawl.frontier.cold_host_move.RECORD_VERSION", 2)
        await cold.move(0)
    with pytest.raises(StoreError, match="later version"):
        await cold.read([HOST])


async def test_trust_reaches_a_host_whose_record_is_lost(
    frontier_of: Frontiers, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """So it is for a new host that the filter of a bucket takes for one in the store."""
    frontier = frontier_of(shards=1)
    cold, trust = cold_hosts_of(frontier, tmp_path), TrustLedger(frontier.engine, frontier.keys)
    await trust.pass_on(Discovery({HOST}))
    assert await cold.move(0) == 1
    (segment,) = tmp_path.glob("*/0000/*")
    segment.unlink()
    await trust.pass_on(Discovery({HOST}))
    assert await cold.wake_all([0]) == 1
    await trust.pass_on(Discovery())
    assert await cold.wake_all([0]) == 0
    assert await trust.trust(HOST) == 1.0


async def test_budgets_that_change_stay_in_the_engine(
    frontier_of: Frontiers, valkey: Redis, tmp_path: Path
) -> None:
    """A domain may have active hosts in other shards, so its record would come back at once."""
    frontier = frontier_of(shards=1)
    cold, ledger = cold_hosts_of(frontier, tmp_path), Ledger(frontier.engine, frontier.keys)
    await ledger.add({"a.test": BudgetEntry(3), "b.test": BudgetEntry(3)})
    assert await cold.move(0) == 2, "while nothing is in the store, nothing is noted"
    await ledger.add({"a.test": BudgetEntry(1), "b.test": BudgetEntry()})
    assert await cold.wake_all([0]) == 1
    assert await cold.move(0) == 0
    for hours, moved in ((1, 0), (2, 1)):
        valkey.set("wc:{s0}:clock", f"0 {3_600_000 * hours}")  # ahead of the server's clock
        assert await cold.move(0) == moved
    assert 0 < valkey.pttl(next(valkey.scan_iter("*:charged:*"))) <= 3 * 3_600_000


async def test_a_crawl_without_end_forgets_idle_hosts_in_the_store_too(
    frontier_of: Frontiers, valkey: Redis, tmp_path: Path
) -> None:
    """But not their trust, and nothing of hosts that need their records now."""
    frontier = frontier_of(shards=1)
    cold, trust = cold_hosts_of(frontier, tmp_path), TrustLedger(frontier.engine, frontier.keys)
    prefix = frontier.keys.queue(0)[0]
    for host in (HOST, OTHER, NEW):
        await fetched(frontier, host)
    await trust.pass_on(Discovery({HOST}))
    forget_politeness(valkey)
    assert await cold.move(0) == 3
    await frontier.add([page(f"{NEW}/2")])
    assert await sweep(frontier.engine, frontier.keys, cold) == 2
    assert await sweep(frontier.engine, frontier.keys, cold) == 0
    assert {host: set(facts) for host, facts in (await cold.read([HOST, OTHER])).items()} == {HOST: {"trust"}}

    await frontier.add([page(f"{HOST}/2"), page(f"{OTHER}/2")])
    while await cold.wake_all([0]):
        pass
    assert valkey.hgetall(prefix + "spent") == {NEW.encode(): b"1 10"}
    assert await trust.trust(HOST) == 1.0
    assert {lease.host for lease in await frontier.lease(9, 1)} == {HOST, OTHER, NEW}


async def test_a_sweep_drops_outdated_records_from_the_store(
    frontier_of: Frontiers, valkey: Redis, tmp_path: Path
) -> None:
    """Otherwise a host that came back and was forgotten would get its old record again."""
    frontier = frontier_of(shards=1)
    cold = cold_hosts_of(frontier, tmp_path)
    await fetched(frontier, HOST)
    forget_politeness(valkey)
    assert await cold.move(0) == 1
    await frontier.add([page(f"{HOST}/2")])
    assert await cold.wake_all([0]) == 1
    (lease,) = await frontier.lease(9, 1)
    await frontier.release(lease, [Settlement(url.index) for url in lease.urls])
    assert await sweep(frontier.engine, frontier.keys, cold) == 1
    assert await cold.read([HOST]) == {}
    await frontier.add([page(f"{HOST}/3")])
    assert await cold.wake_all([0]) == 0


async def test_a_move_that_went_on_late_replaces_no_later_record(
    frontier_of: Frontiers, tmp_path: Path
) -> None:
    """As that of a worker that was suspended while another one moved the same shard."""
    frontier = frontier_of(shards=1)
    cold, ledger = cold_hosts_of(frontier, tmp_path), Ledger(frontier.engine, frontier.keys)
    await ledger.add({"a.test": BudgetEntry(3)})
    late = LateMove(cold._tails, 0, (0, b"0"))
    moving = asyncio.create_task(late.run())
    await late.has_read.wait()
    await ledger.add({"a.test": BudgetEntry(4)})
    assert await cold.move(0) == 1
    late.goes_on.set()
    assert await moving == 0
    await ledger.add({"a.test": BudgetEntry(1)})
    assert await cold.wake_all([0]) == 1
    assert (await ledger.add({"a.test": BudgetEntry()}))["a.test"].spent == 8


class LateMove(HostMove):
    """Waits after it has read the idle hosts."""

    def __init__(self, *options: Any) -> None:
        super().__init__(*options)
        self.has_read, self.goes_on = asyncio.Event(), asyncio.Event()

    async def _idle(self) -> dict[bytes, bytes]:
        hosts = await super()._idle()
        self.has_read.set()
        await self.goes_on.wait()
        return hosts
