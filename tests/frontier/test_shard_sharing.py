"""The shares of shards on a real engine: joins, deaths, and moves from a worker with more load."""

from __future__ import annotations

import time
from collections import Counter
from types import SimpleNamespace

import pytest

from webcrawl.engine.keys import Keys
from webcrawl.frontier import Crawl, Frontier
from webcrawl.frontier.workers import AllVitals, Vitals
from webcrawl.hosts.costs import ALL, Cost
from webcrawl.worker.membership import Membership
from webcrawl.worker.shard_sharing import ShardLoadMeter

SHARDS = 60


class Fellow:
    """A worker that does nothing but beat."""

    def __init__(self, frontier: Frontier, name: str) -> None:
        self.crawl = Crawl(frontier.engine, frontier.keys, name)
        self.membership = Membership(self.crawl, SHARDS)

    async def beat(self, **cores: float) -> list[int]:
        """Sends a heartbeat with a load of `cores` for shards s0, s1, ...; returns the served shards."""
        await self.crawl.workers.beat()
        loads = [(int(shard[1:]), used, 0.0, 0.0) for shard, used in cores.items()]
        vitals = Vitals(0.0, 1, 0, 0, 0, 0, 0, 0.0, loads=loads)
        await AllVitals(self.crawl.engine, self.crawl.keys).put(self.crawl.worker, vitals, 60)
        await self.membership.update()
        return self.membership.served()


@pytest.fixture
def fellows(frontier: Frontier) -> list[Fellow]:
    return [Fellow(frontier, f"w{number}") for number in range(4)]


async def _round(fellows: list[Fellow]) -> Counter[str]:
    """Beats of all, twice, so that each knows the last list; returns the size of each share."""
    for _ in range(2):
        served = {fellow.crawl.worker: await fellow.beat() for fellow in fellows}
    assert sorted(shard for shards in served.values() for shard in shards) == list(range(SHARDS))
    return Counter({worker: len(shards) for worker, shards in served.items()})


async def test_workers_that_join_and_leave_get_and_give_even_shares(fellows: list[Fellow]) -> None:
    assert await _round(fellows[:3]) == {"w0": 20, "w1": 20, "w2": 20}
    before = await fellows[1].beat()
    assert await _round(fellows) == {"w0": 15, "w1": 15, "w2": 15, "w3": 15}
    assert set(await fellows[1].beat()) < set(before), "a join takes shards and gives none"
    # the first leaves, and the next one shares out
    await fellows[0].crawl.workers.leave()
    assert await _round(fellows[1:]) == {"w1": 20, "w2": 20, "w3": 20}


async def test_shards_move_from_an_overloaded_worker_a_few_a_minute(
    fellows: list[Fellow], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic()
    monkeypatch.setattr(
        "webcrawl.worker.shard_sharing.time",
        SimpleNamespace(monotonic=lambda: now, process_time=time.process_time),
    )
    two = fellows[:2]
    assert await _round(two) == {"w0": 30, "w1": 30}
    shares = [sorted(await two[1].beat())]
    loads = {f"s{shard}": 0.05 for shard in shares[0]}
    for _ in range(60):
        now += 2.0
        await two[0].beat()
        shares.append(sorted(await two[1].beat(**loads)))
    moves = [
        set(before) - set(after) for before, after in zip(shares, shares[1:], strict=False) if before != after
    ]
    assert 3 <= len(moves) <= 6, "three a minute at most"
    assert all(len(moved) == 1 for moved in moves)
    assert len(shares[-1]) == 30 - len(moves)
    stored = await two[0].crawl.workers.shares()
    assert Counter(stored.values()) == {"w0": 30 + len(moves), "w1": 30 - len(moves)}


async def test_a_list_of_dead_workers_counts_for_nothing(fellows: list[Fellow]) -> None:
    await fellows[0].crawl.workers.share_out(dict.fromkeys(range(SHARDS), "gone"))
    await fellows[0].crawl.workers.beat()
    # a worker that does not share out has a share nevertheless, before the first has noticed
    assert 0 < len(await fellows[1].beat()) < SHARDS
    assert await _round(fellows[:2]) == {"w0": 30, "w1": 30}


def test_a_meter_divides_the_costs_of_a_worker_among_its_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    now, processor = 100.0, 10.0
    monkeypatch.setattr(
        "webcrawl.worker.shard_sharing.time",
        SimpleNamespace(monotonic=lambda: now, process_time=time.process_time),
    )
    monkeypatch.setattr("webcrawl.worker.shard_sharing.time.process_time", lambda: processor)
    keys = Keys("c", 16)
    hosts = [
        "http://a.test",
        next(f"http://b{n}.test" for n in range(99) if keys.shard(f"http://b{n}.test") != 0),
    ]
    shards = [keys.shard(host) for host in hosts]
    assert shards[0] != shards[1]
    meter = ShardLoadMeter(keys)
    for _ in range(200):
        now, processor = now + 2.0, processor + 1.0
        costs = {
            hosts[0]: Cost(0.2, 3_000),
            hosts[1]: Cost(0.4, 1_000),
            "a.test": Cost(9.0, 9),
            ALL: Cost(9.0, 9),
        }
        meter.note(costs, [hosts[1]])
    loads = {shard: measures for shard, *measures in meter.loads()}
    # 0.4 s of each second belong to no host: three quarters of them to the shard with as much of the bytes
    assert loads[shards[0]] == pytest.approx([0.25, 1_500, 0.0], rel=0.01)
    assert loads[shards[1]] == pytest.approx([0.25, 500, 1.0], rel=0.01)
    now += 3_600
    meter.note({}, ())
    assert meter.loads() == [], "a shard without load is forgotten"
