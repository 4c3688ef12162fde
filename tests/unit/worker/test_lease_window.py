"""The window of leased hosts: it grows while connections are free, and stays within its bounds."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest
from hypothesis import given, strategies as st

from webcrawl.engine.backoff import IdleTime
from webcrawl.frontier import Lease
from webcrawl.worker.leasing import HostLeasing, LeaseSafety, LeaseWindow

states = st.tuples(st.booleans(), st.booleans(), st.booleans())


def test_it_grows_until_the_connections_are_busy() -> None:
    window = LeaseWindow(256, 5_000, 20)
    for _ in range(100):
        # a host is due a second after it was asked; 1,000 requests a second keep the connections busy
        busy = window.size >= 1_000
        window.update(answered=window.size, new=0, due=busy, connections=not busy)
    assert 1_000 <= window.size <= 1_300
    assert window.urls == 20 * 256 // window.size


def test_it_does_not_grow_without_hosts_to_lease() -> None:
    window = LeaseWindow(256, 5_000, 20)
    window.update(answered=192, new=63, due=False, connections=True)
    assert (window.size, window.urls) == (256, 20)


def test_new_hosts_take_the_places_that_others_leave_and_at_least_a_quarter() -> None:
    window = LeaseWindow(256, 5_000, 20)
    assert window.room(answered=0, new=0) == (256, 256)
    assert window.room(answered=10, new=246) == (246, 0), "hosts that answered never wait for new ones"
    assert window.room(answered=250, new=10) == (6, 54)
    assert window.room(answered=256, new=246) == (0, 0)
    window.update(answered=10, new=246, due=False, connections=True)
    assert window.size == 256, "new hosts are no reason to lease more"


@given(st.integers(1, 300), st.integers(0, 6_000), st.integers(1, 20), st.lists(states, max_size=60))
def test_it_stays_within_its_bounds(
    least: int, most: int, urls: int, steps: list[tuple[bool, bool, bool]]
) -> None:
    window = LeaseWindow(least, most, urls)
    for full, due, connections in steps:
        before = window.size
        window.update(answered=before if full else 0, new=0, due=due, connections=connections)
        assert least <= window.size <= max(least, most)
        assert window.size <= before or (full and not due and connections)
        assert min(urls, 2) <= window.urls <= max(2, urls)
        assert window.urls == urls or window.size > least


class Served:
    """The shards of a worker."""

    def served(self) -> list[int]:
        return [0]


class Counts:
    """What a lease asks for, and the counts by which it is decided."""

    has_room = True

    def __init__(self, hosts: int, unread: int, silent: int) -> None:
        self._hosts, self.served, self.silent = hosts, 200 - unread, silent
        self.asked: tuple[int, int] | None = None

    def __len__(self) -> int:
        return self._hosts

    def next_at(self) -> float:
        return math.inf

    async def lease(self, hosts: int, urls: int, shards: list[int], *, new: int, **_: Any) -> list[Lease]:
        self.asked = hosts, new
        return []


@pytest.mark.parametrize(
    ("hosts", "unread", "silent", "asked"),
    [
        (240, 0, 0, (56, 24)),
        (600, 0, 360, (56, 24)),
        (240, 150, 0, (206, 16)),
        (900, 150, 600, (206, 0)),
    ],
)
def test_silent_hosts_take_no_places_and_those_with_unread_pages_those_of_new_hosts(
    hosts: int, unread: int, silent: int, asked: tuple[int, int]
) -> None:
    counts: Any = Counts(hosts, unread, silent)
    shards: Any = Served()
    safety, window = LeaseSafety(60, 0.3), LeaseWindow(256, 256, 20)
    asyncio.run(HostLeasing(counts, counts, counts, shards, window, safety, counts, IdleTime()).lease())
    assert counts.asked == asked
