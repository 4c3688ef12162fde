"""The window of leased hosts: it grows while connections are free, and stays within its bounds."""

from __future__ import annotations

import asyncio
import math
from typing import Any

from hypothesis import given, strategies as st

from tests.cases import cases
from webcrawl.engine.backoff import IdleTime
from webcrawl.frontier import Lease
from webcrawl.worker.due_hosts import Lateness
from webcrawl.worker.leasing import HostLeasing, LeaseSafety, LeaseWindow

states = st.tuples(
    st.integers(0, 12_000), st.integers(0, 12_000), st.booleans(), st.booleans(), st.floats(0, 1)
)


def test_it_grows_until_the_connections_are_busy() -> None:
    window = LeaseWindow(256, 5_000, 20)
    for _ in range(100):
        # a host is due a second after it was asked; 1,000 requests a second keep the connections busy
        busy = window.size >= 1_000
        window.update(0.0, answered=window.size, new=0, due=busy, connections=not busy)
    assert 1_000 <= window.size <= 1_300
    assert window.urls == 20 * 256 // window.size


def test_it_does_not_grow_without_hosts_to_lease() -> None:
    window = LeaseWindow(256, 5_000, 20)
    window.update(0.0, answered=192, new=63, due=False, connections=True)
    assert (window.size, window.urls) == (256, 20)


def test_new_hosts_take_the_places_that_others_leave_and_at_least_a_quarter() -> None:
    window = LeaseWindow(256, 5_000, 20)
    assert window.room(answered=0, new=0) == (256, 256)
    assert window.room(answered=10, new=246) == (246, 0), "hosts that answered never wait for new ones"
    assert window.room(answered=250, new=10) == (6, 54)
    assert window.room(answered=256, new=246) == (0, 0)
    window.update(0.0, answered=10, new=246, due=False, connections=True)
    assert window.size == 256, "new hosts are no reason to lease more"


def test_new_hosts_that_answered_count_as_new_until_their_slice_is_over() -> None:
    window = LeaseWindow(256, 5_000, 20)
    assert window.room(answered=256, new=0, begun=256) == (0, 0), "all hosts were begun a moment ago"
    assert window.room(answered=256, new=0, begun=50) == (0, 14)
    assert window.room(answered=255, new=1, begun=256) == (1, 0)
    assert window.room(answered=200, new=0, begun=200) == (56, 56), "free places are for all"


def test_it_shrinks_to_the_hosts_that_are_asked_in_time() -> None:
    window = LeaseWindow(256, 5_000, 20)
    window.update(0.0, answered=250, new=6, due=True, connections=True, late=0.1)
    assert window.size == 256, "a tenth of the gap is no reason to lease fewer"
    window.update(0.0, answered=250, new=6, due=True, connections=True, late=0.6)
    assert window.size == 160
    window.update(0.0, answered=250, new=6, due=True, connections=True, late=0.6)
    assert window.size == 160, "the hosts that are leased stay for their slices, and their lateness with them"
    for _ in range(100):
        window.update(0.0, answered=window.size, new=0, due=True, connections=True, late=1.0)
    assert (window.size, window.urls) == (64, 20)


@given(st.integers(1, 300), st.integers(0, 6_000), st.integers(1, 20), st.lists(states, max_size=60))
def test_it_stays_within_its_bounds(
    usual: int, most: int, urls: int, steps: list[tuple[int, int, bool, bool, float]]
) -> None:
    window = LeaseWindow(usual, most, urls)
    for step, (answered, new, due, connections, late) in enumerate(steps):
        before = window.size
        window.update(step / 10, answered=answered, new=new, due=due, connections=connections, late=late)
        assert max(1, usual // 4) <= window.size <= max(usual, most)
        assert window.size <= before or (answered + new >= before and not due and connections)
        assert window.size >= before or (due and (late > 0 or not connections))
        assert min(urls, 2) <= window.urls <= max(2, urls)
        assert window.urls == urls or window.size > usual
        hosts, for_new = window.room(answered=answered, new=new, begun=new)
        assert answered + hosts <= max(window.size, answered)
        assert for_new <= max(0, window.size - answered - new, window.size // 4 - new)


class Served:
    """The shards of a worker."""

    def served(self) -> list[int]:
        return [0]


class Counts:
    """What a lease asks for, and the counts by which it is decided."""

    has_room = True
    lateness = Lateness()
    weight = 1.0

    def __init__(self, hosts: int, unread: int, silent: int) -> None:
        self._hosts, self.served, self.silent = hosts, 200 - unread, silent
        self.handed_over = set[str]()
        self.asked: tuple[int, int] | None = None

    def __len__(self) -> int:
        return self._hosts

    def next_at(self) -> float:
        return math.inf

    def begun(self, now: float) -> int:
        return 0

    async def lease(self, hosts: int, urls: int, shards: list[int], *, new: int, **_: Any) -> list[Lease]:
        self.asked = hosts, new
        return []


@cases(
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
