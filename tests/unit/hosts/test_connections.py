"""The connections of a worker: hosts that answered do not wait for long behind hosts that never do."""

from __future__ import annotations

import asyncio

from hypothesis import given, strategies as st

from tests.pacing import run
from webcrawl.hosts.connections import SILENT_SECONDS, SLOW_SECONDS, Connections, Held

TAKE, GIVE, CANCEL, WAIT = "take", "give", "cancel", "wait"
steps = st.lists(
    st.tuples(
        st.sampled_from([TAKE, TAKE, TAKE, GIVE, GIVE, CANCEL, WAIT]), st.booleans(), st.integers(0, 99)
    ),
    max_size=60,
)


@given(st.integers(0, 9), st.integers(0, 4), steps)
def test_limits_hold_and_no_request_is_forgotten(
    total: int, most_slow: int, taken: list[tuple[str, bool, int]]
) -> None:
    """Requests come, end, become slow and are cancelled in any order; in the end each one has had a connection."""
    now = 0.0
    connections = Connections(total, lambda: now, most_slow)
    held: list[Held] = []
    waiting: dict[asyncio.Task[None], bool] = {}

    async def request(new: bool) -> None:
        await connections.take(one := Held(new))
        held.append(one)

    async def settle() -> None:
        for _ in range(4):
            await asyncio.sleep(0)
        for task in [task for task in waiting if task.done()]:
            del waiting[task]
        if total:
            assert connections.slow == sum(one.is_slow for one in held) <= most_slow
            assert connections.silent == sum(one.is_slow for one in held if one.new)
            assert sum(one.is_slow for one in held if one.new) <= (most_slow + 1) // 2
            assert len(held) - connections.slow <= total
            assert 1 <= connections.most_new <= total
            assert connections.has_room == (len(held) - connections.slow < total)
            assert connections.has_room <= (not [new for new in waiting.values() if not new])
        else:
            assert not waiting

    async def crawl() -> None:
        nonlocal now
        for step, new, number in taken:
            if step == TAKE:
                waiting[asyncio.ensure_future(request(new))] = new
            elif step == GIVE and held:
                connections.give(held.pop(number % len(held)))
            elif step == CANCEL and waiting:
                list(waiting)[number % len(waiting)].cancel()
            elif step == WAIT:
                now += number / 10
                connections.lend()
            await settle()
        while held or waiting:
            assert held, "nobody holds a connection, and somebody waits for one"
            connections.give(held.pop())
            await settle()

    run(crawl())


def test_hosts_that_never_answered_leave_a_quarter_and_what_others_use() -> None:
    now = 0.0
    connections = Connections(8, lambda: now)

    async def crawl() -> None:
        nonlocal now
        new = [Held(new=True) for _ in range(20)]
        waiting = [asyncio.ensure_future(connections.take(one)) for one in new]
        await asyncio.sleep(0)
        assert sum(task.done() for task in waiting) == 6
        known = [Held(new=False) for _ in range(4)]
        for one in known[:2]:
            await asyncio.wait_for(connections.take(one), 60)
        others = [asyncio.ensure_future(connections.take(one)) for one in known[2:]]
        await asyncio.sleep(0)
        assert not any(task.done() for task in others)
        for _ in range(2):
            connections.give(new.pop(0))
        await asyncio.sleep(0)
        assert all(task.done() for task in others), "they come first"
        for one in known:
            connections.give(one)
        connections.give(new.pop(0))
        await asyncio.sleep(0)
        assert connections.most_new == 4, "four connections were used by others a moment ago"
        assert sum(task.done() for task in waiting) == 7
        now += 25
        connections.give(new.pop(0))
        await asyncio.sleep(0)
        assert connections.most_new == 6
        assert sum(task.done() for task in waiting) == 10
        for task in waiting:
            task.cancel()

    run(crawl())


def test_hosts_that_never_answered_get_a_quarter_in_turn_with_others() -> None:
    connections, order = Connections(4), list[str]()

    async def request(name: str, held: Held) -> None:
        await connections.take(held)
        order.append(name)

    async def crawl() -> None:
        held = [Held(new=False) for _ in range(4)]
        for one in held:
            await connections.take(one)
        first = Held(new=True)
        tasks = [asyncio.ensure_future(request("n1", first))]
        tasks.append(asyncio.ensure_future(request("n2", Held(new=True))))
        tasks += [asyncio.ensure_future(request(name, Held(new=False))) for name in ("a1", "a2")]
        await asyncio.sleep(0)
        for one in held:
            connections.give(one)
        await asyncio.sleep(0)
        assert order == ["n1", "a1", "a2"]
        connections.give(first)
        await asyncio.gather(*tasks)
        assert order[3:] == ["n2"]

    run(crawl())


def test_slow_requests_make_room_for_others_within_their_bound() -> None:
    now, lent = 0.0, list[int]()
    connections = Connections(4, lambda: now, most_slow=4, on_lent=lambda: lent.append(connections.slow))

    async def crawl() -> None:
        nonlocal now
        slow = [Held(new=number < 3) for number in range(6)]
        taken = [asyncio.ensure_future(connections.take(one)) for one in slow]
        await asyncio.sleep(0)
        assert sum(task.done() for task in taken) == 4
        now += SLOW_SECONDS / 2
        connections.lend(late=SLOW_SECONDS)
        assert not connections.slow
        now += SLOW_SECONDS / 2
        connections.lend()
        await asyncio.sleep(0)
        assert all(task.done() for task in taken)
        assert [one.is_slow for one in slow] == [True, True, False, True, False, False], (
            "half are for new hosts"
        )
        now += SLOW_SECONDS
        connections.lend()
        assert lent == [3, 4], "no more than the bound"
        for one in slow:
            connections.give(one)
        assert (connections.slow, connections.has_room) == (0, True)

    run(crawl())


def test_any_number_of_silent_hosts_soon_makes_room_for_other_new_hosts() -> None:
    now = 0.0
    connections = Connections(4, lambda: now, most_slow=1_000)

    async def crawl() -> None:
        nonlocal now
        silent = [asyncio.ensure_future(connections.take(Held(new=True))) for _ in range(300)]
        honest = asyncio.ensure_future(connections.take(Held(new=True)))
        looks = 0
        while not honest.done():
            now += SILENT_SECONDS
            looks += 1
            connections.lend()
            await asyncio.sleep(0)
        assert looks <= 1 + 300 / 2, "two or three at each look"
        assert all(task.done() for task in silent)
        assert connections.silent == connections.slow >= 297

    run(crawl())


def test_slow_requests_are_looked_for_while_half_of_the_connections_are_used() -> None:
    lent = asyncio.Event()
    connections = Connections(2, most_slow=2, on_lent=lent.set)

    async def crawl() -> None:
        await connections.take(Held(new=False))
        await asyncio.wait_for(lent.wait(), 60)
        assert connections.slow == 1

    run(crawl())
