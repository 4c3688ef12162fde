"""A server's clock is set back or forward by hours, or a failover promotes a server with another clock.

No wait gets longer, and live workers keep their leases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from redis import Redis

from tests.frontier.clock import Clock, ClockedEngine
from tests.frontier.consumer import Consumer, page_with
from tests.frontier.copying import exporter_of, records_of, restore
from tests.frontier.pages import all_done, page
from webcrawl.engine.keys import Keys
from webcrawl.frontier import Crawl, Frontier, Settlement

HOST = "http://a.test"
HOUR = 3_600_000
FOREVER = 1_000_000.0

FrontierOf = Callable[..., Frontier]


@pytest.fixture
def clock(valkey: Redis) -> Clock:
    return Clock(valkey, ["{s0}", "{c:ours}", "{c:theirs}"])


@pytest.fixture
def frontier_at(clock: Clock, redis_url: str, runner: Any) -> Iterator[FrontierOf]:
    """Makes frontiers of one shard whose scripts read `clock`."""
    engine = ClockedEngine(redis_url)
    yield lambda crawl="ours", worker="w1", **more: Frontier(engine, Keys(crawl, 1), worker, **more)
    runner.run(engine.close())


async def set_back(clock: Clock, frontier: Frontier) -> None:
    """Move the clock back by an hour while workers are active, after one second."""
    for ms in (1000, -HOUR):
        clock.move(ms)
        await frontier.reap()
        await Crawl(frontier.engine, frontier.keys, "any").workers.count_alive()


async def test_retries_and_dates_come_at_the_planned_time(clock: Clock, frontier_at: FrontierOf) -> None:
    ours = frontier_at()
    await ours.add([page(f"{HOST}/retry"), page(f"{HOST}/again")])
    (lease,) = await ours.lease(1, 2)
    await ours.release(lease, [Settlement(1, "retry", 10.0), Settlement(2, "again", 20.0)])
    await set_back(clock, ours)
    for url in ("retry", "again"):
        clock.move(8_000)
        assert await ours.lease(1, 2) == []
        clock.move(2_000)
        (lease,) = await ours.lease(1, 2)
        assert [one.path for one in lease.urls] == [f"/{url}"]
        await ours.release(lease, all_done(lease))


async def test_a_host_is_ready_when_its_pause_is_over(clock: Clock, frontier_at: FrontierOf) -> None:
    ours, theirs = frontier_at("ours"), frontier_at("theirs")
    for frontier in (ours, theirs):
        await frontier.add([page(f"{HOST}/1")])
    (lease,) = await ours.lease(1, 1)
    await ours.release(lease, pause=10.0)
    assert await theirs.lease(1, 1) == []
    await set_back(clock, ours)
    assert (await ours.host(HOST)).waits == 9.0
    assert await ours.lease(1, 1) == await theirs.lease(1, 1) == []
    clock.move(9_000)
    assert await theirs.lease(1, 1)


async def test_a_ready_host_is_ready_again_within_a_second(clock: Clock, frontier_at: FrontierOf) -> None:
    ours = frontier_at()
    await ours.reap()
    clock.move(999)
    await ours.add([page(f"{HOST}/1")])
    clock.move(-HOUR)
    await ours.reap()
    clock.move(999)
    assert await ours.lease(1, 1)


async def test_leases_of_dead_workers_expire(clock: Clock, frontier_at: FrontierOf) -> None:
    ours = frontier_at(lease_seconds=10.0)
    await ours.add([page(f"{HOST}/1")])
    (lease,) = await ours.lease(1, 1)
    await set_back(clock, ours)
    clock.move(8_000)
    assert await ours.reap() == (0, 0)
    clock.move(1_000)
    assert await ours.reap() == (1, 0)
    (other,) = await ours.lease(1, 1)
    assert other.token > lease.token
    assert await ours.acknowledge(lease, all_done(lease)) is None


async def test_a_crawl_that_no_longer_wants_a_host_does_not_block_it(
    clock: Clock, frontier_at: FrontierOf
) -> None:
    """The ended crawl had less of the host than the other one, and ended while both wanted it."""
    ours, theirs = frontier_at("ours"), frontier_at("theirs")
    for frontier in (ours, theirs):
        await frontier.add([page(f"{HOST}/{n}") for n in range(20)])
    (lease,) = await ours.lease(1, 5)
    assert await theirs.lease(1, 5) == []
    await ours.release(lease)
    clock.move(300)
    await theirs.lease(1, 1)
    await theirs.condemn(HOST, "enough")
    await set_back(clock, ours)
    await theirs.reap(everything=True)
    await theirs.condemn(HOST, "enough")
    for _ in range(5):
        clock.move(1_000)
        leases = await ours.lease(1, 1)
        if leases:
            break
    assert leases


async def test_dead_workers_are_not_counted_as_alive(clock: Clock, frontier_at: FrontierOf) -> None:
    ours = frontier_at()
    gone, alive = (Crawl(ours.engine, ours.keys, name, 12.0) for name in ("gone", "alive"))
    await gone.workers.beat(seeding=True)
    assert await alive.workers.count_alive() == 1
    await set_back(clock, ours)
    clock.move(12_000)
    assert await alive.workers.count_alive() == 0
    assert (await alive.workers.beat()).seeding == 0
    assert await alive.workers.names() == ["alive"]


async def test_active_time_never_decreases(clock: Clock, frontier_at: FrontierOf) -> None:
    ours = frontier_at()
    worker = Crawl(ours.engine, ours.keys, "w1", FOREVER)
    await worker.workers.beat()
    worked = [0]
    for ms in (2_000, 500, -HOUR, 2_000, 900, -700, 2_000):
        clock.move(ms)
        await worker.workers.beat()
        worked.append((await worker.totals())["active_ms"])
    assert worked == sorted(worked)
    assert 6_000 < worked[-1] < 8_000


@pytest.mark.parametrize("kept", [False, True])
async def test_failures_and_host_records_expire_on_time(
    clock: Clock, frontier_at: FrontierOf, valkey: Redis, kept: bool
) -> None:
    ours = frontier_at()
    await ours.add([page(f"{HOST}/{n}") for n in range(2)])
    if kept:
        await ours.set_delay(HOST, 1.0)
    (lease,) = await ours.lease(1, 1)
    lease.failures = 3
    await ours.release(lease, quiet=60.0)
    await set_back(clock, ours)
    clock.move(58_000)
    (lease,) = await ours.lease(1, 1)
    assert lease.failures == 3
    await ours.release(lease, all_done(lease), quiet=60.0)
    clock.move(60_000)
    assert bool(valkey.exists(ours.keys.host(HOST))) == kept
    assert [one.failures for one in await ours.lease(1, 1)] == [0]


async def test_dates_in_a_checkpoint_survive_clock_offsets(
    clock: Clock, frontier_at: FrontierOf, valkey: Redis
) -> None:
    """They are restored into an engine whose clock was never set back, and from there into one whose clock was."""
    ours = frontier_at()
    urls = [page(f"http://{letter}.test/1") for letter in "abcd"]
    await set_back(clock, ours)
    await ours.add(urls)
    leases = {lease.host: lease for lease in await ours.lease(4, 1)}
    await ours.release(leases["http://a.test"], [Settlement(1, "retry", 10.0)])
    await ours.release(leases["http://b.test"], [Settlement(1, "again", 10.0)])
    await ours.release(leases["http://c.test"], pause=10.0)
    await ours.release(leases["http://d.test"], [Settlement(1, "dead")])
    assert [letter.time async for letter in ours.dead_letters()] == [clock.now / 1000]
    for crawl, copy, ahead in (("ours", "theirs", 0), ("theirs", "more", HOUR)):
        exporter = exporter_of(frontier_at(crawl))
        await exporter.begin()
        taken = [one async for one in records_of(exporter)]
        await exporter.end()
        valkey.delete(*valkey.keys("wc:{s0}:name:*"))
        valkey.set(ours.keys.clock(0), f"{clock.now + ahead} {ahead}")
        await restore(frontier_at(copy), taken)
    more = frontier_at("more")
    clock.move(9_999)
    assert await more.lease(9, 1) == []
    clock.move(1)
    assert {lease.host for lease in await more.lease(9, 1)} == {f"http://{letter}.test" for letter in "abc"}


async def test_a_failover_to_a_fast_clock_takes_no_leases_from_live_workers(
    clock: Clock, frontier_at: FrontierOf
) -> None:
    """The leases seem to have expired, but their workers are about to extend them."""
    alive = frontier_at(worker="alive", lease_seconds=60.0)
    await alive.add([page(f"{HOST}/1")])
    (lease,) = await alive.lease(1, 1)
    consumer = Consumer(frontier_at(worker="first", lease_seconds=60.0), lambda url: page_with())
    consumer.start("http://b.test/1", seeding=True)
    await consumer.until(lambda: bool(consumer.fetched))
    worker, engine = consumer.worker, alive.engine

    async def servers() -> list[str]:
        return ["another one"]

    engine.servers = servers  # type: ignore[method-assign]
    clock.move(HOUR)
    beat = worker.heartbeat._last
    worker.engine._doubted = True
    await consumer.until(lambda: worker._leasing.safety._lease_at > 0 and worker.heartbeat._last > beat)
    assert await alive.extend([lease]) == set()
    await consumer.stop()


async def test_a_clock_that_is_set_forward_ends_no_lease_or_pause(
    clock: Clock, frontier_at: FrontierOf
) -> None:
    ours = frontier_at(worker="w1", lease_seconds=30.0)
    other = Crawl(ours.engine, ours.keys, "w2", 30.0)
    await ours.add([page(f"{HOST}/1"), page("http://b.test/1"), page("http://b.test/2")])
    leases = {lease.host: lease for lease in await ours.lease(2, 1)}
    await ours.release(leases["http://b.test"], all_done(leases["http://b.test"]), pause=20.0)
    await other.workers.beat()
    clock.jump(HOUR)
    assert await other.workers.count_alive() == 1
    assert await ours.reap() == (0, 0)
    assert await ours.lease(2, 1) == []
    assert await ours.extend([leases[HOST]]) == set()
    clock.move(20_000)
    assert [lease.host for lease in await ours.lease(2, 1)] == ["http://b.test"]
    assert await ours.acknowledge(leases[HOST], all_done(leases[HOST])) is not None
    clock.move(31_000)  # nobody extends a lease, so it ends as always
    assert (await ours.reap())[0] == 2


async def test_time_that_passes_while_no_worker_lives_counts(
    clock: Clock, frontier_at: FrontierOf, valkey: Redis
) -> None:
    ours = frontier_at(lease_seconds=30.0)
    await ours.add([page(f"{HOST}/1"), page(f"{HOST}/2")])
    (lease,) = await ours.lease(1, 1)
    clock.jump(HOUR)
    assert await ours.reap() == (0, 0)
    await ours.release(lease, all_done(lease), pause=600.0)
    clock.jump(HOUR)
    assert await ours.lease(1, 1)  # its pause was over long ago
    assert valkey.get(ours.keys.clock(0)).split()[1] == b"0"


async def test_tokens_always_increase(clock: Clock, frontier_at: FrontierOf) -> None:
    ours, tokens = frontier_at(), []
    await ours.add([page(f"{HOST}/1")])
    for ms in (0, 0, 1, -HOUR, 0, 1, 2 * HOUR, -HOUR):
        await (set_back(clock, ours) if ms < 0 else ours.reap())
        clock.move(max(0, ms))
        (lease,) = await ours.lease(1, 1)
        tokens.append(lease.token)
        await ours.release(lease)
    assert tokens == sorted(set(tokens))
