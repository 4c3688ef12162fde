"""The connections of a worker: hosts that answered do not wait for long behind hosts that never do."""

from __future__ import annotations

import asyncio

from hypothesis import given, strategies as st

from tests.pacing import run
from webcrawl.hosts.connections import Connections

TAKE, GIVE, CANCEL, WAIT = "take", "give", "cancel", "wait"
steps = st.lists(
    st.tuples(
        st.sampled_from([TAKE, TAKE, TAKE, GIVE, GIVE, CANCEL, WAIT]), st.booleans(), st.integers(0, 99)
    ),
    max_size=60,
)


@given(st.integers(0, 9), steps)
def test_limits_hold_and_no_request_is_forgotten(total: int, taken: list[tuple[str, bool, int]]) -> None:
    """Requests come, end and are cancelled in any order; in the end each one has had a connection."""
    now = 0.0
    connections = Connections(total, lambda: now)
    held: list[bool] = []
    waiting: dict[asyncio.Task[None], bool] = {}

    async def request(new: bool) -> None:
        await connections.take(new=new)
        held.append(new)

    async def settle() -> None:
        for _ in range(4):
            await asyncio.sleep(0)
        for task in [task for task in waiting if task.done()]:
            del waiting[task]
        if total:
            assert len(held) <= total
            assert 1 <= connections.most_new <= total
            assert connections.has_room == (len(held) < total)
            assert connections.has_room <= (not [new for new in waiting.values() if not new])
        else:
            assert not waiting

    async def crawl() -> None:
        nonlocal now
        for step, new, number in taken:
            if step == TAKE:
                waiting[asyncio.ensure_future(request(new))] = new
            elif step == GIVE and held:
                connections.give(new=held.pop(number % len(held)))
            elif step == CANCEL and waiting:
                list(waiting)[number % len(waiting)].cancel()
            elif step == WAIT:
                now += number / 10
            await settle()
        while held or waiting:
            assert held, "nobody holds a connection, and somebody waits for one"
            connections.give(new=held.pop())
            await settle()

    run(crawl())


def test_hosts_that_never_answered_leave_a_quarter_and_what_others_use() -> None:
    now = 0.0
    connections = Connections(8, lambda: now)

    async def crawl() -> None:
        nonlocal now
        waiting = [asyncio.ensure_future(connections.take(new=True)) for _ in range(20)]
        await asyncio.sleep(0)
        assert sum(task.done() for task in waiting) == 6
        for _ in range(2):
            await asyncio.wait_for(connections.take(new=False), 30)
        others = [asyncio.ensure_future(connections.take(new=False)) for _ in range(2)]
        await asyncio.sleep(0)
        assert not any(task.done() for task in others)
        for _ in range(2):
            connections.give(new=True)
        await asyncio.sleep(0)
        assert all(task.done() for task in others), "they come first"
        for _ in range(4):
            connections.give(new=False)
        connections.give(new=True)
        await asyncio.sleep(0)
        assert connections.most_new == 4, "four connections were used by others a moment ago"
        assert sum(task.done() for task in waiting) == 7
        now += 25
        connections.give(new=True)
        await asyncio.sleep(0)
        assert connections.most_new == 6
        assert sum(task.done() for task in waiting) == 10
        for task in waiting:
            task.cancel()

    run(crawl())


def test_hosts_that_never_answered_get_a_quarter_in_turn_with_others() -> None:
    connections, order = Connections(4), list[str]()

    async def request(name: str, new: bool) -> None:
        await connections.take(new=new)
        order.append(name)

    async def crawl() -> None:
        for _ in range(4):
            await connections.take(new=False)
        tasks = [asyncio.ensure_future(request("n1", True)), asyncio.ensure_future(request("n2", True))]
        tasks += [asyncio.ensure_future(request(name, False)) for name in ("a1", "a2")]
        await asyncio.sleep(0)
        for _ in range(4):
            connections.give(new=False)
        await asyncio.sleep(0)
        assert order == ["n1", "a1", "a2"]
        connections.give(new=True)
        await asyncio.gather(*tasks)
        assert order[3:] == ["n2"]

    run(crawl())
