"""A worker releases a host only when none of its requests to the host is in flight, whatever they are for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from tests.frontier.consumer import Consumer, page_with
from webcrawl.errors import LeaseLost
from webcrawl.frontier import Frontier, LeasedURL, Settlement
from webcrawl.frontier.borrowed_turns import BorrowedTurns
from webcrawl.hosts.politeness import HostTurn, Ok, Outcome

HOST = "http://a.test"
SEVERAL_ROUNDS = 0.4
"""Seconds of several rounds of a worker's loop."""


class Asking:
    """A worker that fetches the only page of a host, and then asks the host for something else until `end`."""

    def __init__(self, frontier: Frontier) -> None:
        self.consumer = Consumer(frontier, self._answer)
        self.others = BorrowedTurns(frontier.engine, frontier.keys)

    def _answer(self, url: LeasedURL) -> tuple[Settlement, bool, Iterable[str], Outcome]:
        # it waits for the turn that the page still has
        self._request = asyncio.ensure_future(self.consumer.turns.take(HOST))
        return page_with()

    async def start(self) -> HostTurn:
        """Starts; returns the turn of the request once the page is reported."""
        self.consumer.start(f"{HOST}/1", seeding=True)
        await self.consumer.until(lambda: self.consumer.fetched.total() == 1)
        turn = await self._request
        frontier = self.consumer.frontier
        async with asyncio.timeout(60):
            while (await frontier.counts()).done == 0:
                await asyncio.sleep(0.01)
        await asyncio.sleep(SEVERAL_ROUNDS)
        return turn

    async def state(self) -> str:
        """What another worker is told that wants to ask the host."""
        return (await self.others.borrow(HOST, "other", 60)).state


async def test_a_host_is_kept_until_the_last_request_to_it_ends(frontier: Frontier) -> None:
    asking = Asking(frontier)
    turn, turns = await asking.start(), asking.consumer.turns
    assert await asking.state() == "held"
    turns.set_delay(HOST, 3600)
    turns.give(HOST, turn, Ok())
    await asking.consumer.until(lambda: HOST not in asking.consumer.worker.hosts)
    assert await asking.state() == "early", "the pause counts from the end of that request"
    assert (await frontier.host(HOST)).waits > 3500
    await asking.consumer.stop()


async def test_no_request_starts_at_a_host_that_is_about_to_be_released(frontier: Frontier) -> None:
    asking = Asking(frontier)
    turn, turns = await asking.start(), asking.consumer.turns
    waiting = asyncio.ensure_future(turns.take(HOST))
    await asyncio.sleep(0)
    turns.give(HOST, turn, Ok())
    with pytest.raises(LeaseLost):
        await waiting
    await asking.consumer.until(lambda: HOST not in asking.consumer.worker.hosts)
    assert await asking.state() == "taken"
    await asking.consumer.stop()


async def test_a_worker_that_stops_leaves_such_a_host_to_the_end_of_its_lease(frontier: Frontier) -> None:
    asking = Asking(frontier)
    await asking.start()
    await asking.consumer.stop()
    assert await asking.state() == "held"
