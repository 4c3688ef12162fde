"""Hosts of which a page was read do not wait behind those of which none was, while many pages wait to be read."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

from hypothesis import given, strategies as st

from tests.pacing import run
from webcrawl.documents.html.outline_process import NEW_HOSTS_BYTES, OWN_BYTES, KnownHosts

KNOWN, NEW, OTHER = "http://known.example", "http://new.example", "http://other.example"


def test_known_hosts_have_room_while_new_ones_wait() -> None:
    hosts = KnownHosts()
    with hosts.reading(KNOWN, 10):
        assert hosts.has_room(KNOWN) and hosts.has_room(NEW)
    with hosts.reading(OTHER, NEW_HOSTS_BYTES + 1):
        assert hosts.has_room(KNOWN)
        assert not hosts.has_room(NEW)
        assert not hosts.has_room(OTHER), "a page of it waits"
        with hosts.reading(KNOWN, OWN_BYTES):
            assert hosts.has_room(KNOWN)
            with hosts.reading(KNOWN, 1):
                assert not hosts.has_room(KNOWN)
    assert hosts.has_room(NEW)


def test_a_host_that_waits_goes_on_when_its_own_page_was_read() -> None:
    hosts = KnownHosts()

    async def crawl() -> None:
        with hosts.reading(OTHER, 2 * NEW_HOSTS_BYTES):
            with hosts.reading(KNOWN, OWN_BYTES + 1):
                new, known = (asyncio.ensure_future(hosts.room(host)) for host in (NEW, KNOWN))
                await asyncio.sleep(0)
            await asyncio.wait_for(known, 60)
            assert not new.done()
        await asyncio.wait_for(new, 60)

    run(crawl())


sizes = st.lists(st.integers(0, 2 * NEW_HOSTS_BYTES), min_size=1, max_size=30)


@given(sizes, st.integers(1, 40), st.sets(st.integers(0, 39)))
def test_each_host_that_waits_gets_its_turn(pages: list[int], waiting: int, cancelled: set[int]) -> None:
    """Pages end in their order, some hosts give up, and those that are woken have no page at all."""
    hosts, order = KnownHosts(), list[int]()

    async def wait(number: int) -> None:
        await hosts.room(f"http://{number}.example")
        order.append(number)

    async def crawl() -> None:
        held = [ExitStack() for _ in pages]
        for stack, size in zip(held, pages, strict=True):
            stack.enter_context(hosts.reading(OTHER, size))
        tasks = [asyncio.ensure_future(wait(number)) for number in range(waiting)]
        await asyncio.sleep(0)
        for number in cancelled & set(range(waiting)):
            tasks[number].cancel()
        for stack in held:
            stack.close()
            await asyncio.sleep(0)
        await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 60)

    run(crawl())
    assert order == sorted(order)
    assert set(order) >= set(range(waiting)) - cancelled
