"""Hosts that answered are leased before those that never did."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from tests.frontier.pages import all_done, page
from webcrawl.frontier import Frontier, Lease

Frontiers = Callable[..., Frontier]


async def add(frontier: Frontier, kind: str, number: int, level: int = 3) -> list[str]:
    hosts = [f"http://{kind}{n}.test" for n in range(number)]
    await frontier.add([page(f"{host}/{n}", level=level) for host in hosts for n in range(3)])
    return hosts


async def answer(frontier: Frontier, leases: Sequence[Lease]) -> None:
    """Release leases whose hosts have answered."""
    for lease in leases:
        lease.answered = True
        assert await frontier.release(lease, all_done(lease))


@pytest.mark.parametrize("shards", [1, 8])
async def test_hosts_that_answered_do_not_wait_for_new_ones(frontier_of: Frontiers, shards: int) -> None:
    frontier = frontier_of(shards=shards)
    good = await add(frontier, "good", 5)
    leases = await frontier.lease(5, 1)
    assert not any(lease.answered for lease in leases)
    # the new ones come before the good ones are released, and one of these must be asked later
    await add(frontier, "new", 40, level=2)
    await answer(frontier, leases)
    found = await frontier.lease(10, 1, new=3)
    assert {lease.host for lease in found if lease.answered} == set(good)
    assert sum(not lease.answered for lease in found) == 3
    assert [lease.answered for lease in await frontier.lease(10, 1, new=0)] == []
    assert len(await frontier.lease(0, 1, new=50)) == 37
    await answer(frontier, [lease for lease in found if lease.answered])
    assert {lease.host for lease in await frontier.lease(5, 1)} == set(good)


async def test_a_host_that_answered_is_known_after_a_pause(frontier_of: Frontiers) -> None:
    frontier = frontier_of(shards=1)
    (good,) = await add(frontier, "good", 1)
    (lease,) = await frontier.lease(1, 1)
    await add(frontier, "new", 9)
    lease.answered = True
    await frontier.release(lease, all_done(lease), pause=1.0)
    assert [one.host for one in await frontier.lease(1, 1, new=0)] == []
    leases: list[Lease] = []
    while not leases:
        await asyncio.sleep(0.02)
        leases = await frontier.lease(1, 1, new=0)
    assert [one.host for one in leases] == [good]
    # a lease that expires leaves the host what it was
    await frontier.reap(everything=True)
    assert (await frontier.host(good)).queued == 2
