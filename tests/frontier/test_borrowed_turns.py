"""A request without a lease takes the turn of a host: nobody else asks the host meanwhile, and it waits for that."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Request

from tests.frontier.pages import all_done, page, past, silence_over
from tests.pacing import FAST, opened
from webcrawl.crawler.download import further_turns
from webcrawl.crawler.download.further_turns import BorrowedTurn
from webcrawl.crawler.errors import RobotsUnreachable
from webcrawl.errors import LongWait
from webcrawl.frontier import Frontier
from webcrawl.frontier.borrowed_turns import BorrowedTurns
from webcrawl.hosts.turns import Turns

Frontiers = Callable[..., Frontier]

HOST, SIBLING = "http://a.test", "https://a.test"


@pytest.fixture
def turns(frontier: Frontier) -> BorrowedTurns:
    return BorrowedTurns(frontier.engine, frontier.keys)


async def test_a_free_host_is_not_leased_until_its_turn_is_repaid(
    frontier: Frontier, turns: BorrowedTurns
) -> None:
    await frontier.add([page(f"{HOST}/1"), page(f"{SIBLING}/1")])
    assert (await turns.borrow(HOST, "r1", 60)).state == "taken"
    assert (await turns.borrow(HOST, "r1", 60)).state == "taken", "a repeated call"
    assert (await turns.borrow(SIBLING, "r2", 60)).state == "held"
    assert await frontier.lease(9, 9) == []
    await turns.repay(HOST, "another", 0.0)
    await past(frontier.engine, 0.25)
    assert await frontier.lease(9, 9) == []
    await turns.repay(HOST, "r1", 3600.0)
    assert 3500 < (await frontier.host(HOST)).waits <= 3600
    early = await turns.borrow(HOST, "r3", 60)
    assert early.state == "early" and 3500 < early.wait <= 3600
    await silence_over(frontier, HOST)
    assert (await turns.borrow(HOST, "r3", 60)).state == "taken"


async def test_the_turn_of_a_dead_worker_ends_by_itself(frontier: Frontier, turns: BorrowedTurns) -> None:
    await frontier.add([page(f"{HOST}/1")])
    await turns.borrow(HOST, "r1", 0.2)
    assert await frontier.lease(9, 9) == []
    await past(frontier.engine, 0.45)
    assert len(await frontier.lease(9, 9)) == 1
    assert (await turns.borrow(HOST, "r1", 60)).state == "held"


async def test_the_holder_of_a_host_gets_no_further_urls_while_a_request_waits(
    frontier: Frontier, turns: BorrowedTurns
) -> None:
    await frontier.add([page(f"{HOST}/{n}") for n in range(30)])
    (lease,) = await frontier.lease(1, 2)
    assert len(await frontier.acknowledge(lease, all_done(lease), more=2) or []) == 2
    assert (await turns.borrow(HOST, "r1", 60)).state == "held"
    assert await frontier.acknowledge(lease, more=2) == []
    # they take turns, so that many such requests do not keep the crawl from the host
    await frontier.release(lease)
    await past(frontier.engine)
    (lease,) = await frontier.lease(1, 20)
    assert len(lease.urls) == 5
    assert (await turns.borrow(HOST, "r1", 60)).state == "held"
    await frontier.release(lease)
    await past(frontier.engine)
    assert await frontier.lease(1, 20) == []
    assert (await turns.borrow(HOST, "r1", 60)).state == "taken"
    await turns.repay(HOST, "r1", 0.0)
    await past(frontier.engine, 0.25)
    (lease,) = await frontier.lease(1, 2)
    assert len(await frontier.acknowledge(lease, all_done(lease), more=20) or []) == 20


async def test_a_lease_that_has_expired_is_not_asked_before_its_gap(
    frontier_of: Frontiers, turns: BorrowedTurns
) -> None:
    frontier = frontier_of(lease_seconds=0.1)
    await frontier.add([page(f"{HOST}/1")])
    await frontier.set_delay(HOST, 3600)
    assert len(await frontier.lease(9, 9)) == 1
    await past(frontier.engine, 0.2)
    found = await turns.borrow(HOST, "r1", 60)
    assert found.state == "early" and 3500 < found.wait <= 3600 and found.gap == 3600


def gate(frontier: Frontier, turns: Turns, lease_seconds: float = 60.0) -> BorrowedTurn:
    async def run(work: Callable[[], Awaitable[Any]]) -> Any:
        return await work()

    connection: Any = SimpleNamespace(
        engine=frontier.engine, keys=frontier.keys, worker="w1", retry_until_available=run
    )
    return BorrowedTurn(turns, connection, HOST, lease_seconds)


async def test_the_wait_for_a_turn_is_bounded(frontier: Frontier, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(further_turns, "_LONGEST_WAIT", 0.3)
    turns, ending = Turns(FAST), asyncio.Event()
    first, second = gate(frontier, turns), gate(frontier, turns)
    await first.enter(ending)
    with pytest.raises(LongWait, match=r"the turn of http://a\.test does not come soon"):
        await second.enter(ending)
    first.end(3600.0)
    await asyncio.sleep(0.1)
    with pytest.raises(RobotsUnreachable, match=r"http://a\.test may not be asked for 3600 s"):
        await second.enter(ending)


async def test_a_host_that_this_worker_leases_meanwhile_is_not_borrowed(frontier: Frontier) -> None:
    turns, ending = Turns(FAST), asyncio.Event()
    await gate(frontier, turns).enter(ending)
    waiting = asyncio.ensure_future(gate(frontier, turns).enter(ending))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    opened(turns, HOST)
    await asyncio.wait_for(waiting, 60)


async def test_a_borrowed_turn_ends_before_its_time(frontier: Frontier) -> None:
    one = gate(frontier, Turns(FAST), lease_seconds=0.5)
    await one.enter(asyncio.Event())
    request = Request(f"{HOST}/robots.txt")
    one.limit(request, usual=180.0)
    assert request.meta["download_timeout"] == pytest.approx(0.3)
    assert one.is_open()
    await asyncio.sleep(0.2)
    assert not one.is_open(), "there would be too little time for the response"
